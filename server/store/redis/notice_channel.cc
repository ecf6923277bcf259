// SPDX-License-Identifier: Apache-2.0
#include "store/redis/notice_channel.h"

#include <utility>

#include "store/redis/error_class.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// A waiter is looked after without notices too, so this only bounds how long hand-offs are slow.
constexpr std::chrono::seconds kPingInterval{3};

LinkOptions AsSubscriber(LinkOptions options) {
  options.subscriber = true;
  return options;
}

}  // namespace

NoticeChannel::NoticeChannel(uv_loop_t* loop, LinkOptions options, std::string channel, Owner* owner)
    : channel_(std::move(channel)),
      owner_(owner),
      link_(loop, AsSubscriber(std::move(options)), this),
      ping_timer_(loop, [this] { Ping(); }) {}

void NoticeChannel::Stop() {
  ping_timer_.Stop();
  link_.Stop();
}

void NoticeChannel::OnLinkConnected() {
  link_.Send(MakeCommand({"SUBSCRIBE", channel_}), [this](const Answer& answer) { OnSubscribed(answer); });
  link_.Flush();
}

void NoticeChannel::OnSubscribed(const Answer& answer) {
  if (answer.kind != Answer::Kind::kReply) return;
  if (IsError(*answer.reply)) {
    const std::string_view text = Text(*answer.reply);
    const std::string message = Cat("the server refuses SUBSCRIBE ", channel_, ": ", text);
    if (text.substr(0, 6) == "NOAUTH") {
      return link_.Reconnect(absl::UnauthenticatedError(Cat(message, "; give distlock the store's password")));
    }
    if (ClassifyError(text) == ErrorClass::kDenied) {
      return link_.Reconnect(
          absl::PermissionDeniedError(Cat(message, "; lua/README.md lists the rights that are needed")));
    }
    return link_.Reconnect(absl::UnavailableError(message));
  }
  const ReplyArray reply(*answer.reply);
  if (reply.size() != 3 || reply.String(0) != "subscribe" || reply.String(1) != channel_) {
    return link_.Reconnect(absl::UnavailableError("the server's answer to SUBSCRIBE has an unknown shape"));
  }
  link_.MarkReady();
  ping_answered_ = true;
  ping_timer_.Start(kPingInterval);
  owner_->OnChannelUp();
}

void NoticeChannel::Ping() {
  if (!ping_answered_) {
    return link_.Reconnect(absl::UnavailableError("the hand-off channel does not answer"));
  }
  ping_answered_ = false;
  link_.Send(MakeCommand({"PING"}), [this](const Answer& answer) {
    if (answer.kind == Answer::Kind::kReply) ping_answered_ = true;
  });
  link_.Flush();
  ping_timer_.Start(kPingInterval);
}

void NoticeChannel::OnLinkDown(const absl::Status& why) {
  ping_timer_.Stop();
  owner_->OnChannelDown(why);
}

void NoticeChannel::OnLinkPush(const redisReply& push) {
  const ReplyArray message(push);
  const std::string_view payload = message.String(2).value_or("");
  // Empty: somebody only tried whether it may publish.
  if (message.String(1) == channel_ && !payload.empty()) owner_->OnChannelMessage(payload);
}

}  // namespace distlock::store
