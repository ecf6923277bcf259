// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "store/redis/codec.h"
#include "store/redis/error_class.h"
#include "store/redis/reply_code.h"
#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using Verb = SentCommand::Verb;
using Outcome = decltype(core::StoreReply::outcome);

// The holders of a lock and the length of its queue: left_ms at `i`, the length behind it, holders up to the end.
struct Holding {
  std::optional<core::Duration> left;
  uint32_t queue_length = 0;
  std::vector<core::HolderView> holders;
};

std::optional<core::Duration> LeftOf(int64_t left_ms) {
  return left_ms == -2 ? std::nullopt : std::optional(FromPttl(left_ms));
}

std::optional<Holding> ReadHolding(const ReplyArray& reply, size_t i, size_t holders_at) {
  const auto left = reply.Integer(i);
  const auto length = Count(reply, i + 1);
  auto holders = ReadHolders(reply, holders_at, reply.size());
  if (!left || !length || !holders) return std::nullopt;
  return Holding{LeftOf(*left), *length, *std::move(holders)};
}

// Grants under a greater token came after this reply. The lock's last token can have been deleted, or lost by a
// failover: its holders' tokens and the time, which every token is at least, bound it then.
uint64_t AsOf(const ReplyArray& reply, uint64_t last_token, const std::vector<core::HolderView>& holders) {
  const uint64_t time = Number(reply, 1).value_or(0);
  uint64_t as_of = std::max(last_token, time == 0 ? 0 : time - 1);
  for (const core::HolderView& holder : holders) as_of = std::max(as_of, holder.token);
  return as_of;
}

std::optional<Outcome> ReadAcquire(int64_t code, const ReplyArray& reply) {
  switch (code) {
    case kGranted: {
      const auto token = Number(reply, 2);
      const auto since = Number(reply, 3);
      if (reply.size() != 4 || !token || *token == 0 || !since) return std::nullopt;
      const core::Duration held_for = HeldFor(reply, AsStoreTime(*since));
      return core::AcquireGranted{*token, AsStoreTime(*since), held_for, held_for};
    }
    case kQueued: {
      const auto position = Count(reply, 2);
      const auto last_token = Number(reply, 5);
      auto holding = ReadHolding(reply, 3, 6);
      if (!position || !last_token || !holding) return std::nullopt;
      const uint64_t as_of = AsOf(reply, *last_token, holding->holders);
      return core::AcquireQueued{*position, std::move(holding->holders), holding->queue_length, holding->left, as_of};
    }
    case kHeld: {
      auto holding = ReadHolding(reply, 2, 4);
      if (!holding) return std::nullopt;
      return core::AcquireHeld{std::move(holding->holders), holding->queue_length, holding->left};
    }
    case kLate:
      if (reply.size() != 2) return std::nullopt;
      return core::AcquireLate{};
    case kQueueFull: {
      const auto length = Count(reply, 2);
      if (reply.size() != 3 || !length) return std::nullopt;
      return core::AcquireQueueFull{*length};
    }
    case kMismatch: {
      const auto mode = ModeOf(reply.String(2).value_or(""));
      const auto limit = Count(reply, 3);
      if (reply.size() != 4 || !mode || !limit) return std::nullopt;
      return core::AcquireMismatch{*mode, *limit};
    }
    default:
      return std::nullopt;
  }
}

std::optional<Outcome> ReadAcquireAll(int64_t code, const ReplyArray& reply, size_t items) {
  if (code == kLate && reply.size() == 2) return core::AcquireLate{};
  core::AcquireAllDone done;
  if (code == kHeld && reply.size() == 3 && reply.Integer(2)) return done;
  if (code != kGranted || reply.size() != 2 + 2 * items) return std::nullopt;
  for (size_t i = 2; i < reply.size(); i += 2) {
    const auto token = Number(reply, i);
    const auto since = Number(reply, i + 1);
    if (!token || *token == 0 || !since) return std::nullopt;
    done.grants.push_back({*token, AsStoreTime(*since)});
  }
  return done;
}

