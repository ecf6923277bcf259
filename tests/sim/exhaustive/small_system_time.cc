// SPDX-License-Identifier: Apache-2.0
//
// SmallSystem: time, what is checked, and the fair end.
#include <algorithm>

#include "exhaustive/small_system.h"
#include "store/redis/wire_value.h"

namespace distlock::sim {
namespace {

using core::Instant;
using Phase = SmallClient::Phase;

constexpr int kBeatsMax = 600;  // in a row with nothing else between them
constexpr int kPassesPerLeap = 40;
constexpr int kRoundsMax = 400;
constexpr core::Duration kServedMax = 3 * kSmallTtl;  // a ttl for what was lost, and one for what that had hidden
constexpr core::Duration kFinishMax = std::chrono::seconds(45);
constexpr core::Duration kAllKeysGone = std::chrono::seconds(60);

}  // namespace

// ---- Time ----

bool SmallSystem::TimeMatters() const {
  for (const auto& node : brokers_) {
    const core::BrokerStats stats = node->core.Stats();
    if (stats.timers > stats.sessions) return true;  // each session has one, which heartbeats keep ahead
  }
  for (const SmallClient& client : clients_) {
    if (client.Believes(now_)) return true;
  }
  return store_.HolderEnds() != core::kNever;
}

// Heartbeats included.
Instant SmallSystem::NextInstant() const {
  Instant next = store_.HolderEnds();
  for (const auto& node : brokers_) next = std::min(next, node->core.NextDeadline());
  for (const SmallClient& client : clients_) {
    next = std::min({next, client.next_beat(), client.believes_until(now_)});
  }
  return next;
}

// Heartbeats go out and are answered on the way: they are no instants of their own.
void SmallSystem::Pass() {
  for (int beats = 0; fault_.empty(); ++beats) {
    if (beats == kBeatsMax) return Fail("something is under way, and nothing is due");
    const Instant next = NextInstant();
    bool only_beats = store_.HolderEnds() > next;
    for (const SmallClient& client : clients_) only_beats = only_beats && client.believes_until(now_) > next;
    for (const auto& node : brokers_) only_beats = only_beats && node->core.NextDeadline() > next;
    now_ = next;
    store_.SetTime(now_);
    CheckStore();
    CheckBelief();
    for (size_t who = 0; who < kClients; ++who) {
      if (clients_[who].next_beat() <= now_) Beat(who);
    }
    for (size_t broker = 0; broker < brokers_.size(); ++broker) {
      if (brokers_[broker]->core.NextDeadline() <= now_) Tick(broker);
    }
    // As the client library does: what it no longer believes in, it gives back.
    for (size_t who = 0; who < kClients; ++who) {
      if (clients_[who].Lapses(now_) && !clients_[who].broken()) GiveBack(who);
    }
    CheckBelief();
    if (!only_beats) return;
  }
}

void SmallSystem::Leap() {
  const auto believers = [this] {
    return std::count_if(clients_.begin(), clients_.end(), [this](const auto& c) { return c.Believes(now_); });
  };
  const auto news = [this] {
    uint64_t sum = 0;
    for (const SmallClient& client : clients_) sum += client.news();
    return sum;
  };
  const auto believed = believers();
  const uint64_t heard = news();
  const uint64_t token = holder_token_;
  for (int i = 0; i < kPassesPerLeap && TimeMatters() && fault_.empty(); ++i) {
    Pass();
    if (believers() != believed || news() != heard || holder_token_ != token) return;
  }
}

// ---- Checks ----

void SmallSystem::CheckStore() {
  if (!store_.TakeChanged()) return;
  const auto holder = store_.Holder();
  const core::OwnerId owner = holder ? holder->owner : core::OwnerId{};
  const uint64_t token = holder ? holder->token : 0;
  const bool blocked = holder && owner == core::OwnerId{};
  if (holder && !blocked && (owner != holder_ || token != holder_token_)) {
    Log([&] {
      return "the store has a new holder: " + store::HexOfOwner(owner).substr(28) + ", token " + std::to_string(token);
    });
    if (token <= last_token_) Fail("a token that does not grow");
    last_token_ = token;
  }
  if (!holder && holder_token_ != 0) Log([] { return "the store has no holder"; });
  holder_ = owner;
  holder_token_ = token;
}

void SmallSystem::CheckBelief() {
  for (size_t who = 0; who < kClients; ++who) {
    const SmallClient& client = clients_[who];
    if (!client.Believes(now_)) continue;
    if (holder_token_ == 0 || holder_ != client.owner()) {
      Fail("client " + std::to_string(who) + " believes in a lock that the store has " +
           (holder_token_ == 0 ? "not" : "for somebody else"));
    } else if (holder_token_ != client.token()) {
      Fail("client " + std::to_string(who) + " believes under another token than the store's");
    }
  }
}

uint64_t SmallSystem::Fingerprint() const {
  Digest digest;
  digest.Add(static_cast<uint64_t>(now_.time_since_epoch().count()));
  digest.Add(static_cast<uint64_t>(losses_));
  digest.Add(last_token_);
  for (const auto& node : brokers_) {
    digest.Add(node->history.value());
    digest.Add(node->sent.size());
    for (const Sent& sent : node->sent) digest.Add(sent.bytes);
    digest.Add(node->replies.size());
    for (const Reply& reply : node->replies) digest.Add(reply.digest);
    digest.Add(node->late.size());
    for (const auto& connection : node->late) {
      digest.Add(connection.size());
      for (const Sent& sent : connection) digest.Add(sent.bytes);
    }
    digest.Add(node->notices.size());
    for (const std::string& payload : node->notices) digest.Add(payload);
  }
  for (const SmallClient& client : clients_) client.AddTo(digest);
  store_.AddTo(digest);
  return digest.value();
}

// ---- The fair end ----

// Until nothing is under way any more; false: nothing was.
bool SmallSystem::DeliverAll() {
  bool any = false;
  for (bool more = true; more && fault_.empty();) {
    more = false;
    for (size_t broker = 0; broker < brokers_.size(); ++broker) {
      BrokerNode& node = *brokers_[broker];
      if (!node.up) Do({Verb::kConnect, static_cast<uint8_t>(broker)});
      for (const auto& [queue_is_empty, verb] :
           {std::pair(node.sent.empty(), Verb::kRun), std::pair(node.replies.empty(), Verb::kReply),
            std::pair(node.notices.empty(), Verb::kHear)}) {
        if (queue_is_empty) continue;
        Do({verb, static_cast<uint8_t>(broker)});
        any = more = true;
        break;  // each broker in turn, and no reply before its time
      }
    }
  }
  return any;
}

core::BrokerStats SmallSystem::Totals() const {
  core::BrokerStats totals;
  for (const auto& node : brokers_) {
    const core::BrokerStats stats = node->core.Stats();
    totals.sessions += stats.sessions;
    totals.leases += stats.leases;
    totals.waiters += stats.waiters;
    totals.pending_releases += stats.pending_releases;
    totals.queues += stats.queues;
    totals.ops += stats.ops;
    totals.timers += stats.timers;
  }
  return totals;
}

bool SmallSystem::AtRest() const {
  const core::BrokerStats totals = Totals();
  return totals.sessions + totals.leases + totals.waiters + totals.pending_releases + totals.queues + totals.ops +
             totals.timers ==
         0;
}

bool SmallSystem::EverybodyServed() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const SmallClient& client) {
    return client.broken() || (client.phase() == Phase::kIdle && client.unanswered() == 0);
  });
}

