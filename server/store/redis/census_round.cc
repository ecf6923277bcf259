// SPDX-License-Identifier: Apache-2.0
#include "store/redis/census_round.h"

#include <algorithm>
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/fitness.h"
#include "store/redis/keys.h"
#include "store/redis/reply_code.h"
#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kEvery = std::chrono::seconds(1);
constexpr core::Duration kInStep = std::chrono::seconds(2);

int IntOf(std::string_view text) {
  int value = 0;
  return ReadInt(text, &value) ? value : 0;
}

// "ip=10.0.0.7,port=6379,state=online,offset=42,lag=0"
ReplicaStatus ReadReplica(std::string_view text) {
  ReplicaStatus replica;
  std::string port;
  for (const std::string_view field : Split(text, ",")) {
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = field.substr(0, equals), value = field.substr(equals + 1);
    if (name == "ip") replica.address = std::string(value);
    if (name == "port") port = std::string(value);
    if (name == "state") replica.online = value == "online";
    if (name == "lag") replica.lag = std::chrono::seconds(IntOf(value));
  }
  replica.address = Cat(replica.address, ":", port);
  return replica;
}

std::optional<Census::Count> ReadCount(const redisReply& raw) {
  const ReplyArray reply(raw);
  const auto time = Number(reply, 1), since = Number(reply, 2), hold_off = Number(reply, 3), ttl = Number(reply, 4);
  const auto replicated = Number(reply, 5);
  const auto said = reply.String(6);
  if (reply.size() != 7 || reply.Integer(0) != kCensused || !time || !since || !hold_off || !ttl || !replicated ||
      !said) {
    return std::nullopt;
  }
  return Census::Count{.time = AsStoreTime(*time),
                       .since = AsStoreTime(*since),
                       .hold_off = FromMs(*hold_off),
                       .longest_ttl = FromMs(*ttl),
                       .replicated = *replicated != 0,
                       .said = AssertedTtls::Parse(*said)};
}

std::string_view CompleteIfText(Census::CompleteIf complete) {
  if (complete.beating) return complete.original ? "beating original" : "beating";
  return complete.original ? "original" : "never";
}

std::string MsOrZero(core::Duration time) { return time == core::Duration::zero() ? "0" : Cat(CeilMs(time)); }

}  // namespace

CensusRound::CensusRound(CommandSender* sender, ScriptCaller* scripts, const std::shared_ptr<Timers>& timers,
                         const StoreOptions& options, std::shared_ptr<AssertedTtls> ttls, Owner* owner)
    : sender_(sender),
      scripts_(scripts),
      owner_(owner),
      timers_(timers),
      wait_replicas_(options.wait_replicas),
      wait_timeout_(options.wait_timeout),
      usual_ttl_(options.usual_ttl),
      warns_of_ttl_(options.locks.hold_off.longest_ttl_if_replicated == core::Duration::zero()),
      marker_(Keys(options.locks.key_prefix).Marker()),
      heartbeat_(Keys(options.locks.key_prefix).Heartbeat()),
      census_(options.locks.hold_off, options.wait_replicas, std::move(ttls)),
      timer_(timers->Make([this] { OnTimer(); })) {}

void CensusRound::Begin(const ServerIdentity& server, core::StoreTime started, core::StoreTime time) {
  ++connection_;
  server_ = server;
  started_ = started;
  time_ = time;
  ready_ = false;
  Ask();
}

void CensusRound::Stop() {
  ++connection_;
  timer_->Stop();
}

CommandSender::Done CensusRound::InRound(std::function<void(const Answer&)> handler) {
  return [this, connection = connection_, handler = std::move(handler)](const Answer& answer) {
    if (connection == connection_ && answer.kind == Answer::Kind::kReply) handler(answer);
  };
}

void CensusRound::OnTimer() {
  if (!under_way_) return Ask();
  timer_->Start(kEvery);
  AskReplication([](const redisReply&) {});
  sender_->Flush();
}

