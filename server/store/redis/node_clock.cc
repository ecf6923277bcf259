// SPDX-License-Identifier: Apache-2.0
#include "store/redis/node_clock.h"

#include <cstdlib>

#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {

NodeClock::NodeClock(NodeContext& context, Owner* owner)
    : context_(context),
      owner_(owner),
      rate_(context.options.locks.clock_drift_ppm),
      timer_(context.timers->Make([this] { AskAfterSilence(); })) {}

std::optional<core::Duration> NodeClock::OnServer(const Prepared& prepared, bool another) {
  if (another) rate_.Forget();
  timer_->Start(kAskAfter);
  learned_ = prepared.received;
  return context_.clock.Learn(prepared.sent, prepared.received, prepared.time);
}

void NodeClock::Learn(core::Instant sent, core::Instant received, core::StoreTime time) {
  learned_ = received;
  if (const auto step = context_.clock.Learn(sent, received, time)) {
    rate_.Forget();
    owner_->OnClockStep(*step);
  } else {
    rate_.Learn(sent, received, time);
  }
  if (rate_.slew_ppm() != told_slew_ppm_) TellSlew();
}

void NodeClock::TellSlew() {
  constexpr core::Duration kAgain = std::chrono::minutes(10);
  const StoreOptions& options = context_.options;
  told_slew_ppm_ = rate_.slew_ppm();
  owner_->OnClockSlew();
  const core::Instant now = context_.timers->Now();
  if (told_slew_ppm_ == 0 || !options.on_warning || (warned_at_ && now - *warned_at_ < kAgain)) return;
  warned_at_ = now;
  options.on_warning(
      Cat(options.url.address.Text(), ": its clock runs ", std::abs(told_slew_ppm_), " ppm ",
          told_slew_ppm_ > 0 ? "faster" : "slower", " than this machine's, and --clock-drift allows ",
          options.locks.clock_drift_ppm, " of each: ",
          told_slew_ppm_ > 0 ? "a lease may end there before its holder stops believing; "
                             : "leases end late, and a token may wait for its time; ",
          "bound the rate of the time service on both machines (chrony: maxslewrate), or raise --clock-drift"));
}

void NodeClock::AskAfterSilence() {
  if (!context_.up) return;  // the next preparation asks
  const core::Duration quiet = context_.timers->Now() - learned_;
  if (quiet >= kAskAfter) Ask();
  timer_->Start(quiet < kAskAfter ? kAskAfter - quiet : kAskAfter);
}

void NodeClock::Ask() {
  context_.link.Send(MakeCommand({"TIME"}), [this](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || IsError(*answer.reply)) return;
    if (const auto time = ReadTime(*answer.reply); time.ok()) Learn(answer.sent, answer.received, *time);
  });
  context_.link.Flush();
}

}  // namespace distlock::store
