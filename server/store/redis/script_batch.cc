// SPDX-License-Identifier: Apache-2.0
#include "store/redis/script_batch.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "store/redis/batch_reply.h"

namespace distlock::store {
namespace {

// One call blocks the server until its last item is done.
constexpr size_t kMaxItems = 16;

// The lock of a command that batch.lua knows; null for all others.
const core::LockName* LockOf(const core::StoreCommand& command) {
  if (const auto* acquire = std::get_if<core::StoreAcquire>(&command)) return &acquire->name;
  const auto* release = std::get_if<core::StoreRelease>(&command);
  const bool fits = release != nullptr && release->block <= core::Duration::zero() && !release->ends_min_hold;
  return fits ? &release->name : nullptr;
}

// True for readers, as far as the command shows. Several readers' commands for one lock batch.lua runs in one go; other
// items of one lock it does one by one, which costs more than calls of their own scripts.
bool MayBeReaders(const core::StoreCommand& command) {
  const auto* acquire = std::get_if<core::StoreAcquire>(&command);
  return acquire == nullptr || acquire->want.mode == core::Mode::kShared;
}

}  // namespace

ScriptBatch::ScriptBatch(const Codec* codec, ScriptCaller* scripts, OnAnswer on_answer)
    : codec_(codec), scripts_(scripts), on_answer_(std::move(on_answer)) {
  first_.reserve(kMaxItems);
  second_.reserve(kMaxItems);
}

ScriptBatch::Batch::iterator ScriptBatch::BehindItsLock(Batch& batch, const core::LockName& lock) {
  const auto last = std::find_if(batch.rbegin(), batch.rend(), [&](const auto& one) { return *LockOf(one) == lock; });
  return last == batch.rend() ? batch.begin() : last.base();
}

bool ScriptBatch::HasRoom(const Batch& batch, const core::LockName& lock) const {
  return batch.size() < kMaxItems &&
         (batch.empty() || codec_->TokenKeep(*LockOf(batch.front())) == codec_->TokenKeep(lock));
}

bool ScriptBatch::Join(Batch& batch, Batch::iterator behind, core::StoreCommand& command) const {
  // All of this lock that is in the batch may be readers', or it is one command: so the last one tells.
  if (batch.size() >= kMaxItems || !MayBeReaders(command) || !MayBeReaders(*std::prev(behind))) return false;
  batch.insert(behind, std::move(command));
  return true;
}

void ScriptBatch::Add(core::StoreCommand&& command) {
  const core::LockName* lock = LockOf(command);
  if (lock == nullptr || codec_->holds_off()) {
    Send();
    return SendAlone(command);
  }
  const auto second = BehindItsLock(second_, *lock);
  if (second != second_.begin()) {
    if (Join(second_, second, command)) return;
  } else {
    const auto first = BehindItsLock(first_, *lock);
    const bool has = first != first_.begin();
    if (has && Join(first_, first, command)) return;
    if (!has && HasRoom(first_, *lock)) return first_.push_back(std::move(command));
    if (HasRoom(second_, *lock)) return second_.push_back(std::move(command));
  }
  Send();
  first_.push_back(std::move(command));
}

void ScriptBatch::Send() {
  SendBatch(first_);
  SendBatch(second_);
}

void ScriptBatch::SendBatch(Batch& batch) {
  // Commands from before a hold-off go alone, too.
  if (batch.size() > 1 && codec_->holds_off()) {
    for (const core::StoreCommand& one : batch) SendAlone(one);
  } else if (batch.size() > 1) {
    EncodedBatch encoded = codec_->EncodeBatch(batch);
    scripts_->Call(lua::kBatch, std::move(encoded.bytes),
                   [this, sent = std::move(encoded.sent)](const Answer& answer) { Answered(sent, answer); });
  } else if (!batch.empty()) {
    SendAlone(batch.front());
  }
  batch.clear();
}

void ScriptBatch::SendAlone(const core::StoreCommand& command) {
  Encoded encoded = codec_->Encode(command);
  scripts_->Call(*encoded.script, std::move(encoded.bytes),
                 [this, sent = encoded.sent](const Answer& answer) { on_answer_(sent, answer); });
}

void ScriptBatch::Answered(const std::vector<SentCommand>& sent, const Answer& answer) const {
  const BatchReply reply(answer.reply, sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    reply.Of(i, [&](const redisReply* item) {
      on_answer_(sent[i], {answer.kind, item, answer.cause, answer.sent, answer.received});
    });
  }
}

}  // namespace distlock::store
