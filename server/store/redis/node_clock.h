// SPDX-License-Identifier: Apache-2.0
//
// Watches the clock of a node's server, which ends keys: tells when it was set, and when it runs faster or slower than
// it may. Thread: the loop's.
#pragma once

#include <memory>
#include <optional>

#include "store/redis/clock_rate.h"
#include "store/redis/node_context.h"
#include "store/redis/preparation.h"

namespace distlock::store {

class NodeClock {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnClockStep(core::Duration by) = 0;
    // slew_ppm() is another now.
    virtual void OnClockSlew() = 0;
  };

  NodeClock(NodeContext& context, Owner* owner);

  // The connection leads to the server of which the answers tell; to `another` than before. By how much its clock was
  // set since the last connection, if it was.
  std::optional<core::Duration> OnServer(const Prepared& prepared, bool another);
  // A reply has shown `time`.
  void Learn(core::Instant sent, core::Instant received, core::StoreTime time);
  void Ask();
  void Stop() { timer_->Stop(); }

  // As ClockRate::slew_ppm, when it was told last.
  int64_t slew_ppm() const { return told_slew_ppm_; }

 private:
  // After so much silence the server is asked: it must live, and its clock may have been set.
  static constexpr core::Duration kAskAfter = std::chrono::seconds(1);

  void TellSlew();
  void AskAfterSilence();

  NodeContext& context_;
  Owner* const owner_;
  ClockRate rate_;
  int64_t told_slew_ppm_ = 0;
  std::optional<core::Instant> warned_at_;
  core::Instant learned_{};
  const std::unique_ptr<Timer> timer_;
};

}  // namespace distlock::store
