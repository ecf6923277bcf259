// SPDX-License-Identifier: Apache-2.0
#include "store/redis/script_batch.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "store/redis/resp.h"

namespace distlock::store {
namespace {

// One call holds the server for as long as its items take.
constexpr size_t kMaxItems = 16;

// Of those that batch.lua knows; null of all others.
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
         std::none_of(gathered_.begin(), gathered_.end(), [&](const auto& other) { return *LockOf(other) == *lock; });
}

void ScriptBatch::Add(core::StoreCommand&& command) {
  if (!Joins(command)) Send();
  if (LockOf(command) == nullptr) return SendAlone(command);
  gathered_.push_back(std::move(command));
}

void ScriptBatch::Send() {
  if (gathered_.size() > 1) {
    EncodedBatch encoded = codec_->EncodeBatch(gathered_);
    scripts_->Call(
        lua::kBatch, std::move(encoded.bytes),
        [this, questions = std::move(encoded.questions)](const Answer& answer) { Answered(questions, answer); });
  } else if (!gathered_.empty()) {
    SendAlone(gathered_.front());
  }
  gathered_.clear();
}

void ScriptBatch::SendAlone(const core::StoreCommand& command) {
  Encoded encoded = codec_->Encode(command);
  scripts_->Call(*encoded.script, std::move(encoded.bytes),
                 [this, question = encoded.question](const Answer& answer) { on_answer_(question, answer); });
}

void ScriptBatch::Answered(const std::vector<Question>& questions, const Answer& answer) const {
  const BatchReply reply(answer.reply, questions.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    reply.Of(i, [&](const redisReply* item) { on_answer_(questions[i], {answer.kind, item, answer.cause}); });
  }
}

}  // namespace distlock::store
