// SPDX-License-Identifier: Apache-2.0
//
// Every metric of distlockd. The constructors in metrics.cc are the table: name, help, label, buckets. All series exist
// from the start and are looked up once, so counting is one atomic add; a histogram takes a short lock of its own. Any
// thread may count. Labels are the enums of those who count, and namespaces that the operator names, never a value that
// a caller chose. Outlives everything that counts.
//   metrics.refusals[core::RefusalReason::kLockHeld].Increment();
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "acceptor/connection.h"
#include "access/policy.h"
#include "core/facts.h"
#include "core/store_messages.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "rpc/server.h"
#include "shard/shard_set.h"
#include "store/cluster_events.h"
#include "store/quorum_events.h"

namespace distlock {

// kReleased, kAlreadyGone: the caller released. kDisconnected: the caller's stream ended. kGivenBack: the grant came
// too late, and the broker released it. kMoved: another session has adopted it.
enum class ReleaseOutcome { kReleased, kAlreadyGone, kDisconnected, kGivenBack, kMoved };

// kGone: the store does not have the lease, or another holder has the lock. kUnanswered: the renewal failed, or its
// outcome is unknown.
enum class RenewalOutcome { kRenewed, kGone, kUnanswered };

enum class ReloadPart { kPolicy, kTokens, kJwtKeys, kTls };
enum class ReloadOutcome { kReloaded, kRefused };

enum class TlsCertificate { kServer, kClientCa };

// One metric per value of an enum. With a second enum, one per value of that behind them: what is counted is of one of
// two kinds.
template <typename Enum, typename Metric, typename Other = std::monostate>
class ByLabel {
 public:
  explicit ByLabel(std::vector<Metric*> series, size_t others_at = 0)
      : series_(std::move(series)), others_at_(others_at) {}
  Metric& operator[](Enum value) const { return At(static_cast<size_t>(value)); }
  Metric& operator[](Other value) const
    requires(std::is_enum_v<Other>)
  {
    return At(others_at_ + static_cast<size_t>(value));
  }
  // Nothing: the last series is of what has no value.
  Metric& operator[](std::optional<Enum> value) const { return value ? (*this)[*value] : *series_.back(); }
  double Sum() const {
    double sum = 0;
    for (const Metric* metric : series_) sum += metric->Value();
    return sum;
  }

 private:
  Metric& At(size_t index) const {
    assert(index < series_.size());
    return *series_[index];
  }

  const std::vector<Metric*> series_;
  const size_t others_at_;
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

using Counter = prometheus::Counter;
using Gauge = prometheus::Gauge;
using Histogram = prometheus::Histogram;

struct LockMetrics {
  LockMetrics(prometheus::Registry& in, const std::vector<std::string>& namespaces);

  Counter& grants;
  const ByLabel<core::RefusalReason, Counter> refusals;
  const ByLabel<ReleaseOutcome, Counter> releases;
  const ByLabel<core::LostReason, Counter> lost;
  Counter& adoptions;
  Counter& at_risk;
  const ByLabel<RenewalOutcome, Counter> renewals;
  const ByLabel<core::HandoffPath, Counter> handoffs;
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
};

struct CallerMetrics {
  explicit CallerMetrics(prometheus::Registry& in);

  // Streams
  Gauge& sessions;
  const ByLabel<rpc::StreamClose, Counter> streams_closed;
  Gauge& unwritten_bytes;

  // Connections
  Gauge& connections;
  Gauge& connections_limit;
  const ByLabel<acceptor::RefuseCause, Counter> connections_refused;
  const ByLabel<acceptor::CutCause, Counter> connections_cut;
  Counter& proofs_of_death;
  const ByLabel<TlsCertificate, Gauge> tls_not_after;
  // Access
  const ByLabels<rpc::AccessOutcome, access::Verb, Counter> access;  // nothing: a proof of identity was wrong
  const ByLabels<ReloadOutcome, ReloadPart, Counter> reloads;
};

struct StoreMetrics {
  explicit StoreMetrics(prometheus::Registry& in);

  Gauge& store_up;
  Gauge& store_writable;
  Gauge& store_hold_off_seconds;
  Gauge& store_keys;
  Counter& store_primary_changes;
  Histogram& store_wait_seconds;  // until replicas confirmed, or were given up
  Counter& store_wait_short;
  const ByLabel<core::Verb, Counter, shard::Question> store_commands;
  const ByLabel<core::FailureKind, Counter> store_errors;  // nothing: it may have run
  const ByLabel<core::Verb, Histogram, shard::Question> store_latency_seconds;
  Histogram& renewal_batch_leases;
  Counter& store_reconnects;
  Counter& clock_steps;
};

struct StoreServerMetrics {
  explicit StoreServerMetrics(prometheus::Registry& in);

  std::vector<Gauge*> store_nodes;  // down, up, held off
  const ByLabel<store::ClusterEvents::Redirect, Counter> store_redirects;
  const ByLabel<store::ClusterEvents::Refresh, Counter> slot_map_refreshes;
  Gauge& slot_map_time_seconds;  // Unix time
  Gauge& store_clock_skew_seconds;
  Gauge& store_clock_slew_ppm;
  const ByLabel<store::QuorumRound, Counter> quorum_rounds;
  Gauge& quorum_nodes_counted;
};

class OwnedRegistry {
 protected:
  OwnedRegistry();

  const std::unique_ptr<prometheus::Registry> registry_;
};

// The registry comes first: it owns what the others name.
class Metrics : private OwnedRegistry,
                public LockMetrics,
                public CallerMetrics,
                public StoreMetrics,
                public StoreServerMetrics {
 public:
  // `namespaces`: chosen by the operator, and few.
  explicit Metrics(std::string_view version, const std::vector<std::string>& namespaces = {},
                   const GrpcBuild& grpc = {});
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  std::string Text() const;  // what /metrics serves
  const prometheus::Registry& registry() const { return *registry_; }

  // The broker itself
  Histogram& loop_lag_seconds;
  Gauge& mailbox_depth;
  Counter& mailbox_rejected;
  Gauge& draining;
  Gauge& start_time_seconds;

 private:
  Gauge& build_info_;
};

}  // namespace distlock
