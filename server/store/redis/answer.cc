// SPDX-License-Identifier: Apache-2.0
#include "store/redis/answer.h"

#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/resp.h"

namespace distlock::store {
namespace {

// Answers after which this connection is of no use: another may reach the primary, or log in again.
bool NeedsNewConnection(const redisReply& reply) {
  if (!IsError(reply)) return false;
  const std::string_view text = Text(reply);
  return ClassifyError(text) == ErrorClass::kWrongServer || text.starts_with("NOAUTH");
}

}  // namespace

Understood Understand(const Codec& codec, const Question& question, const Answer& answer) {
  Understood understood;
  understood.reply.op = question.op;
  switch (answer.kind) {
    case Answer::Kind::kNotSent:
      understood.reply.outcome = core::StoreFailed{core::FailureKind::kNotSent, answer.cause};
      break;
    case Answer::Kind::kUnknown:
      understood.reply.outcome = core::StoreUnknown{answer.cause};
      break;
    case Answer::Kind::kReply: {
      Decoded decoded = codec.Decode(question, *answer.reply);
      understood.reply = std::move(decoded.reply);
      if (decoded.odd) {
        understood.reconnect = "the server answered in an unknown shape";
      } else if (NeedsNewConnection(*answer.reply)) {
        understood.reconnect = std::string(Text(*answer.reply));
      }
      break;
    }
  }
  return understood;
}

}  // namespace distlock::store
