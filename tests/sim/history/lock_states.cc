// SPDX-License-Identifier: Apache-2.0
#include "history/lock_states.h"

#include <algorithm>

namespace distlock::sim {

LockStates::LockStates(const Index& index)
    : index_(index), of_(index.history.locks.size()), calls_(index.history.locks.size(), 0) {
  for (std::vector<LockState>& states : of_) states.emplace_back();
  for (const Record& record : index.history.records) Read(record);
}

const LockState* LockStates::From(int32_t lock, int64_t at) const {
  const std::vector<LockState>& states = of_[static_cast<size_t>(lock)];
  const auto found = std::ranges::lower_bound(states, at, {}, &LockState::until);
  return states.data() + (found - states.begin());
}

// Records of one call are one step. Where calls are not numbered, those of one instant are.
LockState& LockStates::Next(size_t lock, const Record& record) {
  std::vector<LockState>& states = of_[lock];
  if (states.back().from == record.at_ns && calls_[lock] == record.value) return states.back();
  calls_[lock] = record.value;
  LockState next = states.back();
  states.back().until = next.from = record.at_ns;
  states.push_back(std::move(next));
  return states.back();
}

void LockStates::Read(const Record& record) {
  const auto lock = static_cast<size_t>(record.lock);
  switch (record.kind) {
    case RecordKind::kTook:
      return Took(record, Next(lock, record));
    case RecordKind::kFreed: {
      const auto is_it = [&](const Look::Holder& one) {
        return one.lease == record.lease && (record.token == 0 || one.token == record.token);
      };
      std::erase_if(Next(lock, record).holders, is_it);
      return;
    }
    case RecordKind::kForgot:
      for (size_t any = 0; any < of_.size(); ++any) {
        if (record.lock < 0 || any == lock) Next(any, record).newest_is_known = false;
      }
      return;
    default:
      return;
  }
}

void LockStates::Took(const Record& record, LockState& state) {
  const Look::Holder holder{record.lease, record.token};
  state.holders.insert(std::ranges::upper_bound(state.holders, record.token, {}, &Look::Holder::token), holder);
  if (index_.Named(record).took != record.at_ns) return;  // a store that was rolled back has it again
  state.newest = record.token;
  state.newest_is_known = true;
}

}  // namespace distlock::sim