void SmallSystem::LetGo() {
  for (size_t who = 0; who < kClients; ++who) {
    if (!clients_[who].broken() && clients_[who].phase() == Phase::kHeld) {
      Do({Verb::kRelease, static_cast<uint8_t>(who)});
    }
  }
}

void SmallSystem::Finish() {
  const Instant begin = now_;
  for (const auto& node : brokers_) node->late.clear();
  bool left = false;
  for (int round = 0; fault_.empty(); ++round) {
    DeliverAll();
    LetGo();
    if (DeliverAll()) continue;
    if (!left && EverybodyServed()) {
      left = true;
      served_after_ = now_ - begin;
      for (size_t who = 0; who < kClients; ++who) {
        if (!clients_[who].broken()) Do({Verb::kBreak, static_cast<uint8_t>(who)});
      }
      continue;
    }
    if (left && AtRest()) break;
    if (round == kRoundsMax || now_ - begin > (left ? kFinishMax : kServedMax)) {
      return Fail(left ? "the cores do not forget what has ended" : "somebody is not answered");
    }
    if (!TimeMatters()) return Fail(left ? "a core remembers what will never end" : "somebody waits for ever");
    Pass();
  }
  if (!fault_.empty()) return;
  // Until here the cores have vouched for whatever is in the store.
  if (holder_token_ != 0 && holder_ != core::OwnerId{}) return Fail("the store has a holder that no core knows of");
  now_ += kAllKeysGone;
  store_.SetTime(now_);
  if (!store_.KeysLeft().empty()) Fail("keys are left:" + store_.KeysLeft());
}

}  // namespace distlock::sim
