// SPDX-License-Identifier: Apache-2.0
#include "callers.h"

#include <algorithm>

namespace distlock::core {

Callers::Callers(Env& env, std::vector<std::unique_ptr<Node>>& nodes) : env_(env), nodes_(nodes) {}

void Callers::Start() {
  acting_ = true;
  for (int client = 0; client < env_.temper.clients; ++client) {
    env_.time.After(env_.dice.Between({}, seconds(1)), [this, client] { Act(client); });
  }
}

bool Callers::idle() const {
  for (const auto& [client, stream] : mine_) {
    if (!stream->open) continue;
    for (const auto& [request, wish] : stream->wishes) {
      if (wish.stage != Stage::kOver) return false;
    }
  }
  return true;
}

void Callers::CloseAll() {
  for (auto& [client, stream] : mine_) {
    if (stream->open) Close(stream);
  }
}

int Callers::LiveNode() {
  const int first = env_.dice.Roll(static_cast<int>(nodes_.size()));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int node = static_cast<int>((static_cast<size_t>(first) + i) % nodes_.size());
    if (nodes_[static_cast<size_t>(node)]->alive()) return node;
  }
  return -1;
}

void Callers::Act(int client) {
  if (!acting_) return;
  env_.time.After(env_.dice.Between(milliseconds(5), env_.dice.Chance(0.5) ? milliseconds(100) : milliseconds(1500)),
                  [this, client] { Act(client); });
  const auto found = mine_.find(client);
  if (found == mine_.end() || !found->second->open) return OpenStream(client);
  const StreamPtr stream = found->second;
  if (stream->parted) return;
  if (stream->detached || stream->kind == SessionKind::kHold) {
    const bool over = std::all_of(stream->wishes.begin(), stream->wishes.end(),
                                  [](const auto& entry) { return entry.second.stage == Stage::kOver; });
    if (over) return Close(stream);
    if (!env_.dice.Chance(0.1)) return;
    if (!stream->detached) return env_.dice.Chance(0.5) ? Break(stream) : CancelOne(stream);
    const auto& [request, wish] = *stream->wishes.begin();
    if (wish.stage != Stage::kAsking) return;
    const Acquire again = wish.spec;
    const int node = LiveNode();
    const bool repeat = IsRepeatable(again.owner) && node >= 0 && env_.dice.Chance(0.8);
    if (!repeat) return Close(stream);
    // The first call ends before its repeat arrives, or listens beside it for a while.
    env_.time.After(env_.dice.Chance(0.5) ? Duration::zero() : env_.dice.Between({}, seconds(2)),
                    [this, stream] { Close(stream); });
    AskDetached(client, env_.dice.Chance(0.5) ? stream->node : node, again);
    return;
  }
  OnSession(stream);
}

void Callers::OnSession(const StreamPtr& stream) {
  std::erase_if(stream->wishes, [](const auto& entry) { return entry.second.stage == Stage::kOver; });
  const int what = env_.dice.Roll(100);
  if (what < 75) {
    if (stream->wishes.size() < 4) Want(stream);
  } else if (what < 88) {
    CancelOne(stream);
  } else if (what < 94) {
    Break(stream);
  } else {
    env_.Log([&] { return "s" + std::to_string(stream->id) + " says goodbye"; });
    for (auto& [request, wish] : stream->wishes) EndWish(wish);
    Send(stream, Goodbye{stream->id});
    if (env_.dice.Chance(0.3)) Close(stream);
  }
}

void Callers::OpenStream(int client) {
  const int node = LiveNode();
  if (node < 0) return;
  const int what = env_.dice.Roll(10);
  if (what >= 8) {
    Acquire spec = MakeWish();
    if (env_.dice.Chance(0.7)) spec.owner[0] = kRepeatableMark;
    return AskDetached(client, node, spec);
  }
  const StreamPtr stream = Call(client, node);
  mine_[client] = stream;
  stream->detached = false;
  stream->kind = what < 6 ? SessionKind::kSession : SessionKind::kHold;
  Send(stream, OpenSession{stream->id, stream->kind});
  if (stream->kind == SessionKind::kHold) return Want(stream);
  env_.time.After(BeatEvery(), [this, stream] { Beat(stream); });
}

// A call or stream to a node; until it is told otherwise, a unary call.
Callers::StreamPtr Callers::Call(int client, int node) {
  auto stream = std::make_shared<Stream>();
  stream->id = next_session_++;
  stream->client = client;
  stream->node = node;
  stream->beats[0] = env_.now();
  stream->life = nodes_[static_cast<size_t>(node)]->life();
  stream->detached = true;
  streams_[stream->id] = stream;
  return stream;
}

// The proto's rule: at least three beats in a validity, and in the shortest ttl.
Duration Callers::BeatEvery() const {
  const Duration shortest = *std::min_element(env_.temper.ttls.begin(), env_.temper.ttls.end());
  return std::min(env_.temper.validity, shortest) / 3;
}

void Callers::Beat(const StreamPtr& stream) {
  if (!stream->open) return;
  stream->beats[++stream->seq] = env_.now();
  if (stream->beats.size() > 40) stream->beats.erase(stream->beats.begin());
  Send(stream, Heartbeat{stream->id, stream->seq});
  env_.time.After(BeatEvery(), [this, stream] { Beat(stream); });
}

