// SPDX-License-Identifier: Apache-2.0
#include "simulation/network.h"

#include <algorithm>

#include "redis/redis_model.h"
#include "redis/reply_sink.h"
#include "store/redis/script_caller.h"

namespace distlock::sim {
namespace {

// So many refusals within so short a time mean that a broker repeats commands without a pause.
constexpr int kMostRefusals = 1000;
constexpr Duration kRefusalsWithin = milliseconds(100);
constexpr std::string_view kSubscribe = "SUBSCRIBE\r\n";

class SimTimer : public store::Timer {
 public:
  SimTimer(Env& env, Process& broker, std::function<void()> fire)
      : env_(env), broker_(broker), state_(std::make_shared<State>(State{std::move(fire)})) {}
  ~SimTimer() override { Stop(); }

  void Start(Duration delay) override {
    // Like libuv's timers: whole milliseconds, and sometimes late.
    const Duration late = env_.dice.Chance(0.3) ? env_.dice.Between(Duration(0), milliseconds(1)) : Duration(0);
    const Duration whole = std::chrono::ceil<milliseconds>(std::max(delay, Duration(0)));
    state_->active = true;
    const auto fire = [state = state_, serial = ++state_->serial] {
      if (!state->active || state->serial != serial) return;
      state->active = false;
      // The callback may destroy the timer.
      std::shared_ptr<State>(state)->fire();
    };
    whole == Duration(0) ? broker_.PostAfter(whole, fire) : broker_.PostAt(broker_.LocalTime() + whole + late, fire);
  }
  void Stop() override { state_->active = false; }
  bool active() const override { return state_->active; }

 private:
  struct State {
    std::function<void()> fire;
    bool active = false;
    uint64_t serial = 0;
  };
  Env& env_;
  Process& broker_;
  const std::shared_ptr<State> state_;
};

// A command and its reply, for the log.
std::string Say(std::string_view bytes, const redisReply& reply) {
  std::string text;
  const Argv argv = ParseCommand(bytes);
  for (size_t i = 0; i < argv.size(); ++i) {
    if (i == 1 && argv[0] == "EVALSHA") {
      for (const lua::ScriptSource* script : store::AllScripts()) {
        if (argv[1] == script->sha1) text += " " + std::string(script->name);
      }
    } else if (argv[i].size() < 48) {
      text += (text.empty() ? "" : " ") + std::string(argv[i]);
    } else {
      text += " ...";
    }
  }
  text += " ->";
  const auto add = [&](const redisReply& part) {
    text += " " + (part.type == REDIS_REPLY_INTEGER ? std::to_string(part.integer) : std::string(store::Text(part)));
  };
  if (reply.type != REDIS_REPLY_ARRAY) add(reply);
  for (size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; ++i) add(*reply.element[i]);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = '~';
  }
  return text;
}

store::ReplyPtr MessageOf(std::string_view channel, std::string_view payload) {
  ReplyTree reply;
  reply.Array(3);
  const bool of_shard = channel.starts_with(kShardChannel);
  reply.Bulk(of_shard ? "smessage" : "message");
  reply.Bulk(of_shard ? channel.substr(1) : channel);
  reply.Bulk(payload);
  return reply.Take();
}

}  // namespace

std::unique_ptr<store::Timer> SimTimers::Make(std::function<void()> fire) {
  return std::make_unique<SimTimer>(env_, broker_, std::move(fire));
}

// ---- Connections ----

std::shared_ptr<store::Transport> SimDialer::Dial(const store::ServerAddress& address, store::Transport::Owner* owner) {
  std::erase_if(transports_, [](const auto& transport) { return transport.expired(); });
  auto transport = std::make_shared<WireTransport>(env_, broker_, this, owner);
  transports_.push_back(transport);
  transport->Begin(directory_.Find(address.host));
  return transport;
}

WirePtr SimDialer::OpenWire(bool subscribed) const {
  for (auto at = transports_.rbegin(); at != transports_.rend(); ++at) {
    const auto transport = at->lock();
    if (transport == nullptr || transport->subscribed() != subscribed) continue;
    if (transport->wire() != nullptr && transport->wire()->open()) return transport->wire();
  }
  return nullptr;
}

void SimDialer::CountRefusal(Instant sent) {
  // Stalled refusals come at once, and from several connections in any order.
  if (std::chrono::abs(sent - refusals_since_) > kRefusalsWithin) {
    refusals_since_ = sent;
    refusals_ = 0;
    leases_then_ = env_.history.leases.size();
  }
  // New requests of clients may be refused, too.
  if (++refusals_ > kMostRefusals + 2 * static_cast<int>(env_.history.leases.size() - leases_then_))
    env_.Fail(broker_.name() + " asks again and again a store that refuses");
}

