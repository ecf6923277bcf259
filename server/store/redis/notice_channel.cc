// SPDX-License-Identifier: Apache-2.0
#include "store/redis/notice_channel.h"

#include <utility>

#include "store/redis/error_class.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// The core asks for a waiter's lock without notices too, so this only bounds how long hand-offs are slow.
constexpr std::chrono::seconds kPingInterval{3};

LinkOptions AsSubscriber(LinkOptions options) {
  options.subscriber = true;
  return options;
}

}  // namespace

NoticeChannel::NoticeChannel(const Network& network, LinkOptions options, std::string channel, Owner* owner)
    : channel_(std::move(channel)),
      owner_(owner),
      link_(network, AsSubscriber(std::move(options)), this),
      ping_timer_(network.timers->Make([this] { Ping(); })) {}

void NoticeChannel::Stop() {
  subscribed_ = false;
  ping_timer_->Stop();
  link_.Stop();
}

void NoticeChannel::Renew(const std::string& why) {
  if (std::exchange(subscribed_, false)) link_.Reconnect(absl::UnavailableError(why));
}

void NoticeChannel::Listen(std::string channel, bool sharded) {
  if (channel_ == channel && sharded_ == sharded) return;
  channel_ = std::move(channel);
  sharded_ = sharded;
  subscribed_ = false;
  if (link_.connected()) link_.Reconnect(absl::UnavailableError("another channel is needed"));
}

void NoticeChannel::MoveTo(const ServerAddress& address, const std::string& why) {
  subscribed_ = false;
  link_.MoveTo(address, absl::UnavailableError(why));
}

void NoticeChannel::OnLinkConnected() {
  link_.Send(MakeCommand({"INFO"}), [this](const Answer& answer) { OnInfo(answer); });
  link_.Send(MakeCommand({sharded_ ? "SSUBSCRIBE" : "SUBSCRIBE", channel_}),
             [this](const Answer& answer) { OnSubscribed(answer); });
  link_.Flush();
}

void NoticeChannel::OnInfo(const Answer& answer) {
  if (answer.kind != Answer::Kind::kReply) return;
  if (IsError(*answer.reply)) return Refused("INFO", *answer.reply);
  server_ = IdentityOf(ServerInfo(Text(*answer.reply)));
}

void NoticeChannel::Refused(std::string_view step, const redisReply& error) {
  const std::string_view text = Text(error);
  const std::string message = Cat("the server refuses ", step, ": ", text);
  if (text.starts_with("NOAUTH")) {
    return link_.Reconnect(absl::UnauthenticatedError(Cat(message, "; give distlock the store's password")));
  }
  if (ClassifyError(text) == ErrorClass::kDenied) {
    return link_.Reconnect(
        absl::PermissionDeniedError(Cat(message, "; lua/README.md lists the rights that are needed")));
  }
  link_.Reconnect(absl::UnavailableError(message));
}

void NoticeChannel::OnSubscribed(const Answer& answer) {
  if (answer.kind != Answer::Kind::kReply) return;
  if (IsError(*answer.reply)) {
    const std::string_view text = Text(*answer.reply);
    if (sharded_ && Contains(text, "unknown command")) return owner_->OnNoShardChannels();
    const std::string moved(sharded_ && text.starts_with("MOVED") ? text : "");
    Refused(Cat(sharded_ ? "SSUBSCRIBE " : "SUBSCRIBE ", channel_), *answer.reply);
    if (!moved.empty()) owner_->OnChannelMoved(moved);
    return;
  }
  const ReplyArray reply(*answer.reply);
  const std::string_view kind = sharded_ ? "ssubscribe" : "subscribe";
  if (reply.size() != 3 || reply.String(0) != kind || reply.String(1) != channel_) {
    return link_.Reconnect(absl::UnavailableError("the server's answer to SUBSCRIBE has an unknown shape"));
  }
  link_.MarkReady();
  subscribed_ = true;
  ping_timer_->Start(kPingInterval);
  owner_->OnChannelUp();
}

void NoticeChannel::Ping() {
  link_.Send(MakeCommand({"PING"}), [](const Answer&) {});
  link_.Flush();
  ping_timer_->Start(kPingInterval);
}

void NoticeChannel::OnLinkDown(const absl::Status& why) {
  subscribed_ = false;
  ping_timer_->Stop();
  owner_->OnChannelDown(why);
}

void NoticeChannel::OnLinkPush(const redisReply& push) {
  const ReplyArray message(push);
  if (message.String(0) == "sunsubscribe") {
    Renew("the channel's shard has left the server");
    return owner_->OnChannelMoved("");
  }
  const std::string_view payload = message.String(2).value_or("");
  // Empty: somebody only tried whether it may publish.
  if (message.String(1) == channel_ && !payload.empty()) owner_->OnChannelMessage(payload);
}

}  // namespace distlock::store
