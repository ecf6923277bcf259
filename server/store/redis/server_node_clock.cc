// SPDX-License-Identifier: Apache-2.0
//
// A node watches its server's clock, and tells when it was set, and when it is slewed.
#include <cstdlib>

#include "store/redis/preparation.h"
#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/redis/server_node.h"
#include "store/text.h"

namespace distlock::store {

void ServerNode::LearnTime(core::Instant sent, core::Instant received, core::StoreTime time) {
  time_learned_ = received;
  if (const auto step = clock_.Learn(sent, received, time)) {
    clock_rate_.Forget();
    TellClockStep(*step);
  } else {
    clock_rate_.Learn(sent, received, time);
  }
  if (clock_rate_.slew_ppm() != told_slew_ppm_) TellClockSlew();
}

void ServerNode::TellClockSlew() {
  constexpr core::Duration kAgain = std::chrono::minutes(10);
  told_slew_ppm_ = clock_rate_.slew_ppm();
  TellStatus();
  const core::Instant now = timers_->Now();
  if (told_slew_ppm_ == 0 || !options_.on_warning || (slew_at_ && now - *slew_at_ < kAgain)) return;
  slew_at_ = now;
  options_.on_warning(
      Cat(options_.url.address.Text(), ": its clock runs ", std::abs(told_slew_ppm_), " ppm ",
          told_slew_ppm_ > 0 ? "faster" : "slower", " than this machine's, and --clock-drift allows ",
          options_.locks.clock_drift_ppm, " of each: ",
          told_slew_ppm_ > 0 ? "a lease may end there before its holder stops believing; "
                             : "leases end late, and a token may wait for its time; ",
          "bound the rate of the time service on both machines (chrony: maxslewrate), or raise --clock-drift"));
}

void ServerNode::TellClockStep(core::Duration by) {
  census_.OnClockStep(by);
  Tell(core::StoreClockStep{by});
}

void ServerNode::AskTimeAfterSilence() {
  if (!up_) return;  // the next preparation asks
  const core::Duration quiet = timers_->Now() - time_learned_;
  if (quiet >= kAskTimeAfter) AskTime();
  clock_timer_->Start(quiet < kAskTimeAfter ? kAskTimeAfter - quiet : kAskTimeAfter);
}

void ServerNode::AskTime() {
  link_.Send(MakeCommand({"TIME"}), [this](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || IsError(*answer.reply)) return;
    if (const auto time = ReadTime(*answer.reply); time.ok()) LearnTime(answer.sent, answer.received, *time);
  });
  link_.Flush();
}

}  // namespace distlock::store
