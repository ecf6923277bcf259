// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/scout.h"

#include <utility>

#include "store/cluster/slots_reply.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {
namespace {

void ReadConfig(const redisReply& reply, ClusterReport& report) {
  if (IsError(reply)) return;
  const ReplyArray pairs(reply);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string_view name = pairs.String(i).value_or("");
    const std::string_view value = pairs.String(i + 1).value_or("");
    int ms = 0;
    if (name == "cluster-node-timeout" && ReadInt(value, &ms)) report.node_timeout = std::chrono::milliseconds(ms);
    if (name == "cluster-require-full-coverage") report.full_coverage = value == "yes";
  }
}

}  // namespace

void AskForSlots(CommandSender& sender, const ServerAddress& at,
                 std::function<void(absl::StatusOr<ClusterReport>)> done) {
  const auto report = std::make_shared<ClusterReport>();
  report->from = at.Text();
  sender.Send(MakeCommand({"CLUSTER", "MYID"}), [report](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || IsError(*answer.reply)) return;
    report->from = std::string(Text(*answer.reply));
  });
  sender.Send(MakeCommand({"CONFIG", "GET", "cluster-*"}), [report](const Answer& answer) {
    if (answer.kind == Answer::Kind::kReply) ReadConfig(*answer.reply, *report);
  });
  sender.Send(MakeCommand({"CLUSTER", "SLOTS"}), [report, at, done = std::move(done)](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply) return done(absl::UnavailableError(answer.cause));
    auto slots = ReadSlots(*answer.reply, at);
    if (!slots.ok()) return done(slots.status());
    report->slots = *std::move(slots);
    done(std::move(*report));
  });
  sender.Flush();
}

Scout::Scout(const Network& network, LinkOptions options, Done done)
    : address_(options.address), done_(std::move(done)), link_(network, std::move(options), this) {}

void Scout::OnLinkConnected() {
  AskForSlots(link_, address_, [this](absl::StatusOr<ClusterReport> report) { Finish(std::move(report)); });
}

void Scout::OnLinkDown(const absl::Status& why) { Finish(why); }

void Scout::Finish(absl::StatusOr<ClusterReport> report) {
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(report));
}

}  // namespace distlock::store
