// SPDX-License-Identifier: Apache-2.0
#include "store/redis/link.h"

#include <algorithm>
#include <utility>

#include "store/redis/error_class.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kFirstDelay = std::chrono::milliseconds(50);
constexpr core::Duration kLongestDelay = std::chrono::seconds(2);
constexpr core::Duration kHurriedDelay = std::chrono::milliseconds(100);

// No caller here ends a subscription: the server says that by itself when a shard leaves it.
bool IsMessage(const redisReply& reply) {
  const ReplyArray array(reply);
  const std::string_view what = array.String(0).value_or("");
  return array.size() == 3 && (what == "message" || what == "smessage" || what == "sunsubscribe");
}

}  // namespace

Link::Link(const Network& network, LinkOptions options, Owner* owner)
    : dialer_(network.dialer),
      timers_(network.timers),
      options_(std::move(options)),
      owner_(owner),
      address_(options_.address),
      connect_timer_(timers_->Make([this] { Connect(); })),
      patience_timer_(timers_->Make([this] {
        const std::string awaited = connection_ == nullptr ? "" : connection_->AwaitedStep();
        Drop(absl::UnavailableError(
            Cat("no usable connection within ",
                std::chrono::duration_cast<std::chrono::milliseconds>(options_.connect_timeout).count(), " ms",
                awaited.empty() ? "" : ": ", awaited)));
        Deliver();
      })),
      silence_timer_(timers_->Make([this] { CheckSilence(); })),
      deliver_timer_(timers_->Make([this] { Deliver(); })) {}

Link::~Link() { Stop(); }

void Link::Start() { Connect(); }

void Link::Stop() {
  stopped_ = true;
  if (connection_ != nullptr) std::exchange(connection_, nullptr)->Close();
  logged_in_ = false;
  ready_ = false;
  pending_.clear();
  ended_.clear();
  downs_.clear();
  connect_timer_->Stop();
  patience_timer_->Stop();
  silence_timer_->Stop();
  deliver_timer_->Stop();
}

void Link::Connect() {
  if (stopped_ || connection_ != nullptr) return;
  patience_timer_->Start(options_.connect_timeout);
  connection_ = dialer_->Dial(address_, this);
}

void Link::OnConnected() { LogIn(); }

// One pipeline. Every server answers the last step, so its answer says that the log-in is over.
void Link::LogIn() {
  const Credentials credentials = options_.credentials ? options_.credentials() : Credentials{};
  logged_in_ = true;  // lets Send pass
  if (!credentials.password.empty()) {
    const std::string auth = credentials.user.empty() ? MakeCommand({"AUTH", credentials.password})
                                                      : MakeCommand({"AUTH", credentials.user, credentials.password});
    Send(auth, [this](const Answer& answer) { CheckLogIn(answer, "the log-in"); });
  }
  if (options_.db != 0) {
    Send(MakeCommand({"SELECT", Cat(options_.db)}),
         [this](const Answer& answer) { CheckLogIn(answer, "the choice of the database"); });
  }
  Send(MakeCommand({"CLIENT", "SETNAME", "distlockd"}), [this](const Answer& answer) {
    // The name is not needed, but the error may say that the server wants a password first or has no room.
    const std::string_view text = answer.kind == Answer::Kind::kReply ? Text(*answer.reply) : "";
    if (text.starts_with("NOAUTH") || text.starts_with("ERR max number")) {
      return CheckLogIn(answer, "the connection");
    }
    if (answer.kind == Answer::Kind::kReply && connected()) owner_->OnLinkConnected();
  });
  Flush();
}

void Link::CheckLogIn(const Answer& answer, std::string_view step) {
  if (answer.kind != Answer::Kind::kReply || !IsError(*answer.reply)) return;
  const std::string_view text = Text(*answer.reply);
  std::string message = Cat("the server refuses ", step, ": ", text);
  absl::Status why = absl::UnavailableError(message);
  if (text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") || Contains(text, "AUTH")) {
    why = absl::UnauthenticatedError(Cat(message, "; check the user and the password"));
  } else if (ClassifyError(text) == ErrorClass::kDenied) {
    why = absl::PermissionDeniedError(Cat(message, "; lua/README.md lists the rights that are needed"));
  } else if (text.starts_with("ERR DB index") || text.starts_with("ERR invalid DB")) {
    why = absl::InvalidArgumentError(Cat(message, "; choose a database that the server has"));
  }
  Reconnect(why);
}

void Link::Send(std::string_view command, Done done) {
  if (!connected()) return Reject(std::move(done), "not connected");
  const core::Instant now = timers_->Now();
  if (pending_.empty()) ExpectAnswer(now);
  connection_->Append(command);
  pending_.push_back({connection_->appended(), now, std::move(done)});
}

