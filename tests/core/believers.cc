// SPDX-License-Identifier: Apache-2.0
//
// Callers: what they are told, and what they may believe then.
#include <algorithm>

#include "callers.h"

namespace distlock::core {

void Callers::Told(int node, const Notify& notify) {
  env_.judge->Told(notify);
  const auto found = streams_.find(notify.session);
  if (found == streams_.end() || found->second->node != node) return;
  const StreamPtr stream = found->second;
  if (std::holds_alternative<EndStream>(notify.event)) {
    env_.time.After(env_.Delay(), [this, stream] { Gone(stream); });
  }
  if (stream->parted) return;
  const bool local = stream->detached || stream->kind == SessionKind::kHold;
  stream->down_at = std::max(stream->down_at, env_.now() + (local ? Duration::zero() : env_.Delay()));
  env_.time.At(stream->down_at, [this, stream, notify] {
    if (stream->open && !(stream->parted && stream->lost_down)) Hear(stream, notify);
  });
}

void Callers::Hear(const StreamPtr& stream, const Notify& notify) {
  if (const auto* ack = std::get_if<HeartbeatAck>(&notify.event)) return OnAck(stream, *ack);
  if (std::holds_alternative<EndStream>(notify.event)) {
    stream->open = false;
    for (auto& [request, wish] : stream->wishes) EndWish(wish);
    return;
  }
  if (const auto of = renewals_.find(stream->id); of != renewals_.end()) {
    const StreamPtr lease = of->second;
    renewals_.erase(of);
    Wish& wish = lease->wishes.begin()->second;
    if (const auto* done = std::get_if<RenewDone>(&notify.event); done != nullptr && wish.stage == Stage::kHeld) {
      Believe(wish, stream->beats.at(0) + done->valid_for);
    }
    return Close(stream);
  }
  if (const auto of = releases_.find(stream->id); of != releases_.end()) {
    const StreamPtr lease = of->second;
    releases_.erase(of);
    if (std::holds_alternative<Released>(notify.event)) AskOnceMore(lease);
    return Close(stream);
  }
  const auto found = stream->wishes.find(notify.request);
  if (found == stream->wishes.end()) {
    if (stream->detached) Close(stream);
    return;
  }
  Wish& wish = found->second;
  if (const auto* granted = std::get_if<Granted>(&notify.event)) return OnGranted(stream, notify.request, *granted);
  if (const auto* renewed = std::get_if<Renewed>(&notify.event)) {
    if (stream->kind == SessionKind::kHold && wish.stage == Stage::kHeld) Believe(wish, env_.now() + renewed->valid_for);
    return;
  }
  if (std::holds_alternative<Lost>(notify.event) || std::holds_alternative<Refused>(notify.event) ||
      std::holds_alternative<Released>(notify.event)) {
    env_.Log([&] {
      const auto* refused = std::get_if<Refused>(&notify.event);
      return "s" + std::to_string(stream->id) + " hears that " + Short(wish.spec.owner) + " is over" +
             (refused != nullptr ? ": " + std::to_string(static_cast<int>(refused->reason)) + " " + refused->cause : "");
    });
    EndWish(wish);
    if (stream->detached) Close(stream);
  }
}

void Callers::Believe(Wish& wish, Instant until) {
  if (wish.releasing || wish.stage == Stage::kOver) return;
  wish.until = std::max(wish.until, until);
  if (until <= env_.now()) return;
  wish.believed = true;
  env_.judge->Believe(wish.spec.name, wish.spec.owner, until);
}

void Callers::OnGranted(const StreamPtr& stream, RequestId request, const Granted& granted) {
  Wish& wish = stream->wishes.at(request);
  env_.Log([&] { return "s" + std::to_string(stream->id) + " hears that " + Short(wish.spec.owner) + " is granted"; });
  if (wish.stage == Stage::kOver) return;
  if (stream->detached && mine_[stream->client] != stream) return Close(stream);  // its repeat is told as well
  wish.stage = Stage::kHeld;
  wish.token = granted.token;
  if (stream->detached) {
    // The answer ends the call, not the lease.
    stream->parted = true;
    env_.time.At(env_.now(), [this, stream] { Gone(stream); });
  }
  if (!stream->detached && stream->kind == SessionKind::kSession) {
    const auto beat = stream->beats.find(granted.echo_seq);
    if (beat != stream->beats.end()) Believe(wish, beat->second + granted.valid_for);
  } else if (stream->detached) {
    Believe(wish, stream->beats.at(0) + granted.valid_for);  // from when the request was sent
  } else {
    Believe(wish, env_.now() + granted.valid_for);
  }
  const Duration hold = env_.dice.Between({}, env_.dice.Chance(0.8) ? milliseconds(300) : seconds(6));
  if (stream->detached) {
    env_.time.After(hold, [this, stream] { ReleaseDetached(stream); });
    const Duration left = std::max<Duration>(wish.until - env_.now(), Duration::zero());
    env_.time.After(left / 3, [this, stream] { RenewDetached(stream); });
  } else {
    env_.time.After(hold, [this, stream, request] { Release(stream, request); });
  }
}

void Callers::OnAck(const StreamPtr& stream, const HeartbeatAck& ack) {
  const auto beat = stream->beats.find(ack.seq);
  if (beat == stream->beats.end()) return;
  for (auto& [request, wish] : stream->wishes) {
    if (wish.stage != Stage::kHeld || wish.releasing) continue;
    if (wish.believed && wish.until <= env_.now()) {
      // What one has ceased to believe in does not come back.
      if (env_.temper.calm && wish.spec.max_hold == Duration::zero()) env_.Fail("belief lapsed for no reason");
      Release(stream, request);
      continue;
    }
    Duration valid_for = ack.valid_for;
    for (const LeaseLimit& limit : ack.limits) {
      if (limit.acquire == request) valid_for = limit.valid_for;
    }
    Believe(wish, beat->second + valid_for);
  }
}

void Callers::Release(const StreamPtr& stream, RequestId request) {
  const auto found = stream->wishes.find(request);
  if (!stream->open || found == stream->wishes.end()) return;
  Wish& wish = found->second;
  if (wish.stage != Stage::kHeld || wish.releasing) return;
  env_.Log([&] { return "s" + std::to_string(stream->id) + " releases " + Short(wish.spec.owner); });
  env_.judge->Disbelieve(wish.spec.owner);
  wish.releasing = true;
  wish.stage = Stage::kOver;
  core::Release release;
  release.session = stream->id;
  release.request = stream->next_request++;
  release.acquire = request;
  Send(stream, release);
}

void Callers::EndWish(Wish& wish) {
  wish.stage = Stage::kOver;
  env_.judge->Disbelieve(wish.spec.owner);
}

void Callers::AskDetached(int client, int node, const Acquire& spec) {
  const StreamPtr call = Call(client, node);
  call->beats[0] = env_.now();
  mine_[client] = call;
  Wish wish;
  wish.spec = spec;
  wish.spec.session = call->id;
  wish.spec.request = call->next_request++;
  wish.spec.detached = true;
  env_.Log([&] {
    return "d" + std::to_string(call->id) + " at b" + std::to_string(node) + " wants " + spec.name.escaped() + " as " +
           Short(spec.owner);
  });
  Send(call, wish.spec);
  call->wishes.emplace(wish.spec.request, std::move(wish));
}

void Callers::RenewDetached(const StreamPtr& stream) {
  Wish& wish = stream->wishes.begin()->second;
  if (wish.stage != Stage::kHeld || wish.until <= env_.now()) return;
  env_.time.After((wish.until - env_.now()) / 3 + milliseconds(1), [this, stream] { RenewDetached(stream); });
  const int node = LiveNode();
  if (node < 0) return;
  const StreamPtr call = Call(stream->client, node);
  call->beats[0] = env_.now();
  renewals_[call->id] = stream;
  core::Renew renew;
  renew.session = call->id;
  renew.request = 1;
  renew.name = wish.spec.name;
  renew.owner = wish.spec.owner;
  renew.token = wish.token;
  renew.ttl = wish.spec.ttl;
  Send(call, renew);
}

void Callers::ReleaseDetached(const StreamPtr& stream) {
  Wish& wish = stream->wishes.begin()->second;
  if (wish.stage != Stage::kHeld) return;
  EndWish(wish);
  stream->open = false;
  const int node = LiveNode();
  if (node < 0) return;
  const StreamPtr call = Call(stream->client, node);
  releases_[call->id] = stream;
  env_.Log([&] { return "d" + std::to_string(stream->id) + " releases " + Short(wish.spec.owner); });
  SendRelease(call, wish);
}

void Callers::SendRelease(const StreamPtr& call, const Wish& wish) {
  core::Release release;
  release.session = call->id;
  release.request = 1;
  release.name = wish.spec.name;
  release.owner = wish.spec.owner;
  release.token = wish.token;
  release.ttl = wish.spec.ttl;
  Send(call, release);
}

// The request is made again after its lease has ended, and a second copy of the release crosses it: late, it must leave
// the new grant alone.
void Callers::AskOnceMore(const StreamPtr& stream) {
  const Wish& wish = stream->wishes.begin()->second;
  if (!acting_ || !IsRepeatable(wish.spec.owner) || mine_[stream->client] != stream || env_.dice.Chance(0.6)) return;
  const int node = LiveNode();
  const int other = LiveNode();
  if (node < 0) return;
  AskDetached(stream->client, node, wish.spec);
  env_.time.After(env_.dice.Between({}, seconds(1)), [this, stream, other] {
    if (!nodes_[static_cast<size_t>(other)]->alive()) return;
    const StreamPtr call = Call(stream->client, other);
    env_.Log([&] { return "d" + std::to_string(stream->id) + " releases late"; });
    SendRelease(call, stream->wishes.begin()->second);
  });
}

}  // namespace distlock::core
