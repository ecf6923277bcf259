// SPDX-License-Identifier: Apache-2.0
#include "store/redis/node_report.h"

#include <utility>

#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kCountKeysEach = std::chrono::seconds(15);

std::string GuardText(const Census& census) {
  if (!census.obeys()) return "";
  return Cat(GuardName(census.guard()), census.waits_for_replicas() ? ", as it has or had replicas" : "");
}

}  // namespace

NodeReport::NodeReport(NodeContext& context, const ServerChecks& checks, const NodeClock& clock)
    : context_(context), checks_(checks), clock_(clock), count_timer_(context.timers->Make([this] { CountKeys(); })) {}

void NodeReport::TellStatus() const {
  const StoreOptions& options = context_.options;
  if (!options.on_node_status) return;
  const bool up = context_.up;
  const Census& census = checks_.census();
  NodeStatus status{.address = options.url.address.Text(),
                    .state = !up                  ? NodeStatus::State::kDown
                             : census.holds_off() ? NodeStatus::State::kHeldOff
                                                  : NodeStatus::State::kUp,
                    .problem = up ? "" : context_.down_cause,
                    .refusal = up ? checks_.refusal() : "",
                    .role = context_.identity.role,
                    .version = context_.identity.version,
                    .identity = context_.identity.Short(),
                    .hold_off_left = core::Duration::zero(),
                    .guard = GuardText(census),
                    .replicas = checks_.replicas(),
                    .epoch = 0,
                    .clock_slew_ppm = clock_.slew_ppm(),
                    .keys = keys_,
                    .primary_changes = primary_changes_};
  const core::Duration left = checks_.HoldOffLeft();
  status.hold_off_left = left == core::Duration::max() ? std::nullopt : std::optional(left);
  options.on_node_status(status);
}

void NodeReport::OnServer(bool another) {
  primary_changes_ += another;
  link_problem_.clear();
  CountKeys();
}

void NodeReport::CountKeys() {
  if (!context_.options.on_node_status || !context_.up) return;
  context_.link.Send(MakeCommand({"INFO", "keyspace"}), [this](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || IsError(*answer.reply)) return;
    keys_ = ServerInfo(Text(*answer.reply)).KeysIn(context_.options.url.db);
    TellStatus();
  });
  context_.link.Flush();
  count_timer_->Start(kCountKeysEach);
}

// Without this line only callers would know why.
void NodeReport::OnRefused(const core::StoreFailed& failed) {
  constexpr core::Duration kAgain = std::chrono::minutes(1);
  if (failed.kind != core::FailureKind::kUnavailable && failed.kind != core::FailureKind::kFull) return;
  // By time and not by text: the text names the script, so it differs for each verb.
  const core::Instant now = context_.timers->Now();
  if (refusal_at_ && now - *refusal_at_ < kAgain) return;
  refusal_at_ = now;
  const StoreOptions& options = context_.options;
  if (!options.on_problem) return;
  options.on_problem(
      absl::UnavailableError(Cat(options.url.Masked(), ": ", context_.place, "refuses: ", failed.cause)));
}

void NodeReport::Report(std::string& last, std::string_view who, const absl::Status& why) {
  const StoreOptions& options = context_.options;
  std::string text = Cat(options.url.Masked(), ": ", context_.place, who, why.message());
  if (std::exchange(last, text) == text) return;
  if (options.on_problem) options.on_problem(absl::Status(why.code(), text));
}

}  // namespace distlock::store