void CensusRound::Ask() {
  timer_->Start(kEvery);
  under_way_ = true;
  facts_ = {.asked = time_};
  AskReplication([this](const redisReply& reply) { ReadReplication(reply); });
  sender_->Send(MakeCommand({"INFO", "memory"}), InRound([this](const Answer& answer) { ReadMemory(*answer.reply); }));
  sender_->Send(MakeCommand({"CONFIG", "GET", "min-replicas-*"}),
                InRound([this](const Answer& answer) { ReadConfig(*answer.reply); }));
  sender_->Send(AskAppendSettings(), InRound([this](const Answer& answer) {
                  facts_.aof_always = ReadAppendSettings(*answer.reply).KeepsAll();
                  Judge();
                }));
  sender_->Flush();
}

void CensusRound::AskReplication(std::function<void(const redisReply&)> then) {
  sender_->Send(MakeCommand({"INFO", "replication"}), InRound([this, then = std::move(then)](const Answer& answer) {
                  if (IsSame(answer)) then(*answer.reply);
                }));
}

bool CensusRound::IsSame(const Answer& answer) {
  if (IsError(*answer.reply)) {
    owner_->OnCensusRefused(Cat("INFO: ", Text(*answer.reply)));
    return false;
  }
  const ServerInfo info(Text(*answer.reply));
  const std::string_view role = info.Get("role");
  if (role != "master") {
    owner_->OnServerLeft(Cat("its role is now '", role, "'"));
    return false;
  }
  if (const auto replid = info.Get("master_replid"); replid != server_.replid) {
    owner_->OnServerLeft("it was a replica meanwhile, and may have forgotten locks");
    return false;
  }
  const core::Instant now = timers_->Now();
  const bool was_stale = census_.IsStale(now);
  census_.OnSame(answer.sent);
  if (was_stale && ready_ && !census_.IsStale(now)) owner_->OnHoldOffChanged();
  return true;
}

void CensusRound::ReadReplication(const redisReply& reply) {
  const ServerInfo info(Text(reply));
  facts_.identity = server_.DataIdentity();
  facts_.started = started_;
  facts_.scripts_pass = ScriptsPassMinReplicas(server_.version);
  facts_.replicas = IntOf(info.Get("connected_slaves"));
  const auto second = info.Get("second_repl_offset");
  facts_.promoted = !second.empty() && second != "-1";
  replicas_.clear();
  for (int i = 0; i < facts_.replicas; ++i) {
    if (const auto text = info.Get(Cat("slave", i)); !text.empty()) replicas_.push_back(ReadReplica(text));
  }
  facts_.in_step = static_cast<int>(std::ranges::count_if(
      replicas_, [](const ReplicaStatus& replica) { return replica.online && replica.lag < kInStep; }));
}

void CensusRound::ReadMemory(const redisReply& reply) {
  if (IsError(reply)) return;  // INFO replication has told
  const std::string_view policy = ServerInfo(Text(reply)).Get("maxmemory_policy");
  if (const std::string misfit = MisfitOfPolicy(policy); !misfit.empty()) owner_->OnServerLeft(misfit);
}

// A user who may not ask is taken for one whose server promises nothing.
void CensusRound::ReadConfig(const redisReply& reply) {
  if (IsError(reply)) return;
  const ReplyArray pairs(reply);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string_view name = pairs.String(i).value_or("");
    const std::string_view value = pairs.String(i + 1).value_or("");
    if (name == "min-replicas-to-write") facts_.min_replicas = IntOf(value);
    if (name == "min-replicas-max-lag") facts_.max_lag = std::chrono::seconds(IntOf(value));
  }
}

void CensusRound::Judge() {
  if (facts_.identity.empty()) return EndRound();
  census_.Meet(facts_);
  if (const std::string scripts_pass = census_.WarningOfScripts(); !scripts_pass.empty()) {
    Warn(scripts_pass);
  } else if (census_.obeys() && census_.guard() == Census::Guard::kNone) {
    Warn(
        "a failover may give a lock to a second holder while the primary that was cut off goes on: nothing makes most "
        "of the servers confirm a grant; set --store-nodes, and --wait-replicas or the servers' min-replicas-to-write");
  }
  const std::string too_short = census_.WarningOfShortLeases(usual_ttl_);
  if (!too_short.empty()) Warn(too_short);
  Count();
}

