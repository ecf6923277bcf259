// SPDX-License-Identifier: Apache-2.0
#include "toy_store.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "store/redis/wire_value.h"

namespace distlock::fuzz {
namespace {

using core::Instant;

constexpr core::Duration kOffset = std::chrono::hours(400'000);
constexpr size_t kRemembered = 200;

template <typename T>
void Remember(std::vector<T>& all, const T& one) {
  if (all.size() < kRemembered) all.push_back(one);
}

}  // namespace

void ToyStore::Take(core::StoreCommand command) {
  const core::OpId op = std::visit(
      [this](const auto& in) -> core::OpId {
        if constexpr (requires { in.name; }) Remember(names_, in.name);
        if constexpr (requires { in.owner; }) Remember(owners_, in.owner);
        if constexpr (requires { in.op; }) return in.op;
        return 0;
      },
      command);
  DISTLOCK_CHECK(op > last_op_);
  last_op_ = op;
  open_.emplace(op, std::move(command));
}

core::StoreTime ToyStore::TrueTime(Instant now) {
  return {std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch() + kOffset).count()};
}

core::StoreTime ToyStore::Time(Bytes& bytes, Instant now) const {
  switch (bytes.Below(4)) {
    case 0:
      return {static_cast<int64_t>(bytes.Number<uint64_t>() % static_cast<uint64_t>(core::kMaxStoreTime.us)) + 1};
    case 1:
      return {TrueTime(now).us + bytes.Number<int32_t>()};
    default:
      return TrueTime(now);
  }
}

core::Duration ToyStore::Span(Bytes& bytes) const {
  switch (bytes.Below(4)) {
    case 0:
      return store::FromMs(bytes.Number<uint64_t>());
    case 1:
      return store::FromMs(bytes.Number<uint16_t>());
    default:
      return std::chrono::seconds(bytes.Below(20));
  }
}

core::Duration ToyStore::Difference(Bytes& bytes) const {
  if (bytes.Below(4) != 0) return {};
  const core::Duration span = std::min(Span(bytes), core::Duration(std::chrono::microseconds(core::kMaxStoreTime.us)));
  return bytes.Flag() ? span : -span;
}

core::OwnerId ToyStore::Owner(Bytes& bytes) const {
  if (!owners_.empty() && bytes.Below(8) != 0) return owners_[bytes.Byte() % owners_.size()];
  core::OwnerId owner{};
  owner[0] = bytes.Byte();
  owner[15] = bytes.Byte();
  return owner;
}

core::HolderView ToyStore::Holder(Bytes& bytes, Instant now) {
  core::HolderView view;
  view.owner = Owner(bytes);
  view.token = bytes.Flag() ? ++last_token_ : bytes.Number<uint64_t>();
  view.since = Time(bytes, now);
  view.held_for = Difference(bytes);
  view.ttl = Span(bytes);
  view.lock_delay = Span(bytes);
  view.time_left = Span(bytes);
  view.wanted_by = view.token % 3;
  view.info = bytes.Text();
  return view;
}

core::GrantNotice ToyStore::Notice(Bytes& bytes, Instant now) {
  core::GrantNotice notice;
  notice.name = names_.empty() ? core::LockName::Encode("default", "k") : names_[bytes.Byte() % names_.size()];
  if (bytes.Below(8) != 0) {  // else nobody: the lock is blocked
    notice.owner = Owner(bytes);
    notice.token = bytes.Flag() ? ++last_token_ : bytes.Number<uint64_t>() | 1;
  }
  notice.since = Time(bytes, now);
  notice.made = now - Difference(bytes);
  notice.ttl = Span(bytes);
  return notice;
}

ToyStore::Outcome ToyStore::AnyOutcome(Bytes& bytes, Instant now) {
  const auto holders = [&] {
    std::vector<core::HolderView> some;
    while (some.size() < 3 && bytes.Flag()) some.push_back(Holder(bytes, now));
    return some;
  };
  const auto left = [&] { return bytes.Flag() ? std::optional(Span(bytes)) : std::nullopt; };
  switch (bytes.Below(13)) {
    case 0:
      return core::StoreUnknown{"unknown"};
    case 1:
      return core::StoreFailed{static_cast<core::FailureKind>(bytes.Below(4)), "failed"};
    case 2:
      return core::AcquireGranted{bytes.Flag() ? ++last_token_ : bytes.Number<uint64_t>() | 1, Time(bytes, now),
                                  Difference(bytes)};
    case 3:
      return core::AcquireQueued{bytes.Byte(), holders(), bytes.Byte(), left(), bytes.Byte()};
    case 4:
      return core::AcquireHeld{holders(), bytes.Byte(), left()};
    case 5:
      return core::AcquireLate{};
    case 6:
      return core::AcquireQueueFull{bytes.Byte()};
    case 7: {
      core::RenewDoneBatch batch;
      for (size_t n = bytes.Below(4); n > 0; --n) {
        batch.results.push_back(static_cast<core::RenewResult>(bytes.Below(3)));
        if (bytes.Flag()) batch.hold_left.push_back(Difference(bytes));
      }
      return batch;
    }
    case 8: {
      const bool was_holder = bytes.Flag();
      return core::GiveBackDone{was_holder, bytes.Flag(), bytes.Flag(), Difference(bytes), holders()};
    }
    case 9:
      return core::AcquireMismatch{static_cast<core::Mode>(bytes.Below(3)), bytes.Byte()};
    case 10:
      return core::AcquireAllDone{std::vector(bytes.Below(4), core::AcquireGranted{++last_token_, Time(bytes, now)})};
    case 11:
      return core::WatchDone{{.holders = holders(), .queue_length = bytes.Byte()}};
    default: {
      const bool slot_was_gone = bytes.Flag();
      return core::TendDone{slot_was_gone, bytes.Below(8) == 0, holders(), left(), bytes.Byte()};
    }
  }
}

// An outcome that the command's script can answer with.
ToyStore::Outcome ToyStore::FittingOutcome(const core::StoreCommand& command, Bytes& bytes, Instant now) {
  struct Choose {
    ToyStore& store;
    Bytes& bytes;
    Instant now;
    Outcome operator()(const core::StoreAcquire&) const {
      if (bytes.Flag()) return core::AcquireGranted{++store.last_token_, TrueTime(now)};
      return core::AcquireQueued{bytes.Byte(), {store.Holder(bytes, now)}, bytes.Byte(), {}};
    }
    Outcome operator()(const core::StoreAcquireAll& in) const {
      return bytes.Flag() ? store.TakeAll(in, now) : core::AcquireAllDone{};
    }
    Outcome operator()(const core::StoreRenew& in) const {
      core::RenewDoneBatch batch;
      for (size_t i = 0; i < in.items.size(); ++i) {
        batch.results.push_back(bytes.Below(4) == 0 ? core::RenewResult::kGone : core::RenewResult::kRenewed);
      }
      return batch;
    }
    Outcome operator()(const core::StoreRelease&) const { return GivenBack(); }
    Outcome operator()(const core::StoreWithdraw&) const { return GivenBack(); }
    Outcome operator()(const core::StoreTend&) const {
      return core::TendDone{false, false, {store.Holder(bytes, now)}, {}};
    }
    Outcome operator()(const core::StoreWatch&) const {
      return core::WatchDone{{.holders = {store.Holder(bytes, now)}, .holder_count = 1}};
    }
    Outcome operator()(const core::StoreDowngrade&) const {
      return core::DowngradeDone{
          static_cast<core::DowngradeDone::Result>(bytes.Below(3)), bytes.Flag(), {store.Holder(bytes, now)}};
    }
    Outcome operator()(const core::StoreForce&) const {
      return core::ForceDone{
          static_cast<core::ForceDone::Result>(bytes.Below(3)), bytes.Flag(), {store.Holder(bytes, now)}};
    }
    Outcome operator()(const core::StoreAdopt& in) const {
      return core::AdoptDone{.result = static_cast<core::AdoptDone::Result>(bytes.Below(3)),
                             .mode = in.want.mode,
                             .since = TrueTime(now),
                             .held_for = std::chrono::milliseconds(bytes.Number<uint16_t>()),
                             .ttl = std::chrono::seconds(15)};
    }
    Outcome operator()(const core::StoreWanted&) const { return core::WantedDone{bytes.Flag(), bytes.Byte()}; }
    Outcome GivenBack() const {
      core::GiveBackDone done{.was_holder = true, .was_waiter = false, .next = {}};
      while (done.next.size() < 3 && bytes.Flag()) done.next.push_back(store.Holder(bytes, now));
      return done;
    }
  };
  return std::visit(Choose{*this, bytes, now}, command);
}

core::StoreReply ToyStore::Answer(Bytes& bytes, Instant now) {
  const auto at = std::next(open_.begin(), static_cast<std::ptrdiff_t>(bytes.Byte() % open_.size()));
  core::StoreReply reply{.op = at->first, .outcome = {}};
  reply.outcome = bytes.Flag() ? FittingOutcome(at->second, bytes, now) : AnyOutcome(bytes, now);
  open_.erase(at);
  return reply;
}

core::AcquireAllDone ToyStore::TakeAll(const core::StoreAcquireAll& in, Instant now) {
  core::AcquireAllDone done;
  for (size_t i = 0; i < in.items.size(); ++i) done.grants.push_back({++last_token_, TrueTime(now)});
  return done;
}

core::StoreReply ToyStore::AnswerWell(Instant now) {
  struct Choose {
    ToyStore& store;
    Instant now;
    Outcome operator()(const core::StoreAcquire&) const {
      return core::AcquireGranted{++store.last_token_, TrueTime(now)};
    }
    Outcome operator()(const core::StoreAcquireAll& in) const { return store.TakeAll(in, now); }
    Outcome operator()(const core::StoreRenew& in) const {
      return core::RenewDoneBatch{std::vector(in.items.size(), core::RenewResult::kRenewed)};
    }
    Outcome operator()(const core::StoreRelease&) const { return core::GiveBackDone{.was_holder = true, .next = {}}; }
    Outcome operator()(const core::StoreWithdraw&) const { return core::GiveBackDone{.next = {}}; }
    // A store where every lock is free has no waiters: they have to ask again.
    Outcome operator()(const core::StoreTend&) const { return core::TendDone{.slot_was_gone = true, .holders = {}}; }
    Outcome operator()(const core::StoreWatch&) const { return core::WatchDone{}; }
    Outcome operator()(const core::StoreDowngrade&) const {
      return core::DowngradeDone{.result = core::DowngradeDone::Result::kDowngraded, .next = {}};
    }
    Outcome operator()(const core::StoreForce&) const {
      return core::ForceDone{.result = core::ForceDone::Result::kReleased, .next = {}};
    }
    Outcome operator()(const core::StoreAdopt&) const { return core::AdoptDone{}; }
    Outcome operator()(const core::StoreWanted&) const { return core::WantedDone{}; }
  };
  const auto at = open_.begin();
  core::StoreReply reply{at->first, std::visit(Choose{*this, now}, at->second)};
  open_.erase(at);
  return reply;
}

}  // namespace distlock::fuzz
