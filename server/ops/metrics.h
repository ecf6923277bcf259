// SPDX-License-Identifier: Apache-2.0
//
// Every metric of distlockd. The constructor in metrics.cc is the table: name, help, label, buckets. All series exist
// from the start and are looked up once, so counting is one atomic add; a histogram takes a short lock of its own. Any
// thread may count. Labels are the enums below and
// namespaces that the operator names, never a value that a caller chose. Owned by main; outlives everything
// that counts.
//   metrics.refusals[RefusalReason::kLockHeld].Increment();
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace distlock::ops {

// In the order of core's enums of the same names, so that a value of theirs casts to its series.
enum class RefusalReason {
  kLockHeld,
  kWaitTimeout,
  kLeaseLost,
  kNotHolder,
  kLimitMismatch,
  kForeignKey,
  kInvalidArgument,
  kNotSupported,
  kQuotaExceeded,
  kStoreFull,
  kStoreUnavailable,
  kQuorumNotReached,
  kDraining,
  kUnauthenticated,
  kPermissionDenied,
  kCancelled,
  kStoreHoldOff
};
enum class LostReason { kExpired, kTaken, kForced, kMaxHold, kDrained };

// kReleased, kAlreadyGone: the caller released. kDisconnected: the caller's stream ended. kGivenBack: the grant came
// too late, and the broker released it. kMoved: another session has adopted it.
enum class ReleaseOutcome { kReleased, kAlreadyGone, kDisconnected, kGivenBack, kMoved };

// kGone: the store does not have the lease, or another holder has the lock. kUnanswered: the renewal failed, or its
// outcome is unknown.
enum class RenewalOutcome { kRenewed, kGone, kUnanswered };

// How a grant to a waiter reached this broker: in the reply to its own release, by a notice, or found by tending the
// queue.
enum class HandoffPath { kReply, kNotice, kTend };

// kInspect, kList: what GetLock and one page of ListLocks ask.
enum class StoreVerb {
  kAcquire,
  kAcquireAll,
  kRenew,
  kRelease,
  kWithdraw,
  kTend,
  kWatch,
  kDowngrade,
  kForce,
  kAdopt,
  kInspect,
  kList
};

// kUnsent .. kForeignKey as core's FailureKind: known to have changed nothing. kUnknown: it may have run.
enum class StoreError { kUnsent, kUnavailable, kFull, kForeignKey, kUnknown };

// What a node of a Cluster answers instead of running a command, as store::ClusterEvents::Redirect.
enum class StoreRedirect { kMoved, kAsk, kTryAgain, kClusterDown };

// What became of a question for a Cluster's slots, as store::ClusterEvents::Refresh.
enum class SlotMapRefresh { kAdopted, kDoubted, kFailed };

// What is asked of all servers of a quorum at once, as store::QuorumRound.
enum class QuorumRound { kVote, kConfirm, kYield, kJoin };

// kClient: the client ended it, by goodbye or half-close. kBroken: cancelled or cut off. kLapsed: no heartbeat.
// kFinished: a Hold whose lease ended or was refused. kProtocol: the client broke the protocol.
// kDenied: the caller may not open it. kRevoked: the policy withdrew what it needs.
enum class StreamEnd {
  kClient,
  kBroken,
  kLapsed,
  kOverflow,
  kDrained,
  kQuota,
  kFinished,
  kProtocol,
  kDenied,
  kRevoked
};

// kWouldDeny: by --policy, if --allow-all were not given.
enum class AccessDecision { kAllowed, kDenied, kWouldDeny };
// The verbs of access::Verb, in their order, and kProof: a proof of identity was wrong.
enum class AccessVerb {
  kExclusive,
  kShared,
  kPermit,
  kLook,
  kWatch,
  kList,
  kForceRelease,
  kMinHold,
  kStatus,
  kSessions,
  kDrain,
  kReload,
  kAccess,
  kProof
};

enum class ReloadPart { kPolicy, kTokens, kJwtKeys, kTls };
enum class ReloadOutcome { kReloaded, kRefused };

// In the order of the door's enums of the same names.
enum class RefuseCause { kConnections, kPeerConnections, kRate, kDescriptors, kPreface, kPenalty };
enum class CutCause { kEarlyCancels, kOpenCalls, kUnusedBytes, kFrames, kNoPause, kRevoked };

enum class TlsCertificate { kServer, kClientCa };

// One metric per value of an enum.
template <typename Enum, typename Metric>
class ByLabel {
 public:
  explicit ByLabel(std::vector<Metric*> series) : series_(std::move(series)) {}
  Metric& operator[](Enum value) const {
    const auto index = static_cast<size_t>(value);
    assert(index < series_.size());
    return *series_[index];
  }
  double Sum() const {
    double sum = 0;
    for (const Metric* metric : series_) sum += metric->Value();
    return sum;
  }

 private:
  const std::vector<Metric*> series_;
};

// One metric per value of two enums.
template <typename First, typename Second, typename Metric>
class ByLabels {
 public:
  explicit ByLabels(std::vector<ByLabel<Second, Metric>> series) : series_(std::move(series)) {}
  const ByLabel<Second, Metric>& operator[](First value) const {
    const auto index = static_cast<size_t>(value);
    assert(index < series_.size());
    return series_[index];
  }

 private:
  const std::vector<ByLabel<Second, Metric>> series_;
};

// The gRPC that is linked.
struct GrpcBuild {
  std::string version;
  bool hardened = false;  // it ends connections that send headers without end
};

class Metrics {
 private:
  // Declared first: it owns everything below.
  const std::unique_ptr<prometheus::Registry> registry_;

 public:
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;

  // `namespaces`: chosen by the operator, and few.
  explicit Metrics(std::string_view version, const std::vector<std::string>& namespaces = {},
                   const GrpcBuild& grpc = {});
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  std::string Text() const;  // what /metrics serves
  const prometheus::Registry& registry() const { return *registry_; }

  // Locks
  Counter& grants;
  const ByLabel<RefusalReason, Counter> refusals;
  const ByLabel<ReleaseOutcome, Counter> releases;
  const ByLabel<LostReason, Counter> lost;
  Counter& adoptions;
  Counter& at_risk;
  const ByLabel<RenewalOutcome, Counter> renewals;
  const ByLabel<HandoffPath, Counter> handoffs;
  Histogram& wait_seconds;    // of grants: from the request to the grant
  Histogram& hold_seconds;    // of leases: from the grant to the end, however it ended
  Histogram& queue_position;  // of acquires that had to queue: how many were ahead
  Gauge& waiters;
  Gauge& leases;
  Gauge& oldest_hold_seconds;
  Gauge& longest_queue;  // of one lock in this broker
  // The same of each namespace that the constructor was given, in order.
  struct OfNamespace {
    Gauge* oldest_hold_seconds;
    Gauge* longest_queue;
  };
  const std::vector<OfNamespace> of_namespace;

  // Streams
  Gauge& sessions;
  const ByLabel<StreamEnd, Counter> streams_closed;

  // Connections
  Gauge& connections;
  Gauge& connections_limit;
  const ByLabel<RefuseCause, Counter> connections_refused;
  const ByLabel<CutCause, Counter> connections_cut;
  Counter& proofs_of_death;
  const ByLabel<TlsCertificate, Gauge> tls_not_after;
  // Access
  const ByLabels<AccessDecision, AccessVerb, Counter> access;
  const ByLabels<ReloadOutcome, ReloadPart, Counter> reloads;

  // Store
  Gauge& store_up;
  Gauge& store_writable;
  Gauge& store_hold_off_seconds;
  Gauge& store_keys;
  prometheus::Counter& store_primary_changes;
  Histogram& store_wait_seconds;  // until replicas confirmed, or were given up
  Counter& store_wait_short;
  std::vector<Gauge*> store_nodes;  // down, up, held off
  const ByLabel<StoreRedirect, Counter> store_redirects;
  const ByLabel<SlotMapRefresh, Counter> slot_map_refreshes;
  Gauge& slot_map_time_seconds;  // Unix time
  Gauge& store_clock_skew_seconds;
  Gauge& store_clock_slew_ppm;
  const ByLabel<QuorumRound, Counter> quorum_rounds;
  Gauge& quorum_nodes_counted;
  const ByLabel<StoreVerb, Counter> store_commands;
  const ByLabel<StoreError, Counter> store_errors;
  const ByLabel<StoreVerb, Histogram> store_latency_seconds;
  Histogram& renewal_batch_leases;
  Counter& store_reconnects;
  Counter& clock_steps;

  // The broker itself
  Histogram& loop_lag_seconds;
  Gauge& mailbox_depth;
  Counter& mailbox_rejected;
  Gauge& draining;
  Gauge& start_time_seconds;

 private:
  Gauge& build_info_;
};

}  // namespace distlock::ops