Acquire Callers::MakeWish() {
  Dice& dice = env_.dice;
  Acquire spec;
  spec.name = LockName::Encode("default", std::string(1, static_cast<char>('a' + dice.Roll(env_.temper.locks))));
  const int owner = next_owner_++;
  spec.owner[13] = static_cast<uint8_t>(owner >> 16);
  spec.owner[14] = static_cast<uint8_t>(owner >> 8);
  spec.owner[15] = static_cast<uint8_t>(owner);
  spec.ttl = dice.Pick(env_.temper.ttls);
  const int wait = dice.Roll(10);
  if (wait < 2) spec.max_wait = Duration::zero();
  if (wait >= 2 && wait < 4) spec.max_wait = dice.Between(milliseconds(1), seconds(8));
  if (dice.Chance(0.15)) spec.max_hold = dice.Between(milliseconds(50), seconds(4));
  if (dice.Chance(0.15)) spec.lock_delay = dice.Between(milliseconds(1), seconds(4));
  spec.on_disconnect = dice.Chance(0.7)   ? OnDisconnect::kSafe
                       : dice.Chance(0.5) ? OnDisconnect::kRelease
                                          : OnDisconnect::kExpire;
  return spec;
}

void Callers::Want(const StreamPtr& stream) {
  Wish wish;
  wish.spec = MakeWish();
  wish.spec.session = stream->id;
  wish.spec.request = stream->next_request++;
  env_.Log([&] {
    return "s" + std::to_string(stream->id) + " at b" + std::to_string(stream->node) + " wants " +
           wish.spec.name.escaped() + " as " + Short(wish.spec.owner);
  });
  Send(stream, wish.spec);
  stream->wishes.emplace(wish.spec.request, std::move(wish));
}

void Callers::CancelOne(const StreamPtr& stream) {
  std::vector<RequestId> able;
  for (const auto& [request, wish] : stream->wishes) {
    if (wish.stage != Stage::kOver && !wish.releasing) able.push_back(request);
  }
  if (able.empty()) return;
  Wish& wish = stream->wishes.at(env_.dice.Pick(able));
  env_.Log([&] { return "s" + std::to_string(stream->id) + " cancels " + Short(wish.spec.owner); });
  env_.judge->Disbelieve(wish.spec.owner);
  wish.releasing = true;
  Send(stream, Cancel{stream->id, wish.spec.request});
}

// The connection is cut: each side learns of it in its own time.
void Callers::Break(const StreamPtr& stream) {
  env_.Log([&] { return "s" + std::to_string(stream->id) + " is cut off"; });
  for (auto& [request, wish] : stream->wishes) {
    if (wish.spec.on_disconnect == OnDisconnect::kRelease) env_.judge->Excuse(wish.spec.owner);
  }
  stream->parted = true;
  stream->lost_up = env_.dice.Chance(0.5);
  stream->lost_down = env_.dice.Chance(0.5);
  const Duration longest = env_.temper.calm ? milliseconds(50) : seconds(6);
  env_.time.After(env_.dice.Between({}, longest), [this, stream] { Gone(stream); });
  env_.time.After(env_.dice.Between({}, seconds(6)), [this, stream] {
    stream->open = false;
    for (auto& [request, wish] : stream->wishes) EndWish(wish);
  });
}

// The broker learns that nobody listens any more.
void Callers::Gone(const StreamPtr& stream) {
  if (!stream->broker_open) return;
  stream->broker_open = false;
  streams_.erase(stream->id);
  Node& node = *nodes_[static_cast<size_t>(stream->node)];
  if (node.alive() && node.life() == stream->life) node.Post(StreamEnded{stream->id});
}

void Callers::Close(const StreamPtr& stream) {
  if (!stream->open) return;
  stream->open = false;
  for (auto& [request, wish] : stream->wishes) EndWish(wish);
  stream->up_at = std::max(stream->up_at, env_.now() + env_.Delay());
  env_.time.At(stream->up_at, [this, stream] { Gone(stream); });
}

void Callers::Send(const StreamPtr& stream, Input input) {
  if (stream->parted) return;
  stream->up_at = std::max(stream->up_at, env_.now() + env_.Delay());
  env_.time.At(stream->up_at, [this, stream, input = std::move(input)]() mutable {
    Node& node = *nodes_[static_cast<size_t>(stream->node)];
    if (!stream->broker_open || (stream->parted && stream->lost_up)) return;
    if (node.alive() && node.life() == stream->life) node.Post(std::move(input));
  });
}

void Callers::NodeDied(int node) {
  const auto streams = streams_;
  for (const auto& [id, stream] : streams) {
    if (stream->node != node || stream->life + 1 != nodes_[static_cast<size_t>(node)]->life()) continue;
    env_.judge->StreamOver(id);
    stream->broker_open = false;
    stream->parted = true;
    stream->lost_down = env_.dice.Chance(0.5);
    streams_.erase(id);
    if (stream->detached && stream->wishes.empty()) continue;
    // A detached lease does not depend on its broker.
    env_.time.After(env_.dice.Between({}, seconds(5)), [this, stream] {
      stream->open = false;
      for (auto& [request, wish] : stream->wishes) {
        if (!stream->detached || wish.stage == Stage::kAsking) EndWish(wish);
      }
    });
  }
}

}  // namespace distlock::core
