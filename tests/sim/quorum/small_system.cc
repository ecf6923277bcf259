// SPDX-License-Identifier: Apache-2.0
#include "quorum/small_system.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "store/redis/resp.h"
#include "store/redis/script_caller.h"

namespace distlock::sim::quorum {
namespace {

namespace ballot = store::ballot;
using core::Instant;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr core::Duration kTtl = seconds(15);
constexpr core::Duration kTrip = microseconds(200);
constexpr int64_t kEpochUs = 1'700'000'000'000'000;
// More steps than this, and somebody is not served.
constexpr int kMostSteps = 20'000;
constexpr core::Duration kPatience = seconds(60);

// The kinds of choices, and their numbers: kind, broker, server.
enum Kind : int { kCommand, kReply, kNotice, kRelease, kKinds };

int NumberOf(Kind kind, size_t broker, size_t server) {
  return (static_cast<int>(kind) * static_cast<int>(SmallSystem::kBrokers) + static_cast<int>(broker)) *
             static_cast<int>(SmallSystem::kServers) +
         static_cast<int>(server);
}

struct Choice {
  Kind kind;
  size_t broker;
  size_t server;
};

Choice ChoiceOf(int number) {
  const int servers = static_cast<int>(SmallSystem::kServers), brokers = static_cast<int>(SmallSystem::kBrokers);
  return {static_cast<Kind>(number / servers / brokers), static_cast<size_t>(number / servers % brokers),
          static_cast<size_t>(number % servers)};
}

// The connection of a broker's channel at each server; that of its commands is one less.
int SubscriberOf(size_t broker) { return static_cast<int>(broker) * 10 + 2; }

uint64_t Mixed(uint64_t hash, uint64_t what) { return (hash ^ (what + 0x9E3779B97F4A7C15ULL)) * 0x100000001B3ULL; }

}  // namespace

struct SmallSystem::Broker {
  explicit Broker(size_t number)
      : options{.broker_id = "00000000000000b" + std::to_string(number)},
        ballot({.broker_id = options.broker_id, .nodes = kServers, .longest_ttl = kTtl, .seed = number + 1}),
        clock(500),
        codec(options, clock),
        votes(options) {}

  store::LockOptions options;
  ballot::Ballot ballot;
  store::ServerClock clock;
  store::Codec codec;
  store::VoteCodec votes;
  core::OpId last_op = 0;
};

SmallSystem::SmallSystem(std::array<Wish, kBrokers> wishes) : wishes_(wishes) {
  for (size_t server = 0; server < kServers; ++server) {
    servers_[server] = std::make_unique<RedisModel>(0, server + 1);
    for (const auto* scripts : {&store::AllScripts(), &store::RedlockScripts()}) {
      for (const lua::ScriptSource* script : *scripts) {
        const std::string load = store::LoadCommand(*script);
        std::string_view bytes = load;
        servers_[server]->Execute(1, ParseCommand(bytes));
      }
    }
    servers_[server]->OnMessage([this, server](int connection, std::string_view, std::string_view payload) {
      for (size_t broker = 0; broker < kBrokers; ++broker) {
        if (connection == SubscriberOf(broker)) links_[broker][server].notices.emplace_back(payload);
      }
    });
    for (size_t broker = 0; broker < kBrokers; ++broker) {
      servers_[server]->Execute(SubscriberOf(broker), {"SUBSCRIBE", Broker(broker).codec.grant_channel()});
    }
  }
  Reset();
}

SmallSystem::~SmallSystem() = default;

int64_t SmallSystem::NowUs() const { return kEpochUs + now_.time_since_epoch() / microseconds(1); }

core::OwnerId SmallSystem::OwnerOf(size_t broker) const {
  core::OwnerId owner{};
  owner[0] = 0x0a;
  owner[1] = static_cast<uint8_t>(broker + 1);
  return owner;
}

void SmallSystem::Reset() {
  now_ = Instant(seconds(1000));
  links_ = {};
  clients_ = {};
  told_.clear();
  fault_.clear();
  heard_.fill(0);
  for (auto& server : servers_) {
    server->SetClock(NowUs());
    server->Execute(1, {"FLUSHALL"});
  }
  for (size_t number = 0; number < kBrokers; ++number) {
    brokers_[number] = std::make_unique<Broker>(number);
    Broker& broker = *brokers_[number];
    broker.clock.Learn(now_ - kTrip, now_, {NowUs()});
    for (size_t server = 0; server < kServers; ++server) Step(number, ballot::NodeUp{server, false, broker.clock});
    Ask(number);
  }
  heard_.fill(0);
}

void SmallSystem::Fail(const std::string& what) {
  if (fault_.empty()) fault_ = what;
}

void SmallSystem::Mix(size_t process, uint64_t what) { heard_[process] = Mixed(heard_[process], what); }

uint64_t SmallSystem::digest() const {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const uint64_t one : heard_) hash = Mixed(hash, one);
  return hash;
}

