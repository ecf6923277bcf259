// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/check.h"
#include "store/redis/census.h"
#include "store/redis/script_arguments.h"
#include "store/redlock/ballot/place.h"
#include "store/redlock/vote_codec.h"

namespace distlock::store {
namespace {

struct Encoder {
  const LockOptions& options;
  const Keys& keys;
  const ServerClock& clock;
  bool trusts_publish;

  std::string_view Trusted() const { return trusts_publish ? "1" : "0"; }
  int64_t SlotMs() const { return CeilMs(options.queue_slot); }
  int64_t KeepMs(const core::LockName& name) const { return CeilMs(TokenKeepOf(options, name)); }
  int64_t FairAfterUs() const { return std::chrono::floor<std::chrono::microseconds>(options.fair_after).count(); }
  std::string Info(const ballot::Spec& spec) const {
    return StoredInfo(spec.min_hold, spec.max_hold,
                      ballot::WithMark({spec.place, spec.mark}, options.broker_id, spec.info));
  }

  VoteCodec::Encoded operator()(const ballot::AskVote& in) const {
    const ballot::Spec& spec = in.spec;
    CommandBuilder command = CallOnLock(lua::kRedlockAcquire, keys, spec.name);
    command.Arg(HexOfOwner(spec.owner)).Arg(CeilMs(spec.ttl)).Arg(DelayMs(spec.lock_delay));
    command.Arg(NotAfterUs(clock, in.run_before)).Arg(WaitText(in.wait, in.again)).Arg(options.broker_id);
    command.Arg(SlotMs())
        .Arg(Info(spec))
        .Arg(KeepMs(spec.name))
        .Arg(Trusted())
        .Arg(static_cast<int64_t>(options.max_waiters));
    command.Arg(WantText(spec.want)).Arg(FairAfterUs()).Arg(spec.place).Arg(Cat(in.least_token));
    command.Arg(in.marks.first).Arg(in.marks.last).Arg(Cat(in.found));
    return {&lua::kRedlockAcquire, std::move(command).Build()};
  }

  VoteCodec::Encoded operator()(const ballot::ConfirmVote& in) const {
    CommandBuilder command = CallOnLock(lua::kRedlockConfirm, keys, in.name);
    command.Arg(HexOfOwner(in.owner)).Arg(Cat(in.token)).Arg(CeilMs(in.life)).Arg(KeepMs(in.name));
    command.Arg(options.broker_id).Arg(in.marks.first).Arg(in.marks.last).Arg(CeilMs(in.promised));
    return {&lua::kRedlockConfirm, std::move(command).Build()};
  }

  VoteCodec::Encoded operator()(const ballot::JoinGrant& in) const {
    const ballot::Spec& spec = in.spec;
    CommandBuilder command = CallOnLock(lua::kRedlockJoin, keys, spec.name);
    command.Arg(HexOfOwner(spec.owner)).Arg(Cat(in.token)).Arg(WantText(spec.want)).Arg(CeilMs(spec.ttl));
    command.Arg(DelayMs(spec.lock_delay)).Arg(NotAfterUs(clock, in.run_before)).Arg(Info(spec)).Arg(KeepMs(spec.name));
    command.Arg(Cat(in.greatest));
    return {&lua::kRedlockJoin, std::move(command).Build()};
  }

  VoteCodec::Encoded operator()(const ballot::YieldVote& in) const {
    const ballot::Spec& spec = in.spec;
    CommandBuilder command = CallOnLock(lua::kRedlockYield, keys, spec.name);
    command.Arg(HexOfOwner(spec.owner)).Arg(Cat(in.token)).Arg(spec.place).Arg(CeilMs(spec.ttl));
    command.Arg(DelayMs(spec.lock_delay)).Arg(WantText(spec.want)).Arg(Info(spec)).Arg(options.broker_id);
    command.Arg(SlotMs()).Arg(KeepMs(spec.name)).Arg(Trusted()).Arg(in.hands_on ? "1" : "0").Arg(Cat(in.least_token));
    command.Arg(in.marks.first).Arg(in.marks.last);
    return {&lua::kRedlockYield, std::move(command).Build()};
  }

  VoteCodec::Encoded operator()(const ballot::ReleaseNamed& in) const {
    CommandBuilder command = CallOnLock(lua::kRedlockRelease, keys, in.name);
    command.Arg(HexOfOwner(in.owner)).Arg(Cat(in.token)).Arg(in.marks.first).Arg(in.marks.last);
    command.Arg(BlockText(in.block, in.ends_min_hold)).Arg(KeepMs(in.name)).Arg(Trusted());
    command.Arg(options.broker_id).Arg(FairAfterUs()).Arg(in.keep_grant ? "1" : "0").Arg(Cat(in.least_token));
    return {&lua::kRedlockRelease, std::move(command).Build()};
  }

  VoteCodec::Encoded operator()(const ballot::Plain&) const {
    DISTLOCK_CHECK(false && "encoded by the redis room");
    return {};
  }
};

}  // namespace

const std::vector<const lua::ScriptSource*>& RedlockScripts() {
  static const auto* const kAll =
      new std::vector<const lua::ScriptSource*>{&lua::kRedlockAcquire, &lua::kRedlockConfirm, &lua::kRedlockJoin,
                                                &lua::kRedlockMember,  &lua::kRedlockRelease, &lua::kRedlockYield};
  return *kAll;
}

VoteCodec::Encoded VoteCodec::Encode(const ballot::NodeCommand& command, const ServerClock& clock,
                                     bool trusts_publish) const {
  return std::visit(Encoder{options_, keys_, clock, trusts_publish}, command);
}

// Brokers that are started together find each other's marks within this time.
constexpr core::Duration kIsNew = std::chrono::minutes(10);

std::string VoteCodec::EncodeMember(std::string_view mark, MarkHow how, const std::string& identity) const {
  static constexpr std::string_view kHow[] = {"first", "new", "replace"};
  CommandBuilder command = CallScript(lua::kRedlockMember, 5);
  command.Arg(keys_.Members()).Arg(keys_.Marker()).Arg(keys_.MembersAreNew());
  command.Arg(keys_.Heartbeat()).Arg(keys_.Schema());
  command.Arg(mark).Arg(kHow[static_cast<size_t>(how)]).Arg(identity).Arg(CeilMs(kMarkerLives)).Arg(CeilMs(kIsNew));
  return std::move(command).Build();
}

}  // namespace distlock::store
