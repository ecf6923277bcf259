// SPDX-License-Identifier: Apache-2.0
#include "store/redis/script_batch.h"

#include <algorithm>
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
  return release != nullptr && release->block <= core::Duration::zero() ? &release->name : nullptr;
}

}  // namespace

ScriptBatch::ScriptBatch(const Codec* codec, ScriptCaller* scripts, OnAnswer on_answer)
    : codec_(codec), scripts_(scripts), on_answer_(std::move(on_answer)) {
  gathered_.reserve(kMaxItems);
}

bool ScriptBatch::Joins(const core::StoreCommand& command) const {
  const core::LockName* lock = LockOf(command);
  return lock != nullptr && gathered_.size() < kMaxItems &&
         (gathered_.empty() || codec_->TokenKeep(*LockOf(gathered_.front())) == codec_->TokenKeep(*lock)) &&
         std::none_of(gathered_.begin(), gathered_.end(), [&](const auto& other) { return *LockOf(other) == *lock; });
}

void ScriptBatch::Add(core::StoreCommand&& command) {
  if (!Joins(command)) Send();
  if (LockOf(command) == nullptr || codec_->holds_off()) return SendAlone(command);
  gathered_.push_back(std::move(command));
}

void ScriptBatch::Send() {
  // What was gathered before a hold-off goes alone, too.
  if (gathered_.size() > 1 && codec_->holds_off()) {
    for (const core::StoreCommand& one : gathered_) SendAlone(one);
  } else if (gathered_.size() > 1) {
    EncodedBatch encoded = codec_->EncodeBatch(gathered_);
    scripts_->Call(lua::kBatch, std::move(encoded.bytes),
                   [this, sent = std::move(encoded.sent)](const Answer& answer) { Answered(sent, answer); });
  } else if (!gathered_.empty()) {
    SendAlone(gathered_.front());
  }
  gathered_.clear();
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