// ---- The steps ----

std::vector<int> SmallSystem::Choices() const {
  std::vector<int> choices;
  for (size_t broker = 0; broker < kBrokers; ++broker) {
    for (size_t server = 0; server < kServers; ++server) {
      const Link& link = links_[broker][server];
      if (!link.commands.empty()) choices.push_back(NumberOf(kCommand, broker, server));
      if (!link.replies.empty()) choices.push_back(NumberOf(kReply, broker, server));
      if (!link.notices.empty()) choices.push_back(NumberOf(kNotice, broker, server));
    }
    if (clients_[broker].state == Client::State::kHolds) choices.push_back(NumberOf(kRelease, broker, 0));
  }
  return choices;
}

std::string SmallSystem::NameOf(int choice) const {
  static constexpr std::string_view kNames[] = {"runs", "answers", "notifies", "releases"};
  const auto [kind, broker, server] = ChoiceOf(choice);
  return std::string(kNames[kind]) + " b" + std::to_string(broker) +
         (kind == kRelease ? "" : " s" + std::to_string(server));
}

void SmallSystem::Take(int choice) {
  const auto [kind, broker, server] = ChoiceOf(choice);
  switch (kind) {
    case kCommand:
      Mix(kBrokers + server, static_cast<uint64_t>(choice));
      return RunCommand(broker, server);
    case kReply:
      Mix(broker, static_cast<uint64_t>(choice));
      return DeliverReply(broker, server);
    case kNotice:
      Mix(broker, static_cast<uint64_t>(choice));
      return DeliverNotice(broker, server);
    case kRelease:
      Mix(broker, static_cast<uint64_t>(choice));
      return Release(broker);
    case kKinds:
      break;
  }
  DISTLOCK_CHECK(false && "no such choice");
}

void SmallSystem::RunCommand(size_t broker, size_t server) {
  Link& link = links_[broker][server];
  Command command = std::move(link.commands.front());
  link.commands.pop_front();
  servers_[server]->SetClock(NowUs());
  servers_[server]->ExpireDue();
  std::string_view bytes = command.bytes;
  std::shared_ptr<redisReply> reply(servers_[server]->Execute(SubscriberOf(broker) - 1, ParseCommand(bytes)).release(),
                                    store::ReplyDeleter());
  link.replies.push_back({std::move(command), std::move(reply)});
}

void SmallSystem::DeliverReply(size_t broker, size_t server) {
  Link& link = links_[broker][server];
  const Reply reply = std::move(link.replies.front());
  link.replies.pop_front();
  const store::Answer answer{store::Answer::Kind::kReply, reply.reply.get(), "", reply.command.sent, now_};
  ballot::NodeReply out{.op = reply.command.op, .outcome = core::StoreUnknown{}, .time = {}};
  if (reply.command.plain) {
    store::Decoded decoded = brokers_[broker]->codec.Decode(*reply.command.plain, answer);
    out.outcome = store::OutcomeOf(std::move(decoded.reply));
    out.time = decoded.time;
  } else {
    store::VoteCodec::Decoded decoded = store::VoteCodec::Decode(*reply.command.script, answer);
    if (decoded.malformed) Fail(std::string(reply.command.script->name) + " answered in an unknown shape");
    out.outcome = std::move(decoded.outcome);
    out.time = decoded.time;
  }
  if (store::IsError(*reply.reply)) Fail("a server answers " + std::string(store::Text(*reply.reply)));
  Step(broker, std::move(out));
}

void SmallSystem::DeliverNotice(size_t broker, size_t server) {
  Link& link = links_[broker][server];
  const std::string text = std::move(link.notices.front());
  link.notices.pop_front();
  auto notice = store::Codec::DecodeNotice(text);
  auto* grant = notice ? std::get_if<core::GrantNotice>(&*notice) : nullptr;
  if (grant != nullptr) Step(broker, ballot::NodeNotice{server, *grant});
}

// ---- A broker ----

void SmallSystem::Step(size_t broker, ballot::Input&& input) {
  std::vector<ballot::Effect> effects;
  brokers_[broker]->ballot.Step(now_, std::move(input), effects);
  for (ballot::Effect& effect : effects) {
    if (const auto* send = std::get_if<ballot::SendTo>(&effect)) Send(broker, *send);
  }
  for (ballot::Effect& effect : effects) {
    if (auto* tell = std::get_if<ballot::TellCore>(&effect)) OnCore(broker, tell->input);
  }
}