std::optional<Outcome> ReadRenew(int64_t code, const ReplyArray& reply, const SentCommand& sent) {
  const auto results = reply.size() == 3 || reply.size() == 4 ? reply.String(2) : std::nullopt;
  if (code != kRenewed || !results || results->size() != sent.items) return std::nullopt;
  const auto left = Number(reply, 3);
  if (reply.size() == 4 && (!left || sent.items != 1)) return std::nullopt;
  core::RenewDoneBatch batch;
  batch.results.reserve(sent.items);
  for (const core::StoreTime until : sent.hold_untils) {
    batch.hold_left.push_back(until.us == 0 ? core::Duration::max() : -HeldFor(reply, until));
  }
  if (left) {
    batch.hold_left.resize(1, core::Duration::max());
    batch.hold_left[0] = std::min<core::Duration>(batch.hold_left[0], FromMs(*left));
  }
  for (const char result : *results) {
    if (result == '1') {
      batch.results.push_back(core::RenewResult::kRenewed);
    } else if (result == '0') {
      batch.results.push_back(core::RenewResult::kGone);
    } else if (result == '2') {
      batch.results.push_back(core::RenewResult::kAnothers);
    } else if (result == '3') {
      batch.results.push_back(core::RenewResult::kMoved);
    } else {
      return std::nullopt;
    }
  }
  return batch;
}

// The effect of a hold that ends, or is shared: "" or "look", then the next holders.
struct PassedOn {
  bool look = false;
  std::vector<core::HolderView> next;
};

std::optional<PassedOn> ReadPassedOn(const ReplyArray& reply) {
  const auto word = reply.String(2);
  auto grants = ReadGrants(reply, 3);
  if (!word || (!word->empty() && *word != "look") || !grants) return std::nullopt;
  return PassedOn{!word->empty(), *std::move(grants)};
}

std::optional<Outcome> ReadGiveBack(int64_t code, const ReplyArray& reply, Verb verb) {
  if (code == kLate && verb == Verb::kWithdraw) return core::AcquireLate{};
  core::GiveBackDone done;
  const bool is_not_holder = code == kNotHolder && verb == Verb::kRelease;
  done.was_holder = code == kReleased;
  done.was_waiter = code == kWithdrawn && verb == Verb::kWithdraw;
  if ((done.was_holder || is_not_holder) && reply.String(2) == "blocked") {
    const auto left = Number(reply, 3);
    if (!left || reply.size() != 4) return std::nullopt;
    done.blocked_for = FromMs(*left);
    return done;
  }
  if (code == kGone || is_not_holder) return reply.size() == 2 ? std::optional<Outcome>(done) : std::nullopt;
  if (!done.was_holder && !done.was_waiter) return std::nullopt;
  auto passed_on = ReadPassedOn(reply);
  if (!passed_on) return std::nullopt;
  done.look = passed_on->look;
  done.next = std::move(passed_on->next);
  return done;
}

std::optional<Outcome> ReadDowngrade(int64_t code, const ReplyArray& reply) {
  using Result = core::DowngradeDone::Result;
  if (code == kGone || code == kNotHolder) {
    return reply.size() == 2 ? std::optional<Outcome>(core::DowngradeDone{}) : std::nullopt;
  }
  if (code == kMismatch && ModeOf(reply.String(2).value_or("")) && Count(reply, 3) && reply.size() == 4) {
    return core::DowngradeDone{.result = Result::kAnotherMode};
  }
  if (code == kHeld) {
    return reply.size() == 2 ? std::optional<Outcome>(core::DowngradeDone{.result = Result::kElsewhere}) : std::nullopt;
  }
  auto passed_on = ReadPassedOn(reply);
  if (code != kDowngraded || !passed_on) return std::nullopt;
  return core::DowngradeDone{
      .result = Result::kDowngraded, .look = passed_on->look, .next = std::move(passed_on->next)};
}

std::optional<Outcome> ReadForce(int64_t code, const ReplyArray& reply) {
  using Result = core::ForceDone::Result;
  if (code == kGone || code == kNotHolder || code == kTold) {
    if (reply.size() != 2) return std::nullopt;
    return core::ForceDone{.result = code == kTold ? Result::kTold : Result::kGone};
  }
  auto passed_on = ReadPassedOn(reply);
  if (code != kReleased || !passed_on) return std::nullopt;
  return core::ForceDone{.result = Result::kReleased, .look = passed_on->look, .next = std::move(passed_on->next)};
}

