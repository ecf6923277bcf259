// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/limits.h"
#include "store/redis/codec.h"
#include "store/redis/resp.h"
#include "store/redis/script_arguments.h"
#include "store/redis/wire_value.h"
#include "store/wanted_by.h"

namespace distlock::store {
namespace {

using Verb = SentCommand::Verb;

// Bytes to reserve for one item's argument, and for an item in a whole batch. Longer ones cost a copy.
constexpr size_t kUsualItemBytes = 120;
constexpr size_t kUsualBatchBytes = 200;

constexpr int64_t kMaxWatchedWaiters = 100;

std::string InfoOf(const core::StoreAcquire& in, const LockOptions& options) {
  if (!in.tell_wanted) return StoredInfo(in.min_hold, in.max_hold, in.info);
  return StoredInfo(in.min_hold, in.max_hold, WithWantedBy(options.broker_id, in.info));
}

struct Encoder {
  const LockOptions& options;
  const ServerClock& clock;
  const Keys& keys;
  bool trusts_publish;
  const Census* census;  // null: none is obeyed
  core::Instant now;     // with census
  std::string_view channel_tag;
  uint64_t least_token;
  core::Duration told_ttl = core::Duration::max();  // others are told of leases that are as long, or shorter

  std::string HoldOff() const {
    return census == nullptr || least_token != 0 ? "0"
                                                 : census->ScriptArgument(now, clock.ShownBy(census->known_until()));
  }
  // For an acquire, which is simply asked anew when it comes too late to be granted a lock.
  int64_t NotAfter(core::Instant run_before) const {
    const bool is_known = census != nullptr && least_token == 0 && !census->HoldsOff(now);
    return NotAfterUs(clock, is_known ? std::min(run_before, census->known_until()) : run_before);
  }
  std::string_view Trusted() const { return trusts_publish ? "1" : "0"; }
  // Only where it is a shard's.
  void AddChannel(CommandBuilder& command) const {
    if (!channel_tag.empty()) command.Arg(channel_tag);
  }
  int64_t KeepMs(const core::LockName& name) const { return CeilMs(TokenKeepOf(options, name)); }
  int64_t FairAfterUs() const { return std::chrono::floor<std::chrono::microseconds>(options.fair_after).count(); }

