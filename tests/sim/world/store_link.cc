// SPDX-License-Identifier: Apache-2.0
#include "world/store_link.h"

#include <charconv>

#include "store/redis/resp.h"

namespace distlock::sim {
namespace {

constexpr Duration kConnectTimeout = seconds(3);
constexpr Duration kChannelPing = seconds(3);
// So many refusals within so short a time come from somebody who asks again at once.
constexpr int kMostRefusals = 1000;
constexpr Duration kRefusalsWithin = milliseconds(100);

int64_t Number(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// A script call and its answer, for the log.
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

}  // namespace

StoreLink::StoreLink(Env& env, Process& broker, std::function<StoreProcess&()> primary, store::LockOptions options,
                     std::function<void(core::Input)> tell)
    : env_(env),
      broker_(broker),
      primary_(std::move(primary)),
      codec_(std::move(options)),
      tell_(std::move(tell)),
      scripts_(this),
      batch_(&codec_, &scripts_,
             [this](const store::SentCommand& sent, const store::Answer& answer) { OnAnswer(sent, answer); }) {}

StoreLink::~StoreLink() = default;

Duration StoreLink::BackOff(int& failures) {
  const Duration bound = std::min<Duration>(milliseconds(50) * (1 << std::min(failures, 6)), seconds(2));
  ++failures;
  return env_.dice.Between(bound / 2, bound);
}

// ---- The command connection ----

void StoreLink::Connect() {
  store_ = &primary_();
  const uint64_t life = ++life_;
  if (!store_->alive()) {
    cause_ = "connection refused";
    return broker_.PostAfter(BackOff(failures_), [this, life] {
      if (life == life_) Connect();
    });
  }
  wire_ = Wire::Connect(env_, broker_, *store_);
  connection_ = store_->NewConnection();
  wire_->on_closed[Wire::kClient] = [this, life] {
    if (life == life_) Drop("the connection was reset");
  };
  wire_->on_closed[Wire::kServer] = [store = store_, connection = connection_] { store->Disconnect(connection); };
  Prepare();
  broker_.PostAfter(kConnectTimeout, [this, life] {
    if (life == life_ && !up_) Drop("no usable connection in time");
  });
}

void StoreLink::Prepare() {
  for (const lua::ScriptSource* script : store::AllScripts()) {
    Send(store::LoadCommand(*script), [](const store::Answer&) {});
  }
  Send(store::MakeCommand({"TIME"}), [this](const store::Answer& answer) {
    if (answer.kind != store::Answer::Kind::kReply) return;
    const store::ReplyArray time(*answer.reply);
    if (time.size() != 2) return Reconnect();
    up_ = true;
    failures_ = 0;
    ExpectAnswer();
    env_.Log([&] { return broker_.name() + " is connected to " + store_->name(); });
    const int64_t us = Number(*time.String(0)) * 1'000'000 + Number(*time.String(1));
    tell_(core::StoreUp{core::StoreTime{us}});
    if (std::exchange(first_, false)) tell_(core::ChannelUp{});
  });
}

void StoreLink::Send(std::string_view command, Done done) {
  if (wire_ == nullptr || !wire_->open_at(Wire::kClient)) return Reject(std::move(done), "not connected");
  if (pending_.empty()) ExpectAnswer();
  const uint64_t number =
      wire_->Send(Wire::kClient, [this, &env = env_, &broker = broker_, wire = wire_, life = life_, store = store_,
                                  connection = connection_, bytes = std::string(command)] {
        auto reply = std::make_shared<store::ReplyPtr>(store->Run(connection, bytes));
        env.Log([&] { return "    " + store->name() + " for " + broker.name() + ": " + Say(bytes, **reply); });
        // Only what arrives in the life of this broker touches `this`.
        wire->Send(Wire::kServer, [this, life, reply] { OnReply(life, *reply); });
      });
  pending_.push_back({number, std::move(done)});
}

void StoreLink::OnReply(uint64_t life, const store::ReplyPtr& reply) {
  quiet_since_ = env_.now();
  if (life != life_ || pending_.empty()) return;
  if (store::IsError(*reply)) CountRefusal();
  Done done = std::move(pending_.front().done);
  pending_.pop_front();
  done({store::Answer::Kind::kReply, reply.get(), {}});
}

// As store::Link notices silence.
void StoreLink::ExpectAnswer() {
  quiet_since_ = env_.now();
  if (!up_ || awaits_) return;
  AwaitAnswer(store::kSilence);
}

void StoreLink::AwaitAnswer(Duration delay) {
  awaits_ = true;
  broker_.PostAfter(delay, [this, life = life_, due = env_.now() + delay] {
    if (life == life_) CheckSilence(due);
  });
}

void StoreLink::CheckSilence(Instant due) {
  awaits_ = false;
  if (!up_ || pending_.empty()) return;
  // Overdue: the broker was paused, so that silence proves nothing.
  if (env_.now() - due > store::kSilence / 2) quiet_since_ = env_.now();
  const Duration quiet = env_.now() - quiet_since_;
  if (quiet < store::kSilence) return AwaitAnswer(store::kSilence - quiet);
  Drop("the server does not answer");
}

void StoreLink::CountRefusal() {
  if (env_.now() - refusals_since_ > kRefusalsWithin) {
    refusals_since_ = env_.now();
    refusals_ = 0;
    asked_ = env_.history.leases.size();
  }
  // What clients ask anew may be refused anew.
  if (++refusals_ > kMostRefusals + 2 * static_cast<int>(env_.history.leases.size() - asked_))
    env_.Fail(broker_.name() + " asks again and again a store that refuses");
}

void StoreLink::Reject(Done done, std::string cause) {
  auto shared = std::make_shared<Done>(std::move(done));
  broker_.PostAfter(Duration(0),
                    [shared, cause = std::move(cause)] { (*shared)({store::Answer::Kind::kNotSent, nullptr, cause}); });
}

// The connection is over: the core hears of that first, then of each command that was pending. Those that never left may be
// known not to have run.
void StoreLink::Drop(const std::string& cause) {
  if (wire_ == nullptr) return;
  const WirePtr wire = std::exchange(wire_, nullptr);
  wire->Close(Wire::kClient);
  const uint64_t life = ++life_;
  up_ = awaits_ = false;
  cause_ = cause;
  env_.Log([&] { return broker_.name() + " loses its store: " + cause; });
  std::deque<Pending> pending = std::move(pending_);
  pending_.clear();
  broker_.PostAfter(BackOff(failures_), [this, life] {
    if (life == life_) Connect();
  });
  tell_(core::StoreDown{cause});
  size_t certain = pending.size();
  while (certain > 0 && wire->Lost(Wire::kClient, pending[certain - 1].number) && env_.dice.Chance(0.7)) --certain;
  for (size_t i = 0; i < pending.size(); ++i) {
    const auto kind = i < certain ? store::Answer::Kind::kUnknown : store::Answer::Kind::kNotSent;
    pending[i].done({kind, nullptr, cause});
  }
}

void StoreLink::Reconnect() {
  broker_.PostAfter(Duration(0), [this, life = life_] {
    if (life == life_) Drop(cause_);
  });
}

void StoreLink::Submit(core::StoreCommand command) {
  if (!up_) {
    const store::SentCommand sent = codec_.Encode(command).sent;
    return Reject([this, sent](const store::Answer& answer) { OnAnswer(sent, answer); }, cause_);
  }
  batch_.Add(std::move(command));
  SendSoon();
}

void StoreLink::SendSoon() {
  if (env_.temper.gather == Duration(0)) return batch_.Send();
  if (std::exchange(gathers_, true)) return;
  broker_.PostAfter(env_.dice.Between(Duration(0), env_.temper.gather), [this] {
    gathers_ = false;
    batch_.Send();
  });
}

void StoreLink::OnAnswer(const store::SentCommand& sent, const store::Answer& answer) {
  store::Decoded understood = codec_.Decode(sent, answer);
  if (!understood.reconnect.empty()) {
    up_ = false;
    cause_ = understood.reconnect;
    Reconnect();
  }
  tell_(std::move(understood.reply));
}

// ---- The hand-off channel ----

void StoreLink::Subscribe() {
  StoreProcess& store = primary_();
  const uint64_t life = ++channel_life_;
  if (!store.alive()) return LoseChannel();
  channel_ = Wire::Connect(env_, broker_, store);
  channel_->Lag(Wire::kServer, env_.temper.notice_lag);
  const int connection = store.NewConnection();
  channel_->on_closed[Wire::kServer] = [&store, connection] { store.Disconnect(connection); };
  channel_->on_closed[Wire::kClient] = [this, life] {
    if (life == channel_life_) LoseChannel();
  };
  channel_->Send(Wire::kClient, [this, wire = channel_, life, &store, connection, name = codec_.grant_channel()] {
    store.OnMessage(connection, [this, wire, life](std::string payload) {
      wire->Send(Wire::kServer, [this, life, payload = std::move(payload)] {
        auto notice = store::Codec::DecodeNotice(payload);
        if (life == channel_life_ && notice) tell_(*std::move(notice));
      });
    });
    const store::ReplyPtr reply = store.Run(connection, store::MakeCommand({"SUBSCRIBE", name}));
    const bool refused = reply != nullptr && reply->type == REDIS_REPLY_ERROR;
    wire->Send(Wire::kServer, [this, life, refused] {
      if (life == channel_life_) refused ? LoseChannel() : OnChannelUp(life);
    });
  });
  broker_.PostAfter(kConnectTimeout, [this, life, wire = channel_] {
    if (life == channel_life_ && channel_failures_ > 0) LoseChannel();
  });
  ++channel_failures_;  // until it is subscribed
}

void StoreLink::OnChannelUp(uint64_t life) {
  if (life != channel_life_) return;
  channel_failures_ = 0;
  channel_answered_ = true;
  Ping(life);
  if (!std::exchange(started_, true)) return Connect();
  if (!first_) tell_(core::ChannelUp{});
}

void StoreLink::Ping(uint64_t life) {
  if (life != channel_life_) return;
  if (!channel_answered_) return LoseChannel();
  channel_answered_ = false;
  channel_->Send(Wire::kClient, [this, wire = channel_, life] {
    wire->Send(Wire::kServer, [this, life] { channel_answered_ |= life == channel_life_; });
  });
  broker_.PostAfter(kChannelPing, [this, life] { Ping(life); });
}

void StoreLink::LoseChannel() {
  env_.Log([&] { return broker_.name() + " loses its channel"; });
  if (channel_ != nullptr) std::exchange(channel_, nullptr)->Close(Wire::kClient);
  const uint64_t life = ++channel_life_;
  broker_.PostAfter(BackOff(channel_failures_), [this, life] {
    if (life == channel_life_) Subscribe();
  });
}

}  // namespace distlock::sim
