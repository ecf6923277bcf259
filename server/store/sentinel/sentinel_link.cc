// SPDX-License-Identifier: Apache-2.0
#include "store/sentinel/sentinel_link.h"

#include <optional>
#include <utility>

#include "store/redis/error_class.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr std::chrono::seconds kPingInterval{3};
// The replicas are asked for each so many times: their list is long, and only warnings need it.
constexpr int kReplicasEvery = 10;

LinkOptions AsSubscriber(LinkOptions options) {
  options.subscriber = true;
  options.seed = options.seed * 2 + 1;
  return options;
}

}  // namespace

// The answers so far.
struct SentinelLink::Asked {
  SentinelReport report;
  SetFacts facts;
  std::string trouble;
  bool name_unknown = false;
};

SentinelLink::SentinelLink(const Network& network, SentinelId id, const LinkOptions& options, std::string primary_name,
                           Owner* owner)
    : id_(id),
      name_(std::move(primary_name)),
      owner_(owner),
      link_(network, options, this),
      subscription_(network, AsSubscriber(options), *this) {}

void SentinelLink::Start() {
  link_.Start();
  subscription_.Start();
}

void SentinelLink::Stop() {
  link_.Stop();
  subscription_.Stop();
}

void SentinelLink::OnLinkConnected() {
  asks_ = 0;
  link_.MarkReady();
  owner_->OnSentinelUp(id_);
}

void SentinelLink::OnLinkDown(const absl::Status& why) { owner_->OnSentinelDown(id_, why); }

void SentinelLink::Denied(const std::string& text) {
  link_.Reconnect(
      absl::PermissionDeniedError(Cat("it refuses the question: ", text,
                                      "; check --sentinel-user and --sentinel-password-file, and the rights of "
                                      "that user, which the README lists")));
}

// MASTER before GET-MASTER-ADDR-BY-NAME: a failover raises the epoch of the first and changes the second in one step,
// so that an old epoch may come with the new address, which does no harm, but never a new one with the old address.
void SentinelLink::Ask() {
  const auto asked = std::make_shared<Asked>();
  const auto step = [this, asked](std::string_view verb, std::function<void(const redisReply&)> read) {
    link_.Send(MakeCommand({"SENTINEL", verb, name_}), [asked, read = std::move(read)](const Answer& answer) {
      if (answer.kind != Answer::Kind::kReply) return;
      if (!IsError(*answer.reply)) return read(*answer.reply);
      const std::string_view text = Text(*answer.reply);
      asked->name_unknown = asked->name_unknown || Contains(text, "No such master");
      if (asked->trouble.empty()) asked->trouble = std::string(text);
    });
  };
  step("MASTER", [asked](const redisReply& reply) {
    if (!ReadMaster(reply, asked->report, asked->facts)) asked->trouble = "its answer has an unknown shape";
  });
  step("SENTINELS", [asked](const redisReply& reply) { asked->report.peers = ReadPeers(reply); });
  if (asks_++ % kReplicasEvery == 0) {
    // May be denied: then there are no warnings.
    link_.Send(MakeCommand({"SENTINEL", "REPLICAS", name_}), [asked](const Answer& answer) {
      if (answer.kind == Answer::Kind::kReply && !IsError(*answer.reply)) {
        asked->facts.replicas = ReadReplicas(*answer.reply);
      }
    });
  }
  link_.Send(MakeCommand({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name_}), [this, asked](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply) return;
    if (IsError(*answer.reply)) {
      asked->trouble = std::string(Text(*answer.reply));
    } else if (auto address = ReadAddress(*answer.reply)) {
      asked->report.primary = *std::move(address);
    }
    Finish(*asked);
  });
  link_.Flush();
}

void SentinelLink::Finish(const Asked& asked) {
  if (asked.name_unknown) {
    link_.Send(MakeCommand({"SENTINEL", "MASTERS"}), [this](const Answer& answer) {
      if (answer.kind == Answer::Kind::kReply) owner_->OnSentinelNames(id_, ReadNames(*answer.reply));
    });
    return link_.Flush();
  }
  if (asked.trouble.empty()) return owner_->OnSentinelReport(id_, asked.report, asked.facts);
  if (ClassifyError(asked.trouble) == ErrorClass::kDenied) return Denied(asked.trouble);
  if (!Contains(asked.trouble, "unknown command")) return owner_->OnSentinelMute(id_, asked.trouble);
  owner_->OnSentinelMute(id_, Cat("it is no sentinel: ", asked.trouble,
                                  "; for one server write redis://host:port, for a Cluster "
                                  "redis+cluster://host:port,host:port"));
}

SentinelLink::Subscription::Subscription(const Network& network, LinkOptions options, SentinelLink& of)
    : of_(of), link_(network, std::move(options), this), ping_timer_(network.timers->Make([this] { Ping(); })) {}

void SentinelLink::Subscription::Stop() {
  ping_timer_->Stop();
  link_.Stop();
}

void SentinelLink::Subscription::OnLinkConnected() {
  link_.Send(MakeCommand({"SUBSCRIBE", "+switch-master"}), [this](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply) return;
    // Denied or not: the questions of each second find a new primary, too, only later.
    if (IsError(*answer.reply)) return link_.Reconnect(absl::PermissionDeniedError(std::string(Text(*answer.reply))));
    link_.MarkReady();
    ping_timer_->Start(kPingInterval);
    of_.owner_->OnSwitchMaster(of_.id_);
  });
  link_.Flush();
}

void SentinelLink::Subscription::OnLinkDown(const absl::Status&) { ping_timer_->Stop(); }

// name, old host, old port, new host, new port
void SentinelLink::Subscription::OnLinkPush(const redisReply& push) {
  const std::string_view message = ReplyArray(push).String(2).value_or("");
  if (Cut(message, ' ').first == of_.name_) of_.owner_->OnSwitchMaster(of_.id_);
}

void SentinelLink::Subscription::Ping() {
  link_.Send(MakeCommand({"PING"}), [](const Answer&) {});
  link_.Flush();
  ping_timer_->Start(kPingInterval);
}

}  // namespace distlock::store
