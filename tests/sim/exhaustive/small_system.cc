// SPDX-License-Identifier: Apache-2.0
#include "exhaustive/small_system.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "store/redis/command_sender.h"
#include "store/redis/wire_value.h"

namespace distlock::sim {
namespace {

using core::Instant;
using Phase = SmallClient::Phase;

constexpr Instant kDawn(std::chrono::hours(100));
constexpr size_t kLateMax = 2;  // older broken connections have drained

core::BrokerConfig Config() {
  core::BrokerConfig config;
  config.validity = kSmallValidity;
  return config;
}

// Digests an input for the history of a core. Numbers of kinds and brokers' own numbers say all about most.
template <typename... Parts>
Digest Made(const Parts&... parts) {
  Digest digest;
  (digest.Add(parts), ...);
  return digest;
}

enum Kind : uint64_t {
  kOpens = 1,
  kAsks,
  kGivesBack,
  kCancels,
  kEnds,
  kBeats,
  kUp,
  kDown,
  kChannel,
  kTicks,
  kNotice,
  kReplies,
  kUnknown
};

void AddReply(const redisReply& reply, Digest& digest) {
  digest.Add(static_cast<uint64_t>(reply.type));
  digest.Add(static_cast<uint64_t>(reply.integer));
  if (reply.str != nullptr) digest.Add(std::string_view(reply.str, reply.len));
  for (size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; ++i) AddReply(*reply.element[i], digest);
}

}  // namespace

SmallSystem::SmallSystem(const Setting& setting, SmallStore& store, std::function<void(const std::string&)> log)
    : setting_(setting),
      store_(store),
      log_(std::move(log)),
      now_(kDawn),
      clients_(kClients),
      sessions_(kClients, 0),
      asked_(kClients, 0) {
  store_.Reset(now_, [this](size_t broker, std::string_view payload) {
    if (broker < brokers_.size()) brokers_[broker]->notices.emplace_back(payload);
  });
  for (size_t i = 0; i < setting_.brokers; ++i) {
    brokers_.push_back(std::make_unique<BrokerNode>(Config()));
    Connect(i);
    Step(i, core::ChannelUp{}, Made(uint64_t{kChannel}));
  }
  for (size_t i = 0; i < kClients; ++i) Reconnect(i);
}

void SmallSystem::Fail(const std::string& what) {
  if (fault_.empty()) fault_ = what;
  Log([&] { return "FAULT: " + what; });
}

void SmallSystem::LogText(const std::string& text) const {
  log_("  " + std::to_string((now_ - kDawn) / std::chrono::microseconds(1)) + " us: " + text);
}

// ---- Possible steps ----

bool SmallSystem::CanClient(Verb verb, const SmallClient& client) const {
  const bool listens = !client.broken();
  switch (verb) {
    case Verb::kAcquire:
      return listens && client.phase() == Phase::kIdle;
    case Verb::kRelease:
      return listens && client.phase() == Phase::kHeld;
    case Verb::kCancel:
      return listens && client.phase() != Phase::kIdle;
    case Verb::kBreak:
      return listens && (client.phase() != Phase::kIdle || client.releasing());
    case Verb::kReconnect:
      return client.broken();
    default:
      return false;
  }
}

bool SmallSystem::Can(Verb verb, size_t who) const {
  if (verb == Verb::kPass || verb == Verb::kLeap) return TimeMatters();
  if (verb <= Verb::kReconnect) {
    // Clients are alike: they are numbered in the order in which they first act.
    const bool alike = !setting_.max_wait[0] && !setting_.max_wait[1];
    if (alike && who == 1 && asked_[0] == 0) return false;
    return CanClient(verb, clients_[who]);
  }
  const BrokerNode& node = *brokers_[who];
  switch (verb) {
    case Verb::kRun:
      return !node.sent.empty();
    case Verb::kReply:
      return !node.replies.empty();
    case Verb::kLose:
      return node.up && losses_ < setting_.losses;
    case Verb::kRunLate:
      return !node.late.empty();
    case Verb::kConnect:
      return !node.up;
    case Verb::kHear:
    case Verb::kMiss:
      return !node.notices.empty();
    default:
      return false;
  }
}

std::vector<Action> SmallSystem::Enabled() const {
  std::vector<Action> enabled;
  for (uint8_t verb = 0; verb <= static_cast<uint8_t>(Verb::kLeap); ++verb) {
    const size_t all = verb <= static_cast<uint8_t>(Verb::kReconnect) ? kClients
                       : verb < static_cast<uint8_t>(Verb::kPass)     ? brokers_.size()
                                                                      : 1;
    for (size_t who = 0; who < all; ++who) {
      if (!Can(static_cast<Verb>(verb), who)) continue;
      enabled.push_back({static_cast<Verb>(verb), static_cast<uint8_t>(who)});
    }
  }
  return enabled;
}

void SmallSystem::Do(Action action) {
  if (log_) log_(PathText({action}));
  const size_t who = action.who;
  switch (action.verb) {
    case Verb::kAcquire:
      Acquire(who);
      break;
    case Verb::kRelease:
      GiveBack(who);
      break;
    case Verb::kCancel:
      Cancel(who);
      break;
    case Verb::kBreak:
      Break(who);
      break;
    case Verb::kReconnect:
      Reconnect(who);
      break;
    case Verb::kRun:
      Run(who, brokers_[who]->sent, /*late=*/false);
      break;
    case Verb::kReply:
      DeliverReply(who);
      break;
    case Verb::kLose:
      ++losses_;
      Lose(who, "the connection broke");
      break;
    case Verb::kRunLate:
      Run(who, brokers_[who]->late.front(), /*late=*/true);
      break;
    case Verb::kConnect:
      Connect(who);
      break;
    case Verb::kHear:
      Hear(who);
      break;
    case Verb::kMiss:
      brokers_[who]->notices.pop_front();
      break;
    case Verb::kPass:
      Pass();
      break;
    case Verb::kLeap:
      Leap();
      break;
  }
  CheckBelief();
}

// ---- Clients ----

void SmallSystem::Acquire(size_t who) {
  core::OwnerId owner{};
  owner[14] = static_cast<uint8_t>(who + 1);
  owner[15] = static_cast<uint8_t>(++asked_[who]);
  core::Acquire acquire;
  acquire.session = clients_[who].session();
  acquire.request = clients_[who].Ask(owner);
  acquire.name = SmallStore::Lock();
  acquire.owner = owner;
  acquire.ttl = kSmallTtl;
  acquire.max_wait = setting_.max_wait[who];
  acquire.lock_delay = setting_.lock_delay;
  const Digest digest = Made(uint64_t{kAsks}, acquire.session, acquire.request, uint64_t{asked_[who]});
  Step(who % brokers_.size(), std::move(acquire), digest);
}

void SmallSystem::GiveBack(size_t who) {
  SmallClient& client = clients_[who];
  core::Release release;
  release.session = client.session();
  release.acquire = client.request();
  release.request = client.GiveUp();
  const Digest digest = Made(uint64_t{kGivesBack}, release.session, release.request);
  Step(who % brokers_.size(), release, digest);
}

void SmallSystem::Cancel(size_t who) {
  SmallClient& client = clients_[who];
  client.Withdraw();
  Step(who % brokers_.size(), core::Cancel{client.session(), client.request()},
       Made(uint64_t{kCancels}, client.session(), client.request()));
}

void SmallSystem::Break(size_t who) {
  clients_[who].Break();
  Step(who % brokers_.size(), core::StreamEnded{clients_[who].session()},
       Made(uint64_t{kEnds}, clients_[who].session()));
}

void SmallSystem::Reconnect(size_t who) {
  const core::SessionId session = ++sessions_[who] * kClients + who;
  clients_[who].Connect(session, now_);
  Step(who % brokers_.size(), core::OpenSession{session, core::SessionKind::kSession}, Made(uint64_t{kOpens}, session));
}

void SmallSystem::Beat(size_t who) {
  const uint64_t seq = clients_[who].Beat(now_);
  Step(who % brokers_.size(), core::Heartbeat{clients_[who].session(), seq},
       Made(uint64_t{kBeats}, clients_[who].session(), seq));
}

// ---- Connections to the store ----

void SmallSystem::Run(size_t who, std::deque<Sent>& from, bool late) {
  BrokerNode& node = *brokers_[who];
  const Sent sent = std::move(from.front());
  from.pop_front();
  const bool was_held = holder_token_ != 0;
  const store::ReplyPtr raw = store_.Run(who, sent.bytes);
  CheckStore();
  if (was_held && holder_token_ == 0 && store_.Waiters() > 0) Fail("a lock is freed, and nobody of the queue gets it");
  if (late) {
    if (from.empty()) node.late.pop_front();
    return;
  }
  const store::Decoded decoded = store_.codec(who).Decode(sent.command, *raw);
  if (!decoded.reconnect.empty()) return Fail("the codec does not know a reply of the scripts");
  Digest digest = Made(uint64_t{kReplies}, sent.command.op);
  AddReply(*raw, digest);
  node.replies.push_back({decoded.reply, digest.value()});
}

void SmallSystem::DeliverReply(size_t who) {
  Reply reply = std::move(brokers_[who]->replies.front());
  brokers_[who]->replies.pop_front();
  Step(who, std::move(reply.reply), Made(reply.digest));
}

// The core hears that first, then the end of every command that was under way.
void SmallSystem::Lose(size_t who, const std::string& cause) {
  BrokerNode& node = *brokers_[who];
  std::vector<core::OpId> ops;
  for (const Reply& reply : node.replies) ops.push_back(reply.reply.op);
  for (const Sent& sent : node.sent) ops.push_back(sent.command.op);
  node.replies.clear();
  if (!node.sent.empty()) node.late.push_back(std::move(node.sent));
  if (node.late.size() > kLateMax) node.late.pop_front();
  node.sent.clear();
  node.up = false;
  Step(who, core::StoreDown{cause}, Made(uint64_t{kDown}));
  for (const core::OpId op : ops) {
    Step(who, core::StoreReply{op, core::StoreUnknown{cause}}, Made(uint64_t{kUnknown}, op));
  }
}

void SmallSystem::Connect(size_t who) {
  brokers_[who]->up = true;
  Step(who, core::StoreUp{}, Made(uint64_t{kUp}));
}

void SmallSystem::Hear(size_t who) {
  const std::string payload = std::move(brokers_[who]->notices.front());
  brokers_[who]->notices.pop_front();
  auto notice = store::Codec::DecodeNotice(payload);
  if (!notice) return Fail("a notice of the scripts cannot be read");
  if (auto* grant = std::get_if<core::GrantNotice>(&*notice)) {
    grant->made = store_.clock().Earliest(grant->since, now_);
  }
  Step(who, *notice, Made(uint64_t{kNotice}, payload));
}

// ---- The cores ----

void SmallSystem::Step(size_t broker, core::Input input, Digest digest) {
  BrokerNode& node = *brokers_[broker];
  node.history.Add(static_cast<uint64_t>(now_.time_since_epoch().count()));
  node.history.Add(digest.value());
  effects_.clear();
  node.core.Step(now_, std::move(input), effects_);
  node.core.Check();
  for (core::Effect& effect : effects_) {
    if (auto* command = std::get_if<core::StoreCommand>(&effect)) {
      if (!node.up) return Fail("a command while the store is down");
      store::Encoded encoded = store_.codec(broker).Encode(*command);
      Log([&] { return "broker " + std::to_string(broker) + " sends " + std::string(encoded.script->name); });
      node.sent.push_back({encoded.sent, std::move(encoded.bytes)});
    }
    if (const auto* notify = std::get_if<core::Notify>(&effect)) Tell(broker, *notify);
  }
}

void SmallSystem::Tell(size_t broker, const core::Notify& notify) {
  const size_t who = notify.session % kClients;
  Log([&] {
    return "broker " + std::to_string(broker) + " tells client " + std::to_string(who) + " event " +
           std::to_string(notify.event.index()) + " of request " + std::to_string(notify.request);
  });
  const std::string wrong = clients_[who].Told(notify, now_);
  if (!wrong.empty()) Fail("client " + std::to_string(who) + " is told " + wrong);
}

void SmallSystem::Tick(size_t broker) {
  Step(broker, core::Tick{}, Made(uint64_t{kTicks}));
  if (brokers_[broker]->core.NextDeadline() <= now_) Fail("a core asks for the same instant again");
}

}  // namespace distlock::sim
