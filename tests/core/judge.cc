// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include <cstdio>

namespace distlock::core {
namespace {

// Attempts, their time-outs and back-offs take this long at most once all is well again.
constexpr Duration kPatience = std::chrono::seconds(6);

}  // namespace

std::string Short(const OwnerId& owner) {
  char text[16];
  std::snprintf(text, sizeof text, "o%d", owner[13] << 16 | owner[14] << 8 | owner[15]);
  return text;
}

Judge::Judge(bool calm, bool gentle, Duration validity, std::function<Instant()> now,
             std::function<const OwnerId*(const LockName&)> holder, std::function<void(std::string)> fail)
    : calm_(calm),
      gentle_(gentle),
      validity_(validity),
      now_(std::move(now)),
      holder_(std::move(holder)),
      fail_(std::move(fail)) {}

void Judge::Fail(const std::string& what, const LockName& name, const OwnerId& owner) {
  fail_(what + " (" + name.escaped() + " " + Short(owner) + ")");
}

void Judge::Granted(const LockName& name, const OwnerId& owner, uint64_t token) {
  uint64_t& last = last_token_[name];
  if (token <= last) Fail("a token is not greater than the last one", name, owner);
  last = token;
  tokens_[owner].insert(token);
  if (!places_.contains(owner)) places_[owner] = Place{++orders_, epoch_};
}

void Judge::Freed(const LockName& name, const OwnerId& owner) {
  places_.erase(owner);
  const auto belief = beliefs_.find(owner);
  if (belief == beliefs_.end() || belief->second.until <= now_() || excused_.contains(owner)) return;
  Fail("the store gave it up while its holder believes for another " +
           std::to_string((belief->second.until - now_()).count() / 1000) + " us",
       name, owner);
}

// A living broker lets nothing run out that it can give back, unless it is told to.
void Judge::Expired(const LockName& name, const OwnerId& owner, Duration quiet) {
  const auto keeper = keepers_.find(owner);
  if (keeper != keepers_.end() && quiet > keeper->second.keep + kPatience) Fail("left to its ttl", name, owner);
}

void Judge::Queued(const LockName& name, const OwnerId& owner) {
  const Place before = places_[owner];
  places_[owner] = Place{++orders_, epoch_};
  const auto self = asks_.find(by_owner_[owner]);
  if (self == asks_.end() || self->second.detached) return;
  const Ask& mine = self->second;
  for (const auto& [other_key, other] : asks_) {
    if (other.node != mine.node || other.name != name || other.owner == owner || tokens_.contains(other.owner)) continue;
    if (other.over || other.granted || other.one_try || other.detached) continue;
    const auto place = places_.find(other.owner);
    if (calm_ && other.arrival < mine.arrival && place == places_.end()) {
      Fail("queued before " + Short(other.owner) + ", who came earlier", name, owner);
    }
    if (!gentle_ || before.epoch == 0 || before.epoch == epoch_ || place == places_.end()) continue;
    const bool ahead = other.arrival < mine.arrival && place->second.order < before.order;
    if (ahead && place->second.epoch == before.epoch) {
      Fail("queued anew before " + Short(other.owner) + ", who was ahead", name, owner);
    }
  }
}

void Judge::Believe(const LockName& name, const OwnerId& owner, Instant until) {
  if (until <= now_()) return;
  const OwnerId* holder = holder_(name);
  if ((holder == nullptr || *holder != owner) && !excused_.contains(owner)) {
    Fail("believes in what the store does not hold for it", name, owner);
  }
  for (const auto& [other, belief] : beliefs_) {
    if (other == owner || belief.name != name || belief.until <= now_()) continue;
    if (!excused_.contains(other) && !excused_.contains(owner)) Fail(Short(other) + " believes as well", name, owner);
  }
  Belief& belief = beliefs_[owner];
  belief.name = name;
  belief.until = std::max(belief.until, until);
}

void Judge::Asked(int node, const Acquire& acquire) {
  Ask ask;
  ask.node = node;
  ask.arrival = ++arrivals_;
  ask.name = acquire.name;
  ask.owner = acquire.owner;
  ask.detached = acquire.detached;
  ask.one_try = acquire.max_wait && *acquire.max_wait == Duration::zero();
  ask.capped = acquire.max_hold > Duration::zero();
  const Key key{acquire.session, acquire.request};
  if (over_.contains(acquire.session)) return;
  if (!asks_.emplace(key, ask).second) fail_("the world used a request id twice");
  by_owner_[ask.owner] = key;
  // A short ttl may end before the promise does, and with it the lease.
  const bool outlives = acquire.ttl * 2 / 3 > validity_ + std::chrono::seconds(1);
  if (!acquire.detached && acquire.on_disconnect != OnDisconnect::kExpire && outlives) {
    keepers_[ask.owner] = Keeper{node, acquire.ttl + acquire.lock_delay};
  }
}

void Judge::Called(SessionId session, RequestId request) {
  if (!over_.contains(session)) calls_.insert({session, request});
}

void Judge::Told(const Notify& notify) {
  const Key key{notify.session, notify.request};
  if (std::holds_alternative<EndStream>(notify.event)) return StreamOver(notify.session);
  if (notify.request == 0 || over_.contains(notify.session)) return;
  if (const auto call = calls_.find(key); call != calls_.end()) {
    if (!std::holds_alternative<Released>(notify.event) && !std::holds_alternative<Refused>(notify.event) &&
        !std::holds_alternative<RenewDone>(notify.event)) {
      fail_("a call was answered with an event of another kind");
    }
    calls_.erase(call);
    return;
  }
  const auto found = asks_.find(key);
  if (found == asks_.end()) {
    if (const auto any = asks_.lower_bound({notify.session, 0}); any != asks_.end() && any->first.first == notify.session) {
      fail_("an answer to nothing, or a second one: session " + std::to_string(notify.session) + " request " +
            std::to_string(notify.request));
    }
    return;
  }
  Ask& ask = found->second;
  if (ask.over) return Fail("an event after the final answer", ask.name, ask.owner);
  if (const auto* granted = std::get_if<core::Granted>(&notify.event)) return TellGranted(ask, *granted);
  if (std::holds_alternative<core::Queued>(notify.event)) {
    if (ask.told_place || ask.granted) Fail("told its place twice, or after the grant", ask.name, ask.owner);
    ask.told_place = true;
    return;
  }
  if (const auto* refused = std::get_if<Refused>(&notify.event)) {
    if (ask.granted && refused->reason != RefusalReason::kCancelled) Fail("refused after the grant", ask.name, ask.owner);
    // At the very start a broker is not yet connected.
    const bool connected = now_() > Instant(std::chrono::hours(100)) + std::chrono::milliseconds(200);
    if (calm_ && connected && refused->reason == RefusalReason::kStoreUnavailable) Fail("refused for no reason", ask.name, ask.owner);
    ask.over = true;
    return;
  }
  TellAboutLease(ask, notify);
}

void Judge::TellGranted(Ask& ask, const core::Granted& granted) {
  if (ask.granted) return Fail("granted twice", ask.name, ask.owner);
  ask.granted = true;
  if (ask.detached) ask.over = true;
  ++grants_;
  if (!tokens_[ask.owner].contains(granted.token)) Fail("granted with a token that the store never gave", ask.name, ask.owner);
  if (granted.valid_for <= Duration::zero()) Fail("granted without validity", ask.name, ask.owner);
  const auto mine = places_.find(ask.owner);
  if (!calm_ || mine == places_.end()) return;
  for (const auto& [key, other] : asks_) {
    if (other.name != ask.name || other.over || other.granted || other.one_try || other.owner == ask.owner) continue;
    const auto place = places_.find(other.owner);
    if (place != places_.end() && place->second.order < mine->second.order) Fail("granted before " + Short(other.owner), ask.name, ask.owner);
  }
}

void Judge::TellAboutLease(Ask& ask, const Notify& notify) {
  if (!ask.granted) return Fail("news of a lease before its grant", ask.name, ask.owner);
  if (calm_ && std::holds_alternative<AtRisk>(notify.event)) Fail("at risk for no reason", ask.name, ask.owner);
  if (const auto* lost = std::get_if<Lost>(&notify.event)) {
    ask.over = true;
    if (calm_ && !(ask.capped && lost->reason == LostReason::kMaxHold)) {
      Fail("lost for no reason: " + lost->cause, ask.name, ask.owner);
    }
  } else if (std::holds_alternative<Released>(notify.event)) {
    ask.over = true;
  }
}

void Judge::NodeDied(int node) {
  std::erase_if(keepers_, [node](const auto& entry) { return entry.second.node == node; });
}

void Judge::StreamOver(SessionId session) {
  over_.insert(session);
  asks_.erase(asks_.lower_bound({session, 0}), asks_.lower_bound({session + 1, 0}));
  calls_.erase(calls_.lower_bound({session, 0}), calls_.lower_bound({session + 1, 0}));
}

void Judge::ExpectAllAnswered() {
  for (const auto& [key, ask] : asks_) {
    if (!ask.granted && !ask.over) Fail("never answered", ask.name, ask.owner);
  }
  for (const auto& key : calls_) fail_("a call was never answered: session " + std::to_string(key.first));
}

}  // namespace distlock::core
