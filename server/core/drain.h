// SPDX-License-Identifier: Apache-2.0
//
// The end of this broker: nothing new is taken, and what is held goes back or to other brokers.
//
// Thread: the shard's.
#pragma once

#include <vector>

#include "core/core_context.h"
#include "core/part.h"
#include "core/stream_ends.h"

namespace distlock::core {

class Callers;
class Watches;

class BrokerDrain final : public Part {
 public:
  // `parts`: those whose IsIdle counts.
  BrokerDrain(CoreContext& core, StreamEnds& streams, Sessions& sessions, Leases& leases, Callers& callers,
              Bundles& bundles, Watches& watches, const std::vector<Part*>& parts)
      : core_(core),
        streams_(streams),
        sessions_(sessions),
        leases_(leases),
        callers_(callers),
        bundles_(bundles),
        watches_(watches),
        parts_(parts) {}

  // A drain that ends no sooner than the one under way changes nothing.
  void Handle(const Drain& in);
  // Its timeout has passed, or even what it waits for beyond that.
  void OnDue(PartRecord& due) override;
  size_t Check() const override { return timer_.at != kNever; }
  // Tells when nothing is held or waiting any more. Called in each Step.
  void FinishWhenEmpty();

  // When its timeout passes; kNever: there is none.
  Instant deadline() const { return deadline_; }

 private:
  void EndLeasesOf(Session& session);
  void Finish();

  CoreContext& core_;
  StreamEnds& streams_;
  Sessions& sessions_;
  Leases& leases_;
  Callers& callers_;
  Bundles& bundles_;
  Watches& watches_;
  const std::vector<Part*>& parts_;
  bool is_over_ = false;
  bool timed_out_ = false;
  Instant deadline_ = kNever;
  PartRecord timer_{*this};
};

}  // namespace distlock::core
