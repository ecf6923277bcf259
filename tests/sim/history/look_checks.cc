// SPDX-License-Identifier: Apache-2.0
//
// I14, I15 and I16 where the store is observed: what was shown of a lock is a state that the store was in at some
// moment between the question and the answer.
#include <algorithm>
#include <ranges>

#include "history/checks.h"
#include "history/lock_states.h"

namespace distlock::sim {
namespace {

std::string Words(const Report& report, const std::vector<Look::Holder>& holders) {
  std::string text;
  for (const Look::Holder& one : holders) {
    text += (text.empty() ? "" : ", ") + report.Lease(one.lease) + " (token " + std::to_string(one.token) + ")";
  }
  return text.empty() ? "nobody" : text;
}

bool Shows(const Look& look, const LockState& state) {
  return look.holder_count == static_cast<int64_t>(state.holders.size()) &&
         look.holders.size() <= state.holders.size() &&
         std::ranges::equal(look.holders, state.holders | std::views::take(look.holders.size()));
}

// Calls `is` with each state of the lock from the question to the answer, until it is true of one.
template <typename Is>
bool Any(const LockStates& states, const Look& look, int32_t lock, Is is) {
  for (const LockState* state = states.From(lock, look.asked_ns); state != states.End(lock); ++state) {
    if (state->from > look.told_ns) return false;
    if (is(*state)) return true;
  }
  return false;
}

std::string Was(const LockStates& states, const Look& look, const Report& report) {
  std::string text;
  int count = 0;
  Any(states, look, look.lock, [&](const LockState& state) {
    text += (text.empty() ? "" : ", then ") + Words(report, state.holders);
    return ++count == 4;
  });
  return text;
}

void CheckHolders(const Index& index, const LockStates& states, const Look& look, Report& report) {
  if (Any(states, look, look.lock, [&](const LockState& state) { return Shows(look, state); })) return;
  if (!report.Wants("I14")) return;
  const LockState& state = *states.From(look.lock, look.asked_ns);
  report.Add("I14", look.lock,
             {look.holders.empty() ? -1 : look.holders.front().lease,
              state.holders.empty() ? -1 : state.holders.front().lease},
             look.told_ns,
             WordsOf(index, report, look) + " showed as holders: " + Words(report, look.holders) +
                 "; but there were: " + Was(states, look, report));
}

void CheckNewest(const Index& index, const LockStates& states, const Look& look, Report& report) {
  const bool was = Any(states, look, look.lock, [&](const LockState& state) {
    return !state.newest_is_known || state.newest == look.newest_token;
  });
  if ((was && Agrees(look)) || !report.Wants("I15")) return;
  const LockState& state = *states.From(look.lock, look.asked_ns);
  report.Add("I15", look.lock, {state.holders.empty() ? -1 : state.holders.front().lease}, look.told_ns,
             WordsOf(index, report, look) + " showed " + std::to_string(look.newest_token) +
                 " as the newest token; but that was " + std::to_string(state.newest));
}

void CheckList(const Index& index, const LockStates& states, const Look& look, Report& report) {
  if (MayMove(index, look)) return;
  for (int32_t lock = 0; lock < static_cast<int32_t>(index.history.locks.size()); ++lock) {
    if (std::ranges::find(look.listed, lock) != look.listed.end()) continue;
    if (Any(states, look, lock, [](const LockState& state) { return state.holders.empty(); })) continue;
    if (!report.Wants("I16")) return;
    const LockState& state = *states.From(lock, look.asked_ns);
    report.Add("I16", lock, {state.holders.front().lease}, look.told_ns,
               WordsOf(index, report, look) + " had no " + report.Lock(lock) +
                   ", but all that time it was held, first by " + Words(report, state.holders));
  }
}

}  // namespace

std::string WordsOf(const Index& index, const Report& report, const Look& look) {
  static constexpr const char* kCalls[] = {"GetLock", "CheckToken", "ListLocks"};
  std::string text = kCalls[static_cast<size_t>(look.kind)];
  if (look.lock >= 0) text += " of " + report.Lock(look.lock);
  if (look.actor >= 0) text += " through " + index.history.actors[static_cast<size_t>(look.actor)].name;
  text += ", asked at " + Report::At(look.asked_ns) + " and answered at " + Report::At(look.told_ns) + ",";
  if (look.kind != Look::Kind::kToken) return text;
  return text + " said that token " + std::to_string(look.token) + " is " + (look.newest ? "" : "not ") +
         "the newest, and";
}

bool Agrees(const Look& look) {
  return look.kind != Look::Kind::kToken || look.newest == (look.token == look.newest_token);
}

bool MayMove(const Index& index, const Look& look) {
  return index.history.slots_move && std::ranges::any_of(index.troubles, [&](const Trouble& trouble) {
           return trouble.kind == FaultKind::kStoreRefuses && trouble.from <= look.told_ns &&
                  trouble.until >= look.asked_ns;
         });
}

void CheckLooks(const Index& index, Report& report) {
  if (index.history.looks.empty()) return;
  if (!index.sees_store) return CheckLooksByBelief(index, report);
  const LockStates states(index);
  for (const Look& look : index.history.looks) {
    if (look.kind == Look::Kind::kList) {
      CheckList(index, states, look, report);
      continue;
    }
    if (look.kind == Look::Kind::kLock) CheckHolders(index, states, look, report);
    CheckNewest(index, states, look, report);
  }
}

}  // namespace distlock::sim