// Called when a command is sent and no other is pending: silence counts from now.
void Link::ExpectAnswer(core::Instant now) {
  quiet_since_ = now;
  if (!ready_ || silence_timer_->active()) return;
  silence_due_ = quiet_since_ + kSilence;
  silence_timer_->Start(kSilence);
}

void Link::CheckSilence() {
  if (!ready_ || pending_.empty()) return;
  const core::Instant now = timers_->Now();
  // A timer overdue by more than half of kSilence means that *we* were paused: silence proves nothing, start counting
  // anew.
  if (now - silence_due_ > kSilence / 2) quiet_since_ = now;
  const core::Duration quiet = now - quiet_since_;
  if (quiet < kSilence) {
    silence_due_ = quiet_since_ + kSilence;
    return silence_timer_->Start(kSilence - quiet);
  }
  Reconnect(absl::UnavailableError(Cat("the server has not answered for ",
                                       std::chrono::duration_cast<std::chrono::milliseconds>(quiet).count(), " ms")));
}

void Link::Reject(Done done, std::string_view cause) {
  if (stopped_) return;
  ended_.push_back({Answer::Kind::kNotSent, std::string(cause), std::move(done)});
  if (!deliver_timer_->active()) deliver_timer_->Start(core::Duration::zero());
}

void Link::Flush() {
  if (connection_ != nullptr) connection_->Flush();
}

void Link::OnReply(ReplyPtr reply) {
  quiet_since_ = timers_->Now();
  if (options_.subscriber && IsMessage(*reply)) return owner_->OnLinkPush(*reply);
  if (pending_.empty()) {
    Drop(absl::UnavailableError(Cat("a reply that nobody asked for: ", Text(*reply))));
    return Deliver();
  }
  Pending pending = std::move(pending_.front());
  pending_.pop_front();
  pending.done({Answer::Kind::kReply, reply.get(), {}, pending.sent, quiet_since_});
}

void Link::OnClosed(const std::string& cause) {
  Drop(absl::UnavailableError(cause));
  Deliver();
}

void Link::MarkReady() {
  failures_ = 0;
  ready_ = true;
  patience_timer_->Stop();
  if (!pending_.empty()) ExpectAnswer(timers_->Now());
}

void Link::Reconnect(const absl::Status& why) {
  if (stopped_) return;
  connect_at_once_ = absl::IsUnavailable(why);
  if (connection_ != nullptr) {
    Drop(why);
    deliver_timer_->Start(core::Duration::zero());
  } else if (connect_timer_->active() && connect_at_once_) {
    connect_timer_->Start(core::Duration::zero());
  }
}

void Link::MoveTo(const ServerAddress& address, const absl::Status& why) {
  address_ = address;
  if (connection_ != nullptr) {
    failures_ = 0;
    Reconnect(why);
  }
  Hurry();
}

void Link::Hurry() {
  hurry_until_ = timers_->Now() + kHurry;
  if (connect_timer_->active()) connect_timer_->Start(core::Duration::zero());
}

// Ends the connection. The next Deliver answers the pending commands.
void Link::Drop(const absl::Status& why) {
  if (connection_ == nullptr) return;
  const uint64_t sent = connection_->sent();
  for (Pending& pending : pending_) {
    const bool left = pending.end <= sent;
    ended_.push_back(
        {left ? Answer::Kind::kUnknown : Answer::Kind::kNotSent, std::string(why.message()), std::move(pending.done)});
  }
  pending_.clear();
  std::exchange(connection_, nullptr)->Close();
  logged_in_ = false;
  ready_ = false;
  downs_.push_back(why);
  patience_timer_->Stop();
  silence_timer_->Stop();
  connect_timer_->Start(connect_at_once_ && failures_ == 0 ? core::Duration::zero() : NextDelay());
  connect_at_once_ = false;
  ++failures_;
}

void Link::Deliver() {
  deliver_timer_->Stop();
  for (const absl::Status& why : std::exchange(downs_, {})) {
    if (!stopped_) owner_->OnLinkDown(why);
  }
  for (Ended& ended : std::exchange(ended_, {})) {
    if (!stopped_) ended.done({ended.kind, nullptr, std::move(ended.cause)});
  }
}

core::Duration Link::NextDelay() {
  const core::Duration longest = timers_->Now() < hurry_until_ ? kHurriedDelay : kLongestDelay;
  const core::Duration full = std::min(longest, kFirstDelay * (1 << std::min(failures_, 6)));
  // Between half and all of it, so that many brokers do not reconnect at the same moment.
  std::uniform_int_distribution<int64_t> jitter(full.count() / 2, full.count());
  if (random_ == nullptr) random_ = std::make_unique<std::mt19937_64>(options_.seed);
  return core::Duration(jitter(*random_));
}

}  // namespace distlock::store
