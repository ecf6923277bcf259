// SPDX-License-Identifier: Apache-2.0
#include "simulation/wire.h"

namespace distlock::sim {

std::vector<WirePtr> Process::Wires() {
  std::vector<WirePtr> open;
  size_t kept = 0;
  for (std::weak_ptr<Wire>& weak : wires_) {
    WirePtr wire = weak.lock();
    if (wire == nullptr || !wire->open()) continue;
    open.push_back(std::move(wire));
    wires_[kept++] = weak;
  }
  wires_.resize(kept);
  return open;
}

void Process::AddWire(const WirePtr& wire) {
  if (wires_.size() == wires_.capacity()) Wires();
  wires_.push_back(wire);
}

void Process::HangUp(Duration longest) {
  for (const WirePtr& wire : Wires()) wire->Break(longest);
  wires_.clear();
}

WirePtr Wire::Connect(Env& env, Process& client, Process& server) {
  WirePtr wire(new Wire(env, client, server));
  client.AddWire(wire);
  server.AddWire(wire);
  if (env.Apart(client.actor(), server.actor())) wire->SilenceBoth(env.apart_until);
  return wire;
}

Instant Wire::NextArrival(Way& way) {
  const Duration lag = env_.trouble ? way.lag : Duration(0);
  const Duration delay = lag + env_.Delay();
  const Instant at = std::max(env_.now(), way.silent_until) + delay;
  way.last_arrival = std::max(way.last_arrival, at);
  return way.last_arrival;
}

uint64_t Wire::Send(Side from, Timeline::What arrive) {
  Way& way = ways_[from];
  const uint64_t number = ++way.sent;
  if (way.cut || closed_[from]) {
    if (!way.cut) way.kept = number - 1;
    way.cut = true;
    return number;
  }
  way.under_way.push_back(std::move(arrive));
  ExpectOne(from, NextArrival(way));
  return number;
}

// At that time the first message in flight arrives.
void Wire::ExpectOne(Side from, Instant at) {
  env_.time.At(at, [self = shared_from_this(), from] {
    Way& way = self->ways_[from];
    if (self->env_.now() < way.silent_until) return self->ExpectOne(from, way.silent_until);
    const uint64_t number = ++way.arrived;
    Timeline::What arrive = std::move(way.under_way.front());
    way.under_way.pop_front();
    const Side to = Other(from);
    const Peer& end = self->ends_[to];
    if ((way.cut && number > way.kept) || end.process->life() != end.life) return;
    end.process->Post([self, to, arrive = std::move(arrive)]() mutable {
      if (!self->closed_[to]) arrive();
    });
  });
}

void Wire::TellClosed(Side side) {
  const Peer& end = ends_[side];
  if (end.process->life() != end.life) return;
  end.process->Post([self = shared_from_this(), side] {
    if (std::exchange(self->closed_[side], true)) return;
    if (self->on_closed[side]) self->on_closed[side]();
  });
}

void Wire::End(Side from, bool keep_all) {
  if (std::exchange(closed_[from], true)) return;
  const Side to = Other(from);
  Cut(to, true);
  if (closed_[to] || ways_[from].cut) return;
  if (keep_all || from == kServer || !CutLate()) Cut(from, keep_all || env_.dice.Chance(0.5));
  ExpectEnd(from, NextArrival(ways_[from]));
}

// The other side hears of the end behind all messages.
void Wire::ExpectEnd(Side from, Instant at) {
  env_.time.At(at, [self = shared_from_this(), from] {
    const Way& way = self->ways_[from];
    if (self->env_.now() < way.silent_until) return self->ExpectEnd(from, way.silent_until);
    self->TellClosed(Other(from));
  });
}

void Wire::Cut(Side from, bool keep_all) {
  Way& way = ways_[from];
  if (way.cut) return;
  way.cut = true;
  const auto under_way = static_cast<int>(way.sent - way.arrived);
  way.kept = way.arrived + static_cast<uint64_t>(keep_all ? under_way : env_.dice.Roll(under_way + 1));
}

// In some simulations, what the client has written arrives late, all of it. False: not now.
bool Wire::CutLate() {
  if (!env_.trouble || env_.temper.late_bytes == 0 || ways_[kClient].cut) return false;
  if (!env_.dice.Chance(env_.temper.late_bytes)) return false;
  const Duration late = env_.dice.Between(Duration(0), env_.temper.longest_late);
  const int32_t client = ends_[kClient].process->actor();
  // A broker's bytes to a store must do no harm, however late they are. That a program wants no answer any more is news
  // that its broker needs.
  if (env_.history.actors[static_cast<size_t>(client)].kind == Actor::Kind::kClient) {
    env_.NoteFault(FaultKind::kLinkOneWay, client, late);
  }
  Cut(kClient, true);
  Silence(kClient, env_.now() + late);
  return true;
}

void Wire::Break(Duration longest) {
  if (!open()) return;
  // The server's words from now on are lost, though it may have done what it was told.
  if (!CutLate()) Cut(kClient, false);
  Cut(kServer, false);
  // A server notices the end after the last message that arrives; a client may give up earlier.
  const auto noticed = [&] { return env_.now() + env_.dice.Between(Duration(0), longest); };
  env_.time.At(noticed(), [self = shared_from_this()] { self->TellClosed(kClient); });
  ExpectEnd(kClient, std::max(ways_[kClient].last_arrival, noticed()));
}

}  // namespace distlock::sim