std::optional<Outcome> ReadAdopt(int64_t code, const ReplyArray& reply) {
  using Result = core::AdoptDone::Result;
  if (code == kLate && reply.size() == 2) return core::AcquireLate{};
  if (code == kGone || code == kNotHolder) {
    return reply.size() == 2 ? std::optional<Outcome>(core::AdoptDone{}) : std::nullopt;
  }
  if (code == kHeld) {
    return reply.size() == 2 ? std::optional<Outcome>(core::AdoptDone{.result = Result::kLater}) : std::nullopt;
  }
  if (const auto mode = ModeOf(reply.String(2).value_or("")); code == kMismatch && mode && reply.size() == 4) {
    return core::AdoptDone{.result = Result::kAnotherMode, .mode = *mode};
  }
  const auto since = Number(reply, 2);
  const auto ttl = Number(reply, 3);
  const auto delay = Number(reply, 4);
  const auto max_hold = Number(reply, 5);
  const auto min_hold = Number(reply, 6);
  if (code != kAdopted || !since || !ttl || !delay || !max_hold || !min_hold || reply.size() != 7) return std::nullopt;
  const core::StoreTime granted = AsStoreTime(*since);
  return core::AdoptDone{.result = Result::kAdopted,
                         .since = granted,
                         .held_for = HeldFor(reply, granted),
                         .ttl = FromMs(*ttl),
                         .lock_delay = FromMs(*delay),
                         .max_hold = FromMs(*max_hold),
                         .min_hold = FromMs(*min_hold)};
}

std::optional<Outcome> ReadWanted(int64_t code, const ReplyArray& reply) {
  if (code == kGone || code == kNotHolder) {
    return reply.size() == 2 ? std::optional<Outcome>(core::WantedDone{}) : std::nullopt;
  }
  const auto length = Count(reply, 2);
  if (code != kTold || !length || reply.size() != 3) return std::nullopt;
  return core::WantedDone{.is_held = true, .queue_length = *length};
}

std::optional<Outcome> ReadTend(int64_t code, const ReplyArray& reply) {
  core::TendDone done;
  if (code == kGone && reply.size() == 2) {
    done.slot_was_gone = true;
    return done;
  }
  const auto left = reply.Integer(2);
  const auto more = reply.Integer(3);
  const auto last_token = Number(reply, 4);
  auto holders = ReadGrants(reply, 5);
  if (code != kTended || !left || !more || !last_token || !holders) return std::nullopt;
  done.more = *more != 0;
  done.as_of = AsOf(reply, *last_token, *holders);
  done.left = LeftOf(*left);
  done.holders = *std::move(holders);
  if (done.holders.size() == 1) done.holders[0].time_left = FromPttl(*left);
  return done;
}

// A lock as inspect and watch show it, without its name.
std::optional<LockView> ReadView(int64_t code, const ReplyArray& reply) {
  const auto last_token = Number(reply, 2);
  const auto length = Count(reply, 3);
  const auto all = Count(reply, 4);
  const auto shown = Count(reply, 5);
  if (code != kInspected || !last_token || !length || !all || !shown || reply.size() % 2 != 0) return std::nullopt;
  const size_t waiters_at = 6 + 2 * size_t{*shown};
  auto holders = ReadHolders(reply, 6, std::min(waiters_at, reply.size()));
  if (!holders || waiters_at > reply.size()) return std::nullopt;
  LockView view;
  view.last_token = *last_token;
  view.queue_length = *length;
  view.holders = *std::move(holders);
  view.holder_count = *all;
  for (size_t i = waiters_at; i < reply.size(); i += 2) {
    const auto hex = reply.String(i);
    const auto waiter = reply.String(i + 1);
    if (!hex || !waiter) return std::nullopt;
    // A member that is no owner id is a foreign one; the scripts skip it too.
    if (const auto owner = ParseOwner(*hex)) view.waiters.push_back(ParseWaiter(*owner, *waiter));
  }
  return view;
}

std::optional<Outcome> ReadWatch(int64_t code, const ReplyArray& reply) {
  auto view = ReadView(code, reply);
  if (!view) return std::nullopt;
  return core::WatchDone{*std::move(view)};
}

