// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "core/check.h"
#include "store/redis/reply_code.h"
#include "store/redis/reply_parts.h"
#include "store/redis/wire_value.h"
#include "store/redlock/vote_codec.h"

namespace distlock::store {
namespace {

using ballot::Outcome;
using Read = std::optional<Outcome>;

// A place, or another number that may be negative.
std::optional<ballot::Place> ReadPlace(const ReplyArray& reply, size_t i) {
  std::string_view text = reply.String(i).value_or("");
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto number = ParseNumber(text);
  if (!number || *number > uint64_t{1} << 53) return std::nullopt;
  return negative ? -static_cast<ballot::Place>(*number) : static_cast<ballot::Place>(*number);
}

// left_ms at `i`, the length behind it, the kind of the holders at `kind`, holders behind that.
bool ReadHolding(const ReplyArray& reply, size_t i, size_t kind, ballot::NotVoted& to) {
  const auto left = reply.Integer(i);
  const auto length = Count(reply, i + 1);
  const auto mode = reply.String(kind);
  auto holders = ReadHolders(reply, kind + 1, reply.size());
  if (!left || !length || !mode || !holders || (!mode->empty() && !ModeOf(*mode))) return false;
  if (*left != -2) to.left = FromPttl(*left);
  to.queue_length = *length;
  to.mode = ModeOf(*mode);
  to.holders = *std::move(holders);
  return true;
}

Read ReadVote(int64_t code, const ReplyArray& reply) {
  ballot::NotVoted not_voted;
  switch (code) {
    case kGranted: {
      const auto token = Number(reply, 2);
      const auto since = Number(reply, 3);
      const bool is_found = reply.size() == 5 && reply.String(4) == "found";
      const auto left = is_found ? std::nullopt : Number(reply, 4);
      if (reply.size() != (is_found || left ? 5 : 4) || !token || *token == 0 || !since) return std::nullopt;
      ballot::Voted voted{*token, AsStoreTime(*since), HeldFor(reply, AsStoreTime(*since)), {}, is_found};
      if (left) voted.hold_left = FromMs(*left);
      return voted;
    }
    case kQueued: {
      const auto position = Count(reply, 2);
      const auto place = ReadPlace(reply, 6);
      const auto tail = ReadPlace(reply, 7);
      if (!position || !place || !tail || !ReadHolding(reply, 3, 8, not_voted)) return std::nullopt;
      not_voted.queued = true;
      not_voted.position = *position;
      not_voted.place = *place;
      not_voted.tail = *tail;
      return not_voted;
    }
    case kHeld:
      if (!ReadHolding(reply, 2, 4, not_voted)) return std::nullopt;
      return not_voted;
    case kLate:
      return core::AcquireLate{};
    case kQueueFull: {
      const auto length = Count(reply, 2);
      if (!length) return std::nullopt;
      return core::AcquireQueueFull{*length};
    }
    case kMismatch: {
      const auto mode = ModeOf(reply.String(2).value_or(""));
      const auto limit = Count(reply, 3);
      if (!mode || !limit) return std::nullopt;
      return core::AcquireMismatch{*mode, *limit};
    }
    default:
      return std::nullopt;
  }
}

Read ReadConfirm(int64_t code, const ReplyArray& reply) {
  if (code == kConfirmed) return ballot::Confirmed{};
  if (code == kGone || code == kNotHolder) return ballot::NotHeld{};
  const auto last = Number(reply, 2);
  if (code != kLow || !last) return std::nullopt;
  return ballot::TooLow{*last};
}

Read ReadJoin(int64_t code) {
  if (code == kJoined) return ballot::Joined{};
  if (code == kHeld) return ballot::Conflict{};
  if (code == kLate) return core::AcquireLate{};
  return std::nullopt;
}

Read ReadGaveBack(int64_t code, const ReplyArray& reply) {
  ballot::GaveBack gave;
  gave.was_holder = code == kReleased;
  gave.was_waiter = code == kWithdrawn;
  const auto word = reply.String(2);
  if (code != kReleased && code != kWithdrawn && code != kGone && code != kYielded) return std::nullopt;
  if (word == "blocked") {
    const auto left = Number(reply, 3);
    if (!left) return std::nullopt;
    gave.blocked_for = FromMs(*left);
    return gave;
  }
  auto next = ReadGrants(reply, 3);
  if (!word || (!word->empty() && *word != "look") || !next) return std::nullopt;
  gave.look = !word->empty();
  gave.next = *std::move(next);
  return gave;
}

Read ReadRelease(int64_t code, const ReplyArray& reply) {
  if (code != kNotHolder) return ReadGaveBack(code, reply);
  return ballot::GaveBack{};
}

Read ReadByScript(const lua::ScriptSource& script, int64_t code, const ReplyArray& reply) {
  if (&script == &lua::kRedlockAcquire) return ReadVote(code, reply);
  if (&script == &lua::kRedlockConfirm) return ReadConfirm(code, reply);
  if (&script == &lua::kRedlockJoin) return ReadJoin(code);
  if (&script == &lua::kRedlockRelease) return ReadRelease(code, reply);
  if (code == kNotHolder) return ballot::NotHeld{};
  return ReadGaveBack(code, reply);
}

}  // namespace

VoteCodec::Decoded VoteCodec::Decode(const lua::ScriptSource& script, const Answer& answer) {
  Decoded out{.outcome = core::StoreUnknown{answer.cause}, .time = {}};
  if (answer.kind == Answer::Kind::kNotSent) out.outcome = core::StoreFailed{core::FailureKind::kNotSent, answer.cause};
  if (answer.kind != Answer::Kind::kReply) return out;
  if (IsError(*answer.reply)) {
    std::visit([&](auto&& error) { out.outcome = std::forward<decltype(error)>(error); },
               ReadError(Text(*answer.reply)));
    return out;
  }
  const ReplyArray reply(*answer.reply);
  const auto code = reply.Integer(0);
  const auto time = Number(reply, 1);
  Read read;
  if (code == kForeign && time && reply.size() == 4) {
    read = ForeignKey(reply);
  } else if (code && time && *time > 0) {
    read = ReadByScript(script, *code, reply);
  }
  if (!read) {
    out.malformed = true;
    out.outcome = core::StoreUnknown{"the server's answer has a shape that no script of this version has"};
    return out;
  }
  out.outcome = *std::move(read);
  out.time = AsStoreTime(*time);
  return out;
}

absl::StatusOr<VoteCodec::Member> VoteCodec::DecodeMember(const Answer& answer) {
  if (answer.kind != Answer::Kind::kReply) return absl::UnavailableError(answer.cause);
  if (IsError(*answer.reply)) return absl::UnavailableError(std::string(Text(*answer.reply)));
  const ReplyArray reply(*answer.reply);
  const auto mark = reply.String(2);
  const auto is_new = reply.Integer(3);
  const auto now = Number(reply, 1), beat = Number(reply, 4), announced = Number(reply, 5), ttl_ms = Number(reply, 6);
  if (reply.Integer(0) != kMember || !mark || !is_new || !now || !beat || !announced || !ttl_ms) {
    return absl::UnavailableError("an answer of unknown shape");
  }
  return Member{std::string(*mark),
                *is_new != 0,
                {.now = AsStoreTime(*now),
                 .beat = AsStoreTime(*beat),
                 .announced = AsStoreTime(*announced),
                 .longest_ttl = FromMs(*ttl_ms)}};
}

ballot::Outcome OutcomeOf(core::StoreReply&& reply) {
  return std::visit(
      [](auto&& outcome) -> ballot::Outcome {
        using T = std::decay_t<decltype(outcome)>;
        if constexpr (std::is_constructible_v<ballot::Outcome, T>) {
          return std::forward<decltype(outcome)>(outcome);
        } else {
          return core::StoreUnknown{"an answer of another command"};
        }
      },
      std::move(reply.outcome));
}

}  // namespace distlock::store
