// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "store/codec.h"
#include "store/resp.h"
#include "store/store_error.h"
#include "store/text.h"
#include "store/wire_value.h"

namespace distlock::store {
namespace {

using Verb = Question::Verb;
using Outcome = decltype(core::StoreReply::outcome);

enum Code : int64_t {
  kGranted = 1,
  kQueued = 2,
  kHeld = 3,
  kLate = 4,
  kForeign = 5,
  kQueueFull = 6,
  kReleased = 7,
  kNotHolder = 8,
  kWithdrawn = 9,
  kGone = 10,
  kTended = 11,
  kRenewed = 12,
  kInspected = 13,
};

std::optional<uint64_t> Number(const ReplyArray& reply, size_t i) {
  const auto text = reply.String(i);
  return text ? ParseNumber(*text) : std::nullopt;
}

std::optional<uint32_t> Count(const ReplyArray& reply, size_t i) {
  const auto n = reply.Integer(i);
  if (!n || *n < 0 || *n > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*n);
}

// A lock's holder and who waits: value at `i + 1`, its PTTL at `i`, the queue's length at `i + 2`.
struct Holding {
  std::optional<core::HolderView> holder;
  uint32_t queue_length = 0;
};

std::optional<Holding> ReadHolding(const ReplyArray& reply, size_t i) {
  const auto pttl = reply.Integer(i);
  const auto value = reply.String(i + 1);
  const auto length = Count(reply, i + 2);
  if (!pttl || !value || !length) return std::nullopt;
  Holding out;
  out.queue_length = *length;
  if (value->empty()) return out;
  out.holder = ParseHolder(*value, *pttl);
  if (!out.holder) return std::nullopt;
  return out;
}

// owner, token, since, ttl and delay as five strings from `i` on.
std::optional<core::HolderView> ReadHolderFields(const ReplyArray& reply, size_t i) {
  const auto hex = reply.String(i);
  const auto owner = hex ? ParseOwner(*hex) : std::nullopt;
  const auto token = Number(reply, i + 1);
  const auto since = Number(reply, i + 2);
  const auto ttl = Number(reply, i + 3);
  const auto delay = Number(reply, i + 4);
  if (!owner || !token || !since || !ttl || !delay) return std::nullopt;
  core::HolderView view;
  view.owner = *owner;
  view.token = *token;
  view.since = AsStoreTime(*since);
  view.ttl = FromMs(*ttl);
  view.lock_delay = FromMs(*delay);
  view.time_left = FromMs(*ttl) + FromMs(*delay);
  return view;
}

std::optional<Outcome> ReadAcquire(int64_t code, const ReplyArray& reply) {
  switch (code) {
    case kGranted: {
      const auto token = Number(reply, 2);
      const auto since = Number(reply, 3);
      if (reply.size() != 4 || !token || *token == 0 || !since) return std::nullopt;
      return core::AcquireGranted{*token, AsStoreTime(*since)};
    }
    case kQueued: {
      const auto position = Count(reply, 2);
      auto holding = ReadHolding(reply, 3);
      if (reply.size() != 6 || !position || !holding) return std::nullopt;
      return core::AcquireQueued{*position, std::move(holding->holder), holding->queue_length};
    }
    case kHeld: {
      auto holding = ReadHolding(reply, 2);
      if (reply.size() != 5 || !holding) return std::nullopt;
      return core::AcquireHeld{std::move(holding->holder), holding->queue_length};
    }
    case kLate:
      if (reply.size() != 2) return std::nullopt;
      return core::AcquireLate{};
    case kQueueFull: {
      const auto length = Count(reply, 2);
      if (reply.size() != 3 || !length) return std::nullopt;
      return core::AcquireQueueFull{*length};
    }
    default:
      return std::nullopt;
  }
}

std::optional<Outcome> ReadRenew(int64_t code, const ReplyArray& reply, size_t items) {
  if (code != kRenewed || reply.size() != items + 2) return std::nullopt;
  core::RenewDoneBatch batch;
  batch.results.reserve(items);
  for (size_t i = 0; i < items; ++i) {
    const auto result = reply.Integer(i + 2);
    if (result == 1) {
      batch.results.push_back(core::RenewResult::kRenewed);
    } else if (result == 0) {
      batch.results.push_back(core::RenewResult::kGone);
    } else if (result == 2) {
      batch.results.push_back(core::RenewResult::kAnothers);
    } else {
      return std::nullopt;
    }
  }
  return batch;
}

std::optional<Outcome> ReadReleased(const ReplyArray& reply) {
  core::GiveBackDone done;
  done.was_holder = true;
  if (reply.size() == 2 || (reply.size() == 3 && reply.String(2) == "blocked")) return done;
  if (reply.size() != 8 || !reply.String(7)) return std::nullopt;
  done.next = ReadHolderFields(reply, 2);
  if (!done.next) return std::nullopt;
  return done;
}

std::optional<Outcome> ReadGiveBack(int64_t code, const ReplyArray& reply, Verb verb) {
  if (code == kReleased) return ReadReleased(reply);
  if (reply.size() != 2) return std::nullopt;
  core::GiveBackDone done;
  if (code == kGone || (code == kNotHolder && verb == Verb::kRelease)) return done;
  if (code != kWithdrawn || verb != Verb::kWithdraw) return std::nullopt;
  done.was_waiter = true;
  return done;
}

std::optional<Outcome> ReadTend(int64_t code, const ReplyArray& reply) {
  core::TendDone done;
  if (code == kGone && reply.size() == 2) {
    done.slot_was_gone = true;
    return done;
  }
  const auto pttl = reply.Integer(2);
  const auto owner = reply.String(3);
  const auto more = reply.Integer(8);
  if (code != kTended || reply.size() != 9 || !pttl || !owner || !more) return std::nullopt;
  done.more = *more != 0;
  if (owner->empty()) return done;
  done.holder = ReadHolderFields(reply, 3);
  if (!done.holder) return std::nullopt;
  done.holder->time_left = FromPttl(*pttl);
  return done;
}

std::optional<Outcome> ReadByVerb(const Question& question, int64_t code, const ReplyArray& reply) {
  switch (question.verb) {
    case Verb::kAcquire:
      return ReadAcquire(code, reply);
    case Verb::kRenew:
      return ReadRenew(code, reply, question.items);
    case Verb::kRelease:
    case Verb::kWithdraw:
      return ReadGiveBack(code, reply, question.verb);
    case Verb::kTend:
      return ReadTend(code, reply);
  }
  return std::nullopt;
}

std::string ForeignCause(const ReplyArray& reply) {
  const std::string_view key = reply.String(2).value_or("?");
  const std::string_view what = reply.String(3).value_or("?");
  return Cat("the store has something else under ", key, " (", what == "shape" ? "a value that is not a lock's" : what,
             "); remove it or use another key");
}

Outcome ReadError(std::string_view text) {
  std::string cause(text);
  switch (ClassifyError(text)) {
    case ErrorClass::kUnknown:
      return core::StoreUnknown{std::move(cause)};
    case ErrorClass::kFull:
      return core::StoreFailed{core::FailureKind::kFull, std::move(cause)};
    case ErrorClass::kNoScript:
    case ErrorClass::kUnavailable:
    case ErrorClass::kWrongServer:
    case ErrorClass::kDenied:
      return core::StoreFailed{core::FailureKind::kUnavailable, std::move(cause)};
  }
  return core::StoreUnknown{std::move(cause)};
}

// since and milliseconds
std::optional<core::GrantNotice> ReadBlock(core::LockName name, const std::vector<std::string_view>& fields) {
  const auto since = ParseNumber(fields[0]);
  const auto block = ParseNumber(fields[1]);
  if (!since || !block) return std::nullopt;
  return core::GrantNotice{.name = std::move(name), .since = AsStoreTime(*since), .ttl = FromMs(*block)};
}

}  // namespace

Decoded Codec::Decode(const Question& question, const redisReply& raw) const {
  Decoded out{.reply = {.op = question.op, .time = {}, .outcome = core::StoreUnknown{}}};
  if (IsError(raw)) {
    out.reply.outcome = ReadError(Text(raw));
    return out;
  }
  const ReplyArray reply(raw);
  const auto code = reply.Integer(0);
  const auto time = Number(reply, 1);
  std::optional<Outcome> outcome;
  if (code == kForeign && time && question.verb != Verb::kRenew && reply.size() == 4) {
    outcome = core::StoreFailed{core::FailureKind::kForeignKey, ForeignCause(reply)};
  } else if (code && time && *time > 0) {
    outcome = ReadByVerb(question, *code, reply);
  }
  out.odd = !outcome;
  if (!outcome) {
    out.reply.outcome = core::StoreUnknown{"the store's answer has a shape that no script of this version has"};
    return out;
  }
  out.reply.outcome = *std::move(outcome);
  // Failures carry no time: it is only for commands whose sending time counts.
  if (!std::holds_alternative<core::StoreFailed>(out.reply.outcome)) out.reply.time = AsStoreTime(*time);
  return out;
}

absl::StatusOr<LockView> Codec::DecodeInspect(const core::LockName& name, const redisReply& raw) {
  if (IsError(raw)) return absl::UnavailableError(Cat("the store answered: ", Text(raw)));
  const ReplyArray reply(raw);
  const auto code = reply.Integer(0);
  if (code == kForeign && reply.size() == 4) return absl::FailedPreconditionError(ForeignCause(reply));
  const auto last_token = Number(reply, 4);
  const auto odd = absl::UnavailableError("the store's answer to inspect has an unknown shape");
  const auto pttl = reply.Integer(2);
  const auto value = reply.String(3);
  const auto length = Count(reply, 5);
  if (code != kInspected || !pttl || !value || !last_token || !length || reply.size() % 2 != 0) return odd;
  LockView view;
  view.name = name;
  view.last_token = *last_token;
  view.queue_length = *length;
  if (!value->empty()) {
    view.holder = ParseHolder(*value, *pttl);
    if (!view.holder) return odd;
  }
  for (size_t i = 6; i < reply.size(); i += 2) {
    const auto hex = reply.String(i);
    const auto waiter = reply.String(i + 1);
    if (!hex || !waiter) return odd;
    // A member that is no owner id was put there by somebody else; the scripts pass over it, and so does this.
    if (const auto owner = ParseOwner(*hex)) view.waiters.push_back(ParseWaiter(*owner, *waiter));
  }
  return view;
}

std::optional<core::GrantNotice> Codec::DecodeNotice(std::string_view payload) {
  const size_t line = payload.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  auto name = core::LockName::FromEscaped(payload.substr(0, line));
  const std::vector<std::string_view> fields = Split(payload.substr(line + 1), ';');
  if (name && fields.size() == 2) return ReadBlock(*std::move(name), fields);
  if (!name || fields.size() != 5) return std::nullopt;
  const auto owner = ParseOwner(fields[0]);
  const auto token = ParseNumber(fields[1]);
  const auto since = ParseNumber(fields[2]);
  const auto ttl = ParseNumber(fields[3]);
  if (!owner || !token || *token == 0 || !since || !ttl || !ParseNumber(fields[4])) return std::nullopt;
  core::GrantNotice notice;
  notice.name = *std::move(name);
  notice.owner = *owner;
  notice.token = *token;
  notice.since = AsStoreTime(*since);
  notice.ttl = FromMs(*ttl);
  return notice;
}

}  // namespace distlock::store