  Encoded operator()(const core::StoreAcquire& in) const {
    CommandBuilder command = CallOnLock(lua::kAcquire, keys, in.name);
    command.Arg(HexOfOwner(in.owner))
        .Arg(CeilMs(in.ttl))
        .Arg(DelayMs(in.lock_delay))
        .Arg(NotAfter(in.run_before))
        .Arg(WaitText(in.wait, in.again))
        .Arg(options.broker_id)
        .Arg(CeilMs(options.queue_slot))
        .Arg(InfoOf(in, options))
        .Arg(KeepMs(in.name))
        .Arg(Trusted())
        .Arg(static_cast<int64_t>(options.max_waiters))
        .Arg(WantText(in.want))
        .Arg(core::IsPreferred(in.want) ? "1" : "0")
        .Arg(FairAfterUs())
        .Arg(HoldOff());
    AddChannel(command);
    return {{Verb::kAcquire, in.op, 0}, &lua::kAcquire, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreAcquireAll& in) const {
    DISTLOCK_CHECK(!in.items.empty() && in.items.size() <= core::kMaxTogether);
    CommandBuilder command = CallScript(lua::kAcquireAll, 4 * in.items.size());
    core::Duration keep{};
    for (const auto& item : in.items) {
      AddKeys(command, keys, item.name);
      keep = std::max(keep, TokenKeepOf(options, item.name));
    }
    command.Arg(NotAfter(in.run_before)).Arg(CeilMs(keep)).Arg(HoldOff());
    for (const auto& item : in.items) {
      command.Arg(HexOfOwner(item.owner)).Arg(CeilMs(item.ttl));
      command.Arg(DelayMs(item.lock_delay));
      command.Arg(WantText(item.want)).Arg(InfoOf(item, options));
    }
    return {{Verb::kAcquireAll, in.op, in.items.size()}, &lua::kAcquireAll, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreRenew& in) const {
    DISTLOCK_CHECK(!in.items.empty() && in.items.size() <= core::kMaxRenewBatch);
    CommandBuilder command = CallScript(lua::kRenew, in.items.size());
    for (const auto& item : in.items) command.Arg(keys.Holder(item.name));
    const auto ttl = CeilMs(in.items.front().ttl);
    command.Arg(ttl);
    SentCommand sent{Verb::kRenew, in.op, in.items.size(), {}, {}};
    if (std::ranges::any_of(in.items, [&](const auto& item) { return item.ttl > told_ttl; })) {
      for (const auto& item : in.items) sent.ttls.push_back(item.ttl);
    }
    if (std::ranges::any_of(in.items, [](const auto& item) { return item.hold_until.us != 0; })) {
      for (const auto& item : in.items) sent.hold_untils.push_back(item.hold_until);
    }
    for (const auto& item : in.items) {
      const auto own_ttl = CeilMs(item.ttl);
      const bool usual = own_ttl == ttl && item.ours;
      const auto owner = HexOfOwner(item.owner);
      command.Arg(usual ? Cat("1;", owner, ";", item.token, ";")
                        : Cat(owner, ";", item.token, ";", own_ttl, ";", item.ours ? "-" : Cat(item.hold_until.us)));
    }
    return {std::move(sent), &lua::kRenew, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreRelease& in) const {
    CommandBuilder command = CallOnLock(lua::kRelease, keys, in.name);
    command.Arg(HexOfOwner(in.owner))
        .Arg(Cat(in.token))
        .Arg(BlockText(in.block, in.ends_min_hold))
        .Arg(KeepMs(in.name))
        .Arg(Trusted())
        .Arg(options.broker_id)
        .Arg(FairAfterUs())
        .Arg(HoldOff());
    AddChannel(command);
    return {{Verb::kRelease, in.op, 0}, &lua::kRelease, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreWithdraw& in) const {
    CommandBuilder command = CallOnLock(lua::kWithdraw, keys, in.name);
    command.Arg(HexOfOwner(in.owner)).Arg(NotAfterUs(clock, in.run_before));
    command.Arg(KeepMs(in.name)).Arg(Trusted()).Arg(options.broker_id);
    command.Arg(in.keep_grant ? "1" : "0").Arg(FairAfterUs()).Arg(HoldOff());
    AddChannel(command);
    return {{Verb::kWithdraw, in.op, 0}, &lua::kWithdraw, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreTend& in) const {
    CommandBuilder command = CallOnLock(lua::kTend, keys, in.name);
    command.Arg(options.broker_id).Arg(CeilMs(options.queue_slot)).Arg(KeepMs(in.name)).Arg(Trusted());
    command.Arg(HoldOff()).Arg(Cat(least_token));
    DISTLOCK_CHECK(!in.asked.empty() && in.asked.size() <= core::kMaxAsked);
    for (const core::OwnerId& owner : in.asked) command.Arg(HexOfOwner(owner));
    AddChannel(command);
    return {{Verb::kTend, in.op, 0}, &lua::kTend, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreWatch& in) const {
    CommandBuilder command = CallOnLock(lua::kWatch, keys, in.name);
    command.Arg(kMaxWatchedWaiters)
        .Arg(int64_t{kMaxShownHolders})
        .Arg(options.broker_id)
        .Arg(CeilMs(options.queue_slot));
    AddChannel(command);
    return {{Verb::kWatch, in.op, 0}, &lua::kWatch, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreDowngrade& in) const {
    CommandBuilder command = CallOnLock(lua::kDowngrade, keys, in.name);
    command.Arg(HexOfOwner(in.owner)).Arg(Cat(in.token)).Arg(KeepMs(in.name)).Arg(Trusted());
    command.Arg(options.broker_id).Arg(in.info).Arg(in.elsewhere ? "1" : "0").Arg(HoldOff()).Arg(Cat(least_token));
    AddChannel(command);
    return {{Verb::kDowngrade, in.op, 0}, &lua::kDowngrade, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreForce& in) const {
    CommandBuilder command = CallOnLock(lua::kForce, keys, in.name);
    // Other users of the store may have written it, so only a broker's channel is taken.
    const bool known = in.broker_id.size() == options.broker_id.size() &&
                       in.broker_id.find_first_not_of("0123456789abcdef") == std::string::npos;
    command.Arg(HexOfOwner(in.owner))
        .Arg(Cat(in.token))
        .Arg(known ? in.broker_id : "")
        .Arg(in.reason)
        .Arg(KeepMs(in.name))
        .Arg(Trusted())
        .Arg(options.broker_id)
        .Arg(FairAfterUs())
        .Arg(HoldOff())
        .Arg(Cat(least_token));
    AddChannel(command);
    return {{Verb::kForce, in.op, 0}, &lua::kForce, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreAdopt& in) const {
    CommandBuilder command = CallOnLock(lua::kAdopt, keys, in.name);
    command.Arg(HexOfOwner(in.from)).Arg(Cat(in.token)).Arg(HexOfOwner(in.owner)).Arg(NotAfterUs(clock, in.run_before));
    command.Arg(WantText(in.want))
        .Arg(in.tell_wanted ? WithWantedBy(options.broker_id, in.info) : in.info)
        .Arg(HoldOff());
    return {{Verb::kAdopt, in.op, 0}, &lua::kAdopt, std::move(command).Build()};
  }

  Encoded operator()(const core::StoreWanted& in) const {
    CommandBuilder command = CallOnLock(lua::kWanted, keys, in.name);
    command.Arg(HexOfOwner(in.owner))
        .Arg(Cat(in.token))
        .Arg(in.through == 0 ? options.broker_id : BrokerIdOf(in.through))
        .Arg(options.broker_id);
    AddChannel(command);
    return {{Verb::kWanted, in.op, 0}, &lua::kWanted, std::move(command).Build()};
  }
};

struct NameOfItem {
  const core::LockName& operator()(const core::StoreAcquire& in) const { return in.name; }
  const core::LockName& operator()(const core::StoreRelease& in) const { return in.name; }
  template <typename Other>
  const core::LockName& operator()(const Other&) const {
    static const core::LockName none;
    return none;
  }
};

// Writes one item of batch.lua.
struct ItemEncoder {
  const LockOptions& options;
  const ServerClock& clock;
  const Keys& keys;
  core::Instant known_until;  // as of the census
  std::string text;

  struct Item {
    SentCommand sent;
    std::string key;
  };

  Item operator()(const core::StoreAcquire& in) {
    const int64_t ttl = CeilMs(in.ttl), delay = DelayMs(in.lock_delay);
    const int64_t not_after = NotAfterUs(clock, std::min(in.run_before, known_until));
    Append(text, "a", HexOfOwner(in.owner), WaitText(in.wait, in.again), core::IsPreferred(in.want) ? "1" : "0",
           not_after, ";", ttl + delay, ";", WantText(in.want), ";", ttl, ";", delay, ";", InfoOf(in, options));
    return {{Verb::kAcquire, in.op, 0}, keys.Holder(in.name)};
  }
  Item operator()(const core::StoreRelease& in) {
    DISTLOCK_CHECK(in.block <= core::Duration::zero() && !in.ends_min_hold);
    Append(text, "1;", HexOfOwner(in.owner), ";");
    if (in.token != 0) Append(text, in.token, ";");
    return {{Verb::kRelease, in.op, 0}, keys.Holder(in.name)};
  }
  template <typename Other>
  Item operator()(const Other&) {
    DISTLOCK_CHECK(false && "no item of a batch");
    return {};
  }
};

}  // namespace

Codec::Codec(LockOptions options, const ServerClock& clock)
    : options_(std::move(options)), clock_(clock), keys_(options_.key_prefix) {
  DISTLOCK_CHECK(options_.key_prefix.find(":{") == std::string::npos);
  TrustPublish(true);
}

void Codec::TrustPublish(bool trust) {
  trusts_publish_ = trust && options_.counts_listeners;
  const Encoder encoder{options_, clock_, keys_, trusts_publish_, nullptr, {}, channel_tag_, 0};
  common_ = Cat(options_.broker_id, ";", CeilMs(options_.queue_slot), ";", encoder.Trusted(), ";", options_.max_waiters,
                ";", encoder.FairAfterUs());
}

Encoded Codec::Encode(const core::StoreCommand& command, uint64_t least_token) const {
  const Census* const census = ObeyedCensus();
  const core::Instant now = census == nullptr ? core::Instant{} : timers_->Now();
  Encoder encoder{options_, clock_, keys_, trusts_publish_, census, now, channel_tag_, least_token};
  if (census_ != nullptr && census_->on()) encoder.told_ttl = census_->longest_ttl();
  Encoded encoded = std::visit(encoder, command);
  if (census != nullptr && least_token == 0) encoded.sent.held_off_until = census->HeldOffUntil(now);
  return encoded;
}

core::Duration Codec::TokenKeep(const core::LockName& name) const { return TokenKeepOf(options_, name); }

EncodedBatch Codec::EncodeBatch(const std::vector<core::StoreCommand>& commands) const {
  const Census* const census = ObeyedCensus();
  // Knowledge may have become too old since the caller looked: the call says until when it counts.
  DISTLOCK_CHECK(census == nullptr || !census->holds_off());
  const core::Instant known_until = census == nullptr ? core::kNever : census->known_until();
  EncodedBatch batch;
  CommandBuilder command = CallScript(lua::kBatch, commands.size(), CommandBuilder(commands.size() * kUsualBatchBytes));
  std::vector<std::string> items;
  items.reserve(commands.size());
  batch.sent.reserve(commands.size());
  for (const core::StoreCommand& one : commands) {
    ItemEncoder encoder{options_, clock_, keys_, known_until, {}};
    encoder.text.reserve(kUsualItemBytes);
    auto [sent, key] = std::visit(encoder, one);
    batch.sent.push_back(std::move(sent));
    command.Arg(key);
    items.push_back(std::move(encoder.text));
  }
  const core::LockName& first = std::visit(NameOfItem{}, commands.front());
  command.Arg(CeilMs(TokenKeep(first))).Arg(Cat(common_, ";", NotAfterUs(clock_, known_until)));
  for (const std::string& item : items) command.Arg(item);
  batch.bytes = std::move(command).Build();
  return batch;
}

std::string Codec::EncodeInspect(const core::LockName& name, uint32_t max_waiters, uint32_t max_holders) const {
  CommandBuilder command = CallOnLock(lua::kInspect, keys_, name);
  command.Arg(static_cast<int64_t>(max_waiters)).Arg(static_cast<int64_t>(max_holders));
  return std::move(command).Build();
}

}  // namespace distlock::store