WireTransport::WireTransport(Env& env, Process& broker, SimDialer* dialer, Owner* owner)
    : env_(env), broker_(broker), dialer_(dialer), room_(env.dice.Pick<size_t>({0, 2, 20, 1000})), owner_(owner) {}

void WireTransport::Begin(Endpoint* server) {
  if (server == nullptr || !server->alive()) {
    return broker_.PostAfter(env_.Delay(), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Fail("connection refused");
    });
  }
  server_ = server;
  wire_ = Wire::Connect(env_, broker_, *server);
  connection_ = server->NewConnection();
  wire_->on_closed[Wire::kClient] = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Fail("the connection was reset");
  };
  wire_->on_closed[Wire::kServer] = [server, connection = connection_] { server->Disconnect(connection); };
  // A message runs only while its wire exists, so it must not own the wire.
  server->OnMessage(connection_, [wire = std::weak_ptr(wire_), weak = weak_from_this()](std::string_view channel,
                                                                                        std::string_view payload) {
    const WirePtr to = wire.lock();
    if (to == nullptr) return;
    to->Send(Wire::kServer, [weak, message = MessageOf(channel, payload)]() mutable {
      const auto self = weak.lock();
      if (self != nullptr && self->owner_ != nullptr) self->owner_->OnReply(std::move(message));
    });
  });
  wire_->Send(Wire::kClient, [wire = wire_.get(), weak = weak_from_this()] {
    wire->Send(Wire::kServer, [weak] {
      const auto self = weak.lock();
      if (self != nullptr && self->owner_ != nullptr) self->owner_->OnConnected();
    });
  });
}

void WireTransport::Append(std::string_view command) {
  if (owner_ == nullptr || wire_ == nullptr) return;
  if (command.find(kSubscribe) != std::string_view::npos) {
    subscribed_ = true;
    wire_->Lag(Wire::kServer, env_.temper.notice_lag);
  }
  appended_ += command.size();
  waiting_.emplace_back(command);
}

bool WireTransport::IsFull() const {
  return wire_->silent_until(Wire::kClient) > env_.now() && wire_->under_way(Wire::kClient) >= room_;
}

void WireTransport::Flush() {
  if (owner_ == nullptr || wire_ == nullptr) return;
  while (!waiting_.empty() && !IsFull()) {
    SendOne(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (waiting_.empty() || std::exchange(flush_waits_, true)) return;
  broker_.PostAfter(wire_->silent_until(Wire::kClient) - env_.now(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->flush_waits_ = false;
    self->Flush();
  });
}

void WireTransport::SendOne(std::string command) {
  offered_ += command.size();
  const uint64_t message = wire_->Send(
      Wire::kClient, [&env = env_, &broker = broker_, server = server_, connection = connection_, wire = wire_.get(),
                      weak = weak_from_this(), command = std::move(command), sent = env_.now()] {
        server->Run(
            connection, command,
            [&env, &broker, server, wire = wire->weak_from_this(), weak, command, sent](store::ReplyPtr reply) {
              const WirePtr back = wire.lock();
              if (back == nullptr) return;
              env.Log([&] { return "    " + server->name() + " for " + broker.name() + ": " + Say(command, *reply); });
              back->Send(Wire::kServer, [weak, sent, reply = std::move(reply)]() mutable {
                if (const auto self = weak.lock()) self->Deliver(std::move(reply), sent);
              });
            });
      });
  for (; !sent_.empty() && sent_.front().message <= wire_->arrived(Wire::kClient); sent_.pop_front()) {
    arrived_ = sent_.front().end;
  }
  sent_.push_back({message, offered_});
}

void WireTransport::Deliver(store::ReplyPtr reply, Instant sent) {
  if (owner_ == nullptr) return;
  if (store::IsError(*reply)) dialer_->CountRefusal(sent);
  owner_->OnReply(std::move(reply));
}

// When messages are lost for good, some of them had not left this machine.
uint64_t WireTransport::sent() const {
  uint64_t left = offered_;
  for (auto at = sent_.rbegin(); at != sent_.rend() && wire_->Lost(Wire::kClient, at->message); ++at) {
    if (!env_.dice.Chance(0.7)) break;
    left = std::next(at) == sent_.rend() ? arrived_ : std::next(at)->end;
  }
  return left;
}

void WireTransport::Fail(const std::string& cause) {
  if (owner_ != nullptr) std::exchange(owner_, nullptr)->OnClosed(cause);
}

void WireTransport::Close() {
  owner_ = nullptr;
  if (wire_ != nullptr) wire_->Close(Wire::kClient);
}

}  // namespace distlock::sim