void CensusRound::Count() {
  const Census::Request request = census_.Next(timers_->Now());
  CommandBuilder call;
  call.Arg("EVALSHA").Arg(lua::kCensus.sha1).Arg("2").Arg(marker_).Arg(heartbeat_);
  call.Arg(request.identity).Arg(Cat(request.known_since.us)).Arg(request.confirm ? "1" : "0");
  call.Arg(CeilMs(kMarkerLives)).Arg(MsOrZero(request.hold_off)).Arg(CeilMs(request.longest_ttl));
  call.Arg(MsOrZero(request.known_hold_off)).Arg(CompleteIfText(request.complete_if)).Arg(Cat(request.started.us));
  call.Arg(request.promoted ? "promoted" : request.has_replicas ? "copied" : "").Arg(AssertedTtls::Text(request.said));
  call.Arg(request.server).Arg(request.has_marked ? "1" : "0").Arg(request.lives ? "1" : "0");
  call.Arg(Cat(request.kept.us));
  scripts_->Call(lua::kCensus, std::move(call).Build(),
                 InRound([this, own = request.longest_ttl, marker = marker_](const Answer& answer) {
                   OnCounted(own, marker, answer);
                 }));
  sender_->Flush();
}

void CensusRound::OnCounted(core::Duration own_longest, const std::string& marker, const Answer& answer) {
  const auto count = IsError(*answer.reply) ? std::nullopt : ReadCount(*answer.reply);
  refusal_ = count ? "" : RefusalText(Text(*answer.reply));
  if (!count) {
    // Knowledge of this server stays; there is none of a new one, so nobody new is granted a lock.
    owner_->OnCensusRefused(Cat("the census: ", Text(*answer.reply)));
    return EndRound();
  }
  if (count->longest_ttl > own_longest) {
    Warn(Cat("a broker of this store allows, or has allowed, leases of up to ", CeilMs(count->longest_ttl),
             " ms, this one of up to ", CeilMs(own_longest),
             " ms: give all brokers the same --max-ttl and --failover-hold-off"));
  }
  time_ = count->time;
  if (census_.OnCount(*count, timers_->Now())) TellLost();
  if (marker != marker_) census_.OnOtherKeys();
  TellReplicated();
  if (census_.AwaitsReplicas()) Confirm();
  EndRound();
}

void CensusRound::TellLost() {
  owner_->OnCensusWarning(
      Cat("the server's data were deleted while it was running, as by FLUSHALL: locks that were held are forgotten, ",
          census_.obeys() ? "and nobody is newly granted one until their holders have stopped believing"
                          : "and may be given again while their old holders still believe"));
}

void CensusRound::TellReplicated() {
  if (!census_.waits_for_replicas() || !census_.replicated() || std::exchange(told_replicated_, true)) return;
  const auto seconds = [](core::Duration time) { return Cat(CeilMs(time) / 1000, " s"); };
  Warn(Cat(
      "the server has, or had, replicas, so a failover behind its address may forget locks: from now on nobody is "
      "newly granted a lock for a while after each failover or restart (--failover-hold-off auto); ",
      warns_of_ttl_
          ? Cat("--max-ttl makes that ", seconds(census_.longest_ttl()), " and more: set it as low as your longest ttl")
          : Cat("the longest ttl of a request is ", seconds(census_.longest_ttl()), " from now on (--max-ttl)"),
      "; sentinels or --wait-replicas make a failover safe"));
  owner_->OnReplicated();
}

void CensusRound::Warn(const std::string& warning) {
  if (warned_.insert(warning).second) owner_->OnCensusWarning(warning);
}

// Behind the marker on the same connection, so that who confirms this has the marker.
void CensusRound::Confirm() {
  const auto done = [this, connection = connection_](int confirmed) {
    if (connection != connection_) return;
    census_.OnReplicas(confirmed);
    if (!census_.AwaitsReplicas()) Count();
  };
  if (ask_replicas_) return ask_replicas_(done);
  sender_->Send(MakeCommand({"WAIT", Cat(wait_replicas_), Cat(CeilMs(wait_timeout_))}),
                InRound([done](const Answer& answer) {
                  if (!IsError(*answer.reply)) done(static_cast<int>(answer.reply->integer));
                }));
  sender_->Flush();
}

void CensusRound::EndRound() {
  under_way_ = false;
  const core::StoreTime until = census_.HeldOffUntil(timers_->Now());
  const bool changed = std::exchange(held_off_until_, until) != until;
  if (!std::exchange(ready_, true)) return owner_->OnCensusReady();
  if (changed) owner_->OnHoldOffChanged();
  owner_->OnCensusTaken();
}

}  // namespace distlock::store
