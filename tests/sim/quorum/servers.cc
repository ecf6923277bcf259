// SPDX-License-Identifier: Apache-2.0
#include "quorum/servers.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "store/redis/resp.h"
#include "store/redis/script_caller.h"

namespace distlock::sim::quorum {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kEpoch = std::chrono::hours(400'000);

}  // namespace

Server::Server(Course& course, uint64_t number) : model(0, number), course_(course) {
  Sync();
  for (const lua::ScriptSource* script : store::AllScripts()) Run(0, store::LoadCommand(*script));
  for (const lua::ScriptSource* script : store::RedlockScripts()) Run(0, store::LoadCommand(*script));
}

int64_t Server::NowUs() const {
  return std::chrono::floor<microseconds>(clock.Of(course_.now()).time_since_epoch() + kEpoch).count();
}

store::ReplyPtr Server::Run(int client, std::string_view bytes) {
  Sync();
  const Argv argv = ParseCommand(bytes);
  DISTLOCK_CHECK(!argv.empty());
  return model.Execute(client, argv);
}

void Server::Forget() {
  Sync();
  ++run;
  model.Execute(0, {"FLUSHALL"});
}

Wire::Wire(Course& course, Dice& dice, const Weather& weather, Server& server, int client, size_t node,
           const store::LockOptions& options, Owner* owner)
    : course_(course),
      dice_(dice),
      weather_(weather),
      server_(server),
      client_(client),
      node_(node),
      owner_(owner),
      codec_(options, clock_),
      votes_(options) {}

Duration Wire::Delay() {
  const bool is_own = static_cast<size_t>(client_ / 100) == node_;
  if (weather_.own_server_is_near) return LongestDelay(weather_) / (is_own ? 2 : 1);
  Duration delay = dice_.Between(LongestDelay(weather_) / 2, LongestDelay(weather_));
  if (dice_.Chance(weather_.spikes)) delay += dice_.Between(Duration(0), weather_.trip * 20);
  return delay;
}

void Wire::Connect() {
  if (open_) return;
  if (server_.paused_until > course_.now()) return course_.At(server_.paused_until, [this] { Connect(); });
  open_ = true;
  ++generation_;
  last_arrival_ = last_delivery_ = course_.now();
  outstanding_.clear();
  server_.model.Execute(subscriber(), {"SUBSCRIBE", codec_.grant_channel()});
  server_.Sync();
  const Instant sent = owner_->LocalTime() - weather_.trip;
  const auto step = clock_.Learn(sent, owner_->LocalTime(), {server_.NowUs()});
  const bool forgot = ever_open_ && run_ != server_.run;
  run_ = server_.run;
  ever_open_ = true;
  TellFitness();
  // The news of a connection's preparation is told before the server takes part.
  if (step) owner_->OnInput(ballot::NodeClockStep{node_, *step, clock_});
  owner_->OnInput(ballot::NodeUp{node_, forgot, clock_});
  owner_->OnChannelUp();
}

void Wire::TellFitness() {
  const int64_t left_us = server_.held_off_until_us - server_.NowUs();
  owner_->OnInput(ballot::NodeFitness{.node = node_, .held_off = left_us > 0, .misfit = ""});
  if (left_us <= 0) return;
  course_.After(std::min<Duration>(microseconds(left_us) + milliseconds(1), std::chrono::seconds(1)), [this] {
    if (open_) TellFitness();
  });
}

void Wire::TellClockStep(Duration by, const std::function<void()>& seen) {
  const auto look_after = [&](Duration time) { course_.After(time, [this, by, seen] { TellClockStep(by, seen); }); };
  if (!open_) return look_after(milliseconds(100));
  const Instant answers = std::max(server_.paused_until, silent_until_);
  if (answers > course_.now()) return look_after(answers - course_.now() + 2 * LongestDelay(weather_));
  server_.Sync();
  const Instant now = owner_->LocalTime();
  clock_.Learn(now - weather_.trip, now, {server_.NowUs()});
  owner_->OnInput(ballot::NodeClockStep{node_, by, clock_});
  seen();
}

void Wire::Send(ballot::NodeOp op, const ballot::NodeCommand& command) {
  ++commands_;
  Flying flying;
  std::string bytes;
  if (const auto* plain = std::get_if<ballot::Plain>(&command)) {
    store::Encoded encoded = codec_.Encode(plain->command, plain->least_token);
    flying = {.script = encoded.script, .sent = encoded.sent, .is_plain = true};
    bytes = std::move(encoded.bytes);
  } else {
    store::VoteCodec::Encoded encoded = votes_.Encode(command, clock_, open_);
    flying.script = encoded.script;
    bytes = std::move(encoded.bytes);
    if (const auto* yield = std::get_if<ballot::YieldVote>(&command)) flying.yields = {yield->spec.owner, yield->token};
  }
  if (!open_) {
    course_.After(Duration(0), [this, op] {
      owner_->OnInput(ballot::NodeReply{op, core::StoreFailed{core::FailureKind::kNotSent, "not connected"}, {}});
    });
    return;
  }
  outstanding_[op] = owner_->LocalTime();
  if (flying.yields && dice_.Chance(weather_.stalled_yields)) {
    Stall(dice_.Between(milliseconds(1), dice_.Pick(std::vector<Duration>{milliseconds(700), kMostLate})));
    course_.After(dice_.Between(Duration(0), milliseconds(100)),
                  [this] { Break(dice_.Between(milliseconds(1), milliseconds(100))); });
  }
  last_arrival_ = std::max(last_arrival_, course_.now() + Delay());
  course_.At(last_arrival_,
             [this, generation = generation_, op, bytes, flying] { Arrive(generation, op, bytes, flying); });
}

void Wire::Arrive(uint64_t generation, ballot::NodeOp op, const std::string& bytes, const Flying& flying) {
  if (lost_.contains(generation)) return;
  const auto stalled = arrives_from_.find(generation);
  const Instant from = std::max(server_.paused_until, stalled == arrives_from_.end() ? Instant{} : stalled->second);
  if (from > course_.now()) {
    return course_.At(from, [this, generation, op, bytes, flying] { Arrive(generation, op, bytes, flying); });
  }
  std::shared_ptr<redisReply> reply(server_.Run(client_, bytes).release(), store::ReplyDeleter());
  CheckYield(flying, *reply);
  if (generation != generation_) return;
  last_delivery_ = std::max({last_delivery_, course_.now() + Delay(), silent_until_});
  course_.At(last_delivery_, [this, generation, op, flying, reply, sent = outstanding_[op]] {
    Deliver(generation, op, flying, reply, sent);
  });
}

void Wire::CheckYield(const Flying& flying, const redisReply& reply) {
  if (!flying.yields) return;
  const store::Answer answer{store::Answer::Kind::kReply, &reply, "", {}, {}};
  const ballot::Outcome outcome = store::VoteCodec::Decode(*flying.script, answer).outcome;
  if (std::holds_alternative<ballot::GaveBack>(outcome)) owner_->OnYielded(flying.yields->first, flying.yields->second);
}

void Wire::Deliver(uint64_t generation, ballot::NodeOp op, const Flying& flying,
                   const std::shared_ptr<redisReply>& reply, Instant sent) {
  if (generation != generation_ || !open_) return;
  outstanding_.erase(op);
  const store::Answer answer{store::Answer::Kind::kReply, reply.get(), "", sent, owner_->LocalTime()};
  ballot::NodeReply out{.op = op, .outcome = core::StoreUnknown{}, .time = {}};
  bool malformed = false;
  if (flying.is_plain) {
    store::Decoded decoded = codec_.Decode(flying.sent, answer);
    out.outcome = store::OutcomeOf(std::move(decoded.reply));
    out.time = decoded.time;
    malformed = decoded.malformed;
  } else {
    store::VoteCodec::Decoded decoded = store::VoteCodec::Decode(*flying.script, answer);
    out.outcome = std::move(decoded.outcome);
    out.time = decoded.time;
    malformed = decoded.malformed;
  }
  if (malformed || store::IsError(*reply)) {
    std::fprintf(stderr, "%s answered: %s\n", std::string(flying.script->name).c_str(),
                 std::string(store::Text(*reply)).c_str());
    DISTLOCK_CHECK(!malformed);
    DISTLOCK_CHECK(!store::IsError(*reply));
  }
  if (out.time.us > 0) clock_.Learn(sent, owner_->LocalTime(), out.time);
  owner_->OnInput(std::move(out));
}

void Wire::Break(Duration away) {
  if (!open_) return;
  open_ = false;
  server_.model.Disconnect(client_);
  server_.model.Disconnect(subscriber());
  // Bytes on their way may arrive all the same, and nobody hears of it.
  if (!arrives_from_.contains(generation_)) {
    if (dice_.Chance(0.4)) {
      lost_.insert(generation_);
    } else {
      Stall(dice_.Between(Duration(0),
                          dice_.Pick(std::vector<Duration>{milliseconds(50), milliseconds(700), kMostLate})));
    }
  }
  ++generation_;
  owner_->OnInput(ballot::NodeDown{node_, "the connection broke"});
  for (const auto& [op, sent] : std::exchange(outstanding_, {})) {
    owner_->OnInput(ballot::NodeReply{op, core::StoreUnknown{"the connection broke"}, {}});
  }
  course_.After(away, [this] { Connect(); });
}

void Wire::Stall(Duration time) { arrives_from_[generation_] = course_.now() + time; }

void Wire::OnMessage(std::string_view payload) {
  if (dice_.Chance(weather_.lost_notices)) return;
  last_notice_ = std::max({last_notice_, course_.now() + Delay(), silent_until_});
  course_.At(last_notice_, [this, generation = generation_, text = std::string(payload)] {
    if (generation != generation_) return;
    auto notice = store::Codec::DecodeNotice(text);
    if (!notice) return;
    if (auto* grant = std::get_if<core::GrantNotice>(&*notice)) {
      owner_->OnInput(ballot::NodeNotice{node_, *grant, clock_.Ahead(grant->since, owner_->LocalTime())});
    } else {
      owner_->OnStoreNotice(*std::move(notice));
    }
  });
}

}  // namespace distlock::sim::quorum