void SmallSystem::Send(size_t broker, const ballot::SendTo& send) {
  Broker& from = *brokers_[broker];
  Command command{.op = send.op, .script = nullptr, .plain = std::nullopt, .bytes = "", .sent = now_};
  if (const auto* plain = std::get_if<ballot::Plain>(&send.command)) {
    store::Encoded encoded = from.codec.Encode(plain->command, plain->least_token);
    command.script = encoded.script;
    command.plain = std::move(encoded.sent);
    command.bytes = std::move(encoded.bytes);
  } else {
    store::VoteCodec::Encoded encoded = from.votes.Encode(send.command, from.clock, /*trusts_publish=*/true);
    command.script = encoded.script;
    command.bytes = std::move(encoded.bytes);
  }
  links_[broker][send.node].commands.push_back(std::move(command));
}

void SmallSystem::OnCore(size_t broker, core::Input& input) {
  Client& client = clients_[broker];
  if (auto* reply = std::get_if<core::StoreReply>(&input)) return OnReply(broker, *reply);
  const auto* notice = std::get_if<core::GrantNotice>(&input);
  if (notice == nullptr || notice->owner != OwnerOf(broker)) return;
  if (client.state == Client::State::kAsks) Grant(broker, notice->token);
}

void SmallSystem::OnReply(size_t broker, core::StoreReply& reply) {
  Client& client = clients_[broker];
  if (reply.op != client.op) return;
  client.op = 0;
  if (client.state == Client::State::kReleases) {
    if (std::holds_alternative<core::GiveBackDone>(reply.outcome)) {
      client.state = Client::State::kDone;
    } else {
      Release(broker);
    }
    return;
  }
  if (client.state != Client::State::kAsks) return;
  if (const auto* granted = std::get_if<core::AcquireGranted>(&reply.outcome)) return Grant(broker, granted->token);
  if (std::holds_alternative<core::AcquireQueued>(reply.outcome)) {
    client.again = true;
  } else if (std::holds_alternative<core::AcquireHeld>(reply.outcome) && !wishes_[broker].waits) {
    client.state = Client::State::kDone;
  }
  // Any other outcome: Finish asks again.
}

void SmallSystem::Grant(size_t broker, uint64_t token) {
  Client& client = clients_[broker];
  const auto conflict = [&](size_t other) {
    return wishes_[broker].mode == core::Mode::kExclusive || wishes_[other].mode == core::Mode::kExclusive;
  };
  for (const Told& told : told_) {
    if (told.token == token || (conflict(told.broker) && told.token > token)) {
      Fail("the client of b" + std::to_string(broker) + " has token " + std::to_string(token) + " after " +
           std::to_string(told.token));
    }
  }
  const size_t other = 1 - broker;
  if (clients_[other].state == Client::State::kHolds && conflict(other)) Fail("two clients hold the lock");
  client.state = Client::State::kHolds;
  client.token = token;
  told_.push_back({broker, token});
}

void SmallSystem::Ask(size_t broker) {
  Client& client = clients_[broker];
  client.op = ++brokers_[broker]->last_op;
  core::Want want;
  want.mode = wishes_[broker].mode;
  Step(broker, core::StoreCommand(core::StoreAcquire{.op = client.op,
                                                     .name = core::LockName::Encode("default", "k"),
                                                     .want = want,
                                                     .owner = OwnerOf(broker),
                                                     .ttl = kTtl,
                                                     .run_before = now_ + milliseconds(2500),
                                                     .wait = wishes_[broker].waits,
                                                     .again = client.again,
                                                     .info = "i;"}));
}

void SmallSystem::Release(size_t broker) {
  Client& client = clients_[broker];
  client.state = Client::State::kReleases;
  client.op = ++brokers_[broker]->last_op;
  Step(broker, core::StoreCommand(core::StoreRelease{.op = client.op,
                                                     .name = core::LockName::Encode("default", "k"),
                                                     .owner = OwnerOf(broker),
                                                     .token = client.token,
                                                     .block = {}}));
}

// ---- The end ----

// The first step that is possible.
bool SmallSystem::TakeAny() {
  const std::vector<int> choices = Choices();
  if (choices.empty()) return false;
  Take(choices.front());
  return true;
}

void SmallSystem::Finish() {
  const Instant end = now_ + kPatience;
  for (int steps = 0; fault_.empty(); ++steps) {
    const bool done = std::all_of(clients_.begin(), clients_.end(),
                                  [](const Client& client) { return client.state == Client::State::kDone; });
    if (done) return;
    if (steps > kMostSteps || now_ > end) return Fail("somebody is not served");
    if (TakeAny()) {
      now_ += kTrip / 8;
      continue;
    }
    Instant next = now_ + milliseconds(100);
    for (const auto& broker : brokers_) next = std::min(next, std::max(broker->ballot.NextDeadline(), now_ + kTrip));
    now_ = next;
    for (size_t broker = 0; broker < kBrokers; ++broker) {
      Step(broker, ballot::Tick{});
      const Client& client = clients_[broker];
      if (client.state == Client::State::kAsks && client.op == 0 && !client.again) Ask(broker);
    }
  }
}

}  // namespace distlock::sim::quorum
