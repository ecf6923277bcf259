// SPDX-License-Identifier: Apache-2.0
#include "simulation/client_process.h"

#include <algorithm>

#include "contract/to_proto.h"

namespace distlock::sim {

ClientProcess::ClientProcess(Env& env, int number, const std::string& kind, Neighbours neighbours)
    : Process(env, Actor::Kind::kClient, kind + " " + std::to_string(number)), neighbours_(neighbours) {
  home_ = static_cast<size_t>(env.dice.Roll(static_cast<int>(neighbours_.brokers->size())));
}

void ClientProcess::Start() {
  Live();
  PostAfter(env_.dice.Between(Duration(0), env_.temper.longest_pause), [this] { Act(); });
}

void ClientProcess::Kill(Duration heard_within, Duration down) {
  if (!alive()) return;
  env_.Log([&] { return name() + " dies"; });
  env_.NoteFault(FaultKind::kClientKilled, actor(), heard_within);
  if (env_.dice.Chance(env_.temper.proofs)) ProveDeath();
  HangUp(heard_within);
  for (auto& [id, wish] : wishes_) {
    if (wish.stage == Stage::kHeld) {
      Note(wish, {.kind = RecordKind::kEnded, .code = static_cast<uint8_t>(EndedWhy::kClientDied)});
    } else {
      Note(wish, {.kind = RecordKind::kGaveUp});
    }
  }
  wishes_.clear();
  Vanish();
  Die();
  env_.time.After(down, [this] { Start(); });
}

// Brokers learn of the death, before they hear of the end of the streams or after it, maybe twice, and also of sessions
// that they do not know, as when they were started anew.
void ClientProcess::ProveDeath() {
  constexpr core::SessionId kUnknown = 1'000'000'000;
  for (const auto& broker : *neighbours_.brokers) {
    if (!broker->alive()) continue;
    for (const core::SessionId session : broker->front().OpenedBy(*this)) {
      const int times = env_.dice.Chance(0.2) ? 2 : 1;
      for (int i = 0; i < times; ++i) {
        const Duration late = env_.dice.Chance(0.5) ? milliseconds(1) : env_.temper.validity;
        broker->HearOfDeath(session, env_.dice.Between(Duration(0), late));
      }
      if (env_.dice.Chance(0.1)) broker->HearOfDeath(session + kUnknown, Duration(0));
    }
  }
}

std::string ClientProcess::Waiting() const {
  std::string text = name();
  for (const auto& [id, wish] : wishes_) {
    text += wish.releasing ? ", for the end of " : wish.stage == Stage::kHeld ? ", holding " : ", for ";
    text += LabelOf(wish);
  }
  return text;
}

void ClientProcess::MoveHome() {
  home_ = static_cast<size_t>(env_.dice.Roll(static_cast<int>(neighbours_.brokers->size())));
}

void ClientProcess::MoveOn() {
  std::vector<size_t> open;
  for (size_t i = 0; i < neighbours_.brokers->size(); ++i) {
    const BrokerProcess& broker = *(*neighbours_.brokers)[i];
    if (broker.alive() && !broker.draining()) open.push_back(i);
  }
  if (!open.empty()) home_ = env_.dice.Pick(open);
}

BrokerProcess* ClientProcess::LiveBroker() {
  std::vector<BrokerProcess*> live;
  for (const auto& broker : *neighbours_.brokers) {
    if (broker->alive()) live.push_back(broker.get());
  }
  return live.empty() ? nullptr : env_.dice.Pick(live);
}

// ---- Requests ----

void ClientProcess::Act() {
  if (!env_.acting) return;
  if (wishes_.size() < most_wishes()) MakeWish();
  PostAfter(env_.dice.Between(microseconds(50), env_.temper.longest_pause), [this] { Act(); });
}

void ClientProcess::Draw(Wish& wish) {
  Dice& dice = env_.dice;
  const Temper& temper = env_.temper;
  wish.lock = dice.Roll(temper.locks);
  wish.key = env_.history.locks[static_cast<size_t>(wish.lock)];
  wish.ttl = dice.Pick(temper.ttls);
  if (dice.Chance(temper.one_try)) {
    wish.max_wait = Duration(0);
  } else if (dice.Chance(temper.bounded_wait)) {
    wish.max_wait = dice.Between(milliseconds(1), dice.Chance(0.5) ? milliseconds(50) : seconds(8));
  }
  // The contract bounds the ttl of a detached lease by its max_hold, which is no shorter than the shortest ttl.
  if (dice.Chance(temper.max_hold)) wish.max_hold = dice.Between(milliseconds(detached() ? 300 : 50), seconds(4));
  if (dice.Chance(temper.lock_delay)) wish.lock_delay = dice.Between(milliseconds(1), seconds(3));
  const Way& way = temper.ways[static_cast<size_t>(wish.lock)];
  wish.want.policy = way.policy;
  if (way.limit > 0) {
    wish.want.mode = core::Mode::kPermit;
    wish.want.limit = way.limit;
    wish.want.permits = static_cast<uint32_t>(dice.Chance(0.6) ? 1 : 1 + dice.Roll(static_cast<int>(way.limit)));
  } else if (dice.Chance(way.readers)) {
    wish.want.mode = core::Mode::kShared;
  }
  wish.reentrant = dice.Chance(temper.reentrant);
  wish.downgrades = wish.want.mode == core::Mode::kExclusive && dice.Chance(temper.downgrade);
  wish.on_disconnect = dice.Chance(0.7)   ? core::OnDisconnect::kSafe
                       : dice.Chance(0.5) ? core::OnDisconnect::kRelease
                                          : core::OnDisconnect::kExpire;
  if (temper.unrenewed > 0) wish.renewed = !dice.Chance(temper.unrenewed);
  const bool may_block = temper.min_hold > 0 && wish.want.mode == core::Mode::kExclusive;
  if (may_block && dice.Chance(temper.min_hold)) wish.min_hold = dice.Between(milliseconds(1), seconds(2));
  wish.moves = can_move() && wish.on_disconnect != core::OnDisconnect::kRelease && dice.Chance(temper.moves);
}

void ClientProcess::Number(Wish& wish) {
  wish.lease = static_cast<int64_t>(env_.history.leases.size());
  env_.history.leases.push_back(
      {.lock = wish.lock,
       .client = actor(),
       .ttl_ns = wish.ttl.count(),
       .lock_delay_ns = wish.lock_delay.count(),
       .max_hold_ns = wish.max_hold.count(),
       .min_hold_ns = wish.min_hold.count(),
       .detached = detached(),
       .risky = !detached() && wish.on_disconnect == core::OnDisconnect::kRelease,
       .freed_by_promise = !detached() && wish.on_disconnect != core::OnDisconnect::kExpire && !wish.moves,
       .by_heartbeat = by_heartbeat(),
       .together = wish.together,
       .kind = static_cast<HoldKind>(wish.want.mode),
       .permits = wish.want.permits,
       .limit = wish.want.limit,
       .preferred = core::IsPreferred(wish.want),
       .keeps_place = keeps_place(wish) && KeepsPlace(wish) && !wish.together,
       .adaptive = wish.want.policy == core::Policy::kAdaptive});
  Note(wish, {.kind = RecordKind::kAsked, .value = wish.max_wait ? wish.max_wait->count() : -1});
  env_.Log([&] { return name() + " wants " + wish.key + " as " + LabelOf(wish); });
}

std::string ClientProcess::PrefixOfRequests() {
  return "requests of " + name() + " in life " + std::to_string(++lives_) + ": ";
}

void ClientProcess::AskAnew(Wish& wish) {
  Note(wish, {.kind = RecordKind::kGaveUp});
  Number(wish);
}

void ClientProcess::MakeWish() {
  if (takes_together() && env_.temper.locks > 1 && env_.dice.Chance(env_.temper.together)) return MakeWishes();
  const int64_t id = next_id_++;
  Wish& wish = wishes_[id];
  wish.id = id;
  Draw(wish);
  Number(wish);
  LosePatience(id);
  Ask(wish);
}

void ClientProcess::LosePatience(int64_t id) {
  if (!env_.dice.Chance(env_.temper.impatient)) return;
  const Duration patience = env_.dice.Between(Duration(0), env_.dice.Chance(0.7) ? milliseconds(5) : seconds(3));
  PostAfter(patience, [this, id] {
    Wish* same = Find(id);
    if (same == nullptr || same->stage != Stage::kAsking) return;
    env_.Log([&] { return name() + " gives up " + LabelOf(*same); });
    Note(*same, {.kind = RecordKind::kGaveUp});
    GiveUp(*same);
  });
}

void ClientProcess::MakeWishes() {
  std::map<int32_t, int64_t> by_lock;
  const int count = std::min(env_.temper.locks, 2 + env_.dice.Roll(2));
  for (int tries = 0; tries < 8 && static_cast<int>(by_lock.size()) < count; ++tries) {
    Wish wish;
    Draw(wish);
    if (by_lock.contains(wish.lock)) continue;
    wish.id = next_id_++;
    wish.reentrant = false;
    wish.min_hold = {};
    wish.together = true;
    if (!by_lock.empty()) wish.max_wait = wishes_.at(by_lock.begin()->second).max_wait;
    by_lock.emplace(wish.lock, wish.id);
    Number(wishes_.emplace(wish.id, wish).first->second);
  }
  std::vector<int64_t> ids;
  for (const auto& [lock, id] : by_lock) ids.push_back(id);
  if (env_.dice.Chance(0.5)) std::reverse(ids.begin(), ids.end());
  LosePatience(ids.front());
  AskTogether(ids);
}

v1::LockSpec ClientProcess::SpecOf(const Wish& wish) const {
  v1::LockSpec spec;
  spec.set_key(wish.key);
  spec.set_owner(LabelOf(wish));
  *spec.mutable_ttl() = contract::ToProto(wish.ttl);
  if (wish.max_wait) *spec.mutable_max_wait() = contract::ToProto(*wish.max_wait);
  if (wish.max_hold > Duration(0)) *spec.mutable_max_hold() = contract::ToProto(wish.max_hold);
  if (wish.lock_delay > Duration(0)) *spec.mutable_lock_delay() = contract::ToProto(wish.lock_delay);
  if (wish.min_hold > Duration(0)) *spec.mutable_min_hold() = contract::ToProto(wish.min_hold);
  spec.set_mode(static_cast<v1::LockMode>(static_cast<int>(wish.want.mode) + 1));
  spec.set_policy(static_cast<v1::QueuePolicy>(static_cast<int>(wish.want.policy) + 1));
  if (wish.want.mode == core::Mode::kPermit) {
    spec.set_permits(static_cast<int32_t>(wish.want.permits));
    spec.set_limit(static_cast<int32_t>(wish.want.limit));
  }
  spec.set_on_disconnect(static_cast<v1::OnDisconnect>(static_cast<int>(wish.on_disconnect) + 1));
  return spec;
}

ClientProcess::Wish* ClientProcess::Find(int64_t id) {
  const auto found = wishes_.find(id);
  return found == wishes_.end() ? nullptr : &found->second;
}

// ---- Holding ----

void ClientProcess::OnGranted(Wish& wish, uint64_t token, Duration left) {
  Note(wish, {.kind = RecordKind::kGranted, .token = token});
  if (wish.stage == Stage::kHeld) return;
  env_.Log([&] { return name() + " is granted " + LabelOf(wish); });
  wish.stage = Stage::kHeld;
  wish.token = token;
  const int64_t id = wish.id;
  Duration hold =
      env_.dice.Between(Duration(0), env_.dice.Chance(env_.temper.short_holds) ? env_.temper.longest_hold : seconds(8));
  if (!wish.renewed) {
    // Its clock and that of the simulation run apart.
    const Duration before = left / 500 + env_.dice.Between(milliseconds(2), milliseconds(100));
    const Duration most = left - std::min(left / 2, before);
    hold = env_.dice.Chance(0.7) ? most : std::min(hold, most);
  }
  PostAfter(env_.dice.Between(Duration(0), hold), [this, id] { Work(id); });
  if (wish.downgrades) PostAfter(env_.dice.Between(Duration(0), hold), [this, id] { GoOnAsReader(id); });
  PostAfter(hold, [this, id] {
    Wish* same = Find(id);
    if (same == nullptr || same->stage != Stage::kHeld) return;
    if (env_.acting && env_.dice.Chance(env_.temper.careless)) {
      return Kill(env_.dice.Chance(0.5) ? Duration(0) : seconds(5), env_.dice.Between(milliseconds(1), seconds(2)));
    }
    Work(id);
    same = Find(id);
    if (same == nullptr) return;
    env_.Log([&] { return name() + " gives back " + LabelOf(*same); });
    same->releasing = true;
    if (Checks(*same)) OnEnded(*same, EndedWhy::kReleasing);
    GiveBack(*same);
  });
}

// From the request for the downgrade on it does not write, whatever the outcome.
void ClientProcess::GoOnAsReader(int64_t id) {
  Wish* wish = Find(id);
  if (wish == nullptr || wish->stage != Stage::kHeld || wish->releasing || !Checks(*wish)) return;
  env_.Log([&] { return name() + " goes on as a reader of " + LabelOf(*wish); });
  wish->reads = true;
  Note(*wish, {.kind = RecordKind::kYields});
  Downgrade(*wish);
}

// Checks, then writes: at once, or a little later, when the lock may have been lost.
void ClientProcess::Work(int64_t id) {
  Wish* wish = Find(id);
  if (wish == nullptr || wish->stage != Stage::kHeld || !Checks(*wish)) return;
  if (env_.now() >= wish->until)
    env_.Fail(name() + "'s check says that it has " + LabelOf(*wish) + " after its belief has ended");
  if (env_.dice.Chance(0.5)) return Write(*wish);
  PostAfter(env_.dice.Between(Duration(0), milliseconds(2)), [this, copy = *wish] { Write(copy); });
}

// Only an EXCLUSIVE holder writes: several holders may write in any order of tokens.
void ClientProcess::Write(const Wish& wish) {
  if (wish.want.mode != core::Mode::kExclusive || wish.reads) return;
  const bool accepted = neighbours_.data->Write(wish.lock, wish.token);
  Note(wish, {.kind = RecordKind::kWrote, .code = accepted, .token = wish.token});
}

void ClientProcess::OnBelief(Wish& wish, Duration local_until) {
  // Belief ends at the first time at which the client's clock shows the deadline.
  const Instant until = SimulatedTime(local_until);
  if (until == wish.until || wish.releasing) return;
  wish.until = until;
  Note(wish, {.kind = RecordKind::kBelieves, .until_ns = Env::Ns(until)});
}

void ClientProcess::OnEnded(Wish& wish, EndedWhy why, int64_t value) {
  env_.Log([&] {
    return name() + " has no " + LabelOf(wish) + " any more (" + std::to_string(static_cast<int>(why)) + ")";
  });
  Note(wish, {.kind = RecordKind::kEnded, .code = static_cast<uint8_t>(why), .value = value});
  if (wish.releasing) return;
  wishes_.erase(wish.id);
}

void ClientProcess::OnRefused(Wish& wish, core::RefusalReason reason) {
  env_.Log(
      [&] { return name() + " is refused " + LabelOf(wish) + " (" + std::to_string(static_cast<int>(reason)) + ")"; });
  Note(wish, {.kind = RecordKind::kRefused, .code = static_cast<uint8_t>(reason)});
  wishes_.erase(wish.id);
}

void ClientProcess::OnReleased(Wish& wish, core::ReleaseOutcome outcome) {
  Note(wish, {.kind = RecordKind::kReleased, .code = static_cast<uint8_t>(outcome)});
  wishes_.erase(wish.id);
}

void ClientProcess::Note(const Wish& wish, Record record) {
  record.actor = actor();
  record.lock = wish.lock;
  record.lease = wish.lease;
  env_.Note(record);
}

}  // namespace distlock::sim