std::optional<Outcome> ReadByVerb(const SentCommand& sent, int64_t code, const ReplyArray& reply) {
  switch (sent.verb) {
    case Verb::kAcquire:
      return ReadAcquire(code, reply);
    case Verb::kAcquireAll:
      return ReadAcquireAll(code, reply, sent.items);
    case Verb::kRenew:
      return ReadRenew(code, reply, sent);
    case Verb::kRelease:
    case Verb::kWithdraw:
      return ReadGiveBack(code, reply, sent.verb);
    case Verb::kTend:
      return ReadTend(code, reply);
    case Verb::kWatch:
      return ReadWatch(code, reply);
    case Verb::kDowngrade:
      return ReadDowngrade(code, reply);
    case Verb::kForce:
      return ReadForce(code, reply);
    case Verb::kAdopt:
      return ReadAdopt(code, reply);
    case Verb::kWanted:
      return ReadWanted(code, reply);
  }
  return std::nullopt;
}

// A lock that the script would have granted but for the hold-off shows no holder.
void TellHoldOff(core::StoreTime until, core::StoreTime now, Outcome& outcome) {
  const core::Duration left =
      until == kOpenEnd ? kLookAtOpenEnd : core::Duration(std::chrono::microseconds(until.us - now.us));
  const auto tell = [&](auto* answer) {
    if (answer != nullptr && answer->holders.empty()) answer->held_off = left;
  };
  tell(std::get_if<core::AcquireQueued>(&outcome));
  tell(std::get_if<core::AcquireHeld>(&outcome));
  tell(std::get_if<core::TendDone>(&outcome));
}

}  // namespace

Decoded Codec::Decode(const SentCommand& sent, const redisReply& raw) const {
  Decoded out{.reply = {.op = sent.op, .outcome = core::StoreUnknown{}}, .time = {}};
  if (IsError(raw)) {
    std::visit([&](auto&& error) { out.reply.outcome = std::forward<decltype(error)>(error); }, ReadError(Text(raw)));
    if (NeedsNewConnection(Text(raw))) out.reconnect = std::string(Text(raw));
    return out;
  }
  const ReplyArray reply(raw);
  const auto code = reply.Integer(0);
  const auto time = Number(reply, 1);
  std::optional<Outcome> outcome;
  if (code == kForeign && time && sent.verb != Verb::kRenew && reply.size() == 4) {
    outcome = ForeignKey(reply);
  } else if (code && time && *time > 0) {
    outcome = ReadByVerb(sent, *code, reply);
  }
  if (!outcome) {
    out.malformed = true;
    out.reconnect = "the server answered in an unknown shape";
    out.reply.outcome = core::StoreUnknown{"the store's answer has a shape that no script of this version has"};
    return out;
  }
  out.reply.outcome = *std::move(outcome);
  out.time = AsStoreTime(*time);
  if (out.time < sent.held_off_until) TellHoldOff(sent.held_off_until, out.time, out.reply.outcome);
  return out;
}

Decoded Codec::Decode(const SentCommand& sent, const Answer& answer) const {
  if (answer.kind == Answer::Kind::kReply) return Decode(sent, *answer.reply);
  Decoded out{.reply = {.op = sent.op, .outcome = core::StoreUnknown{answer.cause}}, .time = {}};
  if (answer.kind == Answer::Kind::kNotSent) {
    out.reply.outcome = core::StoreFailed{core::FailureKind::kNotSent, answer.cause};
  }
  return out;
}

absl::StatusOr<LockView> Codec::DecodeInspect(const core::LockName& name, const redisReply& raw) {
  if (IsError(raw)) return absl::UnavailableError(Cat("the store answered: ", Text(raw)));
  const ReplyArray reply(raw);
  const auto code = reply.Integer(0);
  if (code == kForeign && reply.size() == 4) return absl::FailedPreconditionError(ForeignKey(reply).cause);
  auto view = code ? ReadView(*code, reply) : std::nullopt;
  if (!view) return absl::UnavailableError("the store's answer to inspect has an unknown shape");
  view->name = name;
  return *std::move(view);
}

}  // namespace distlock::store
