// SPDX-License-Identifier: Apache-2.0
#include "main/metrics.h"

#include <iterator>
#include <span>

#include "prometheus/text_serializer.h"

namespace distlock {
namespace {

using Labels = std::span<const std::string_view>;
using Buckets = prometheus::Histogram::BucketBoundaries;

// The label of each enumerator, in the order of the enum.
constexpr std::string_view kRefusalReasons[] = {
    "lock_held",        "wait_timeout",    "lease_lost",        "not_holder", "limit_mismatch",    "foreign_key",
    "invalid_argument", "not_supported",   "quota_exceeded",    "store_full", "store_unavailable", "quorum_not_reached",
    "draining",         "unauthenticated", "permission_denied", "cancelled",  "store_hold_off"};
constexpr std::string_view kLostReasons[] = {"expired", "taken", "forced", "max_hold", "drained"};
constexpr std::string_view kReleaseOutcomes[] = {"released", "already_gone", "disconnected", "given_back", "moved"};
constexpr std::string_view kRenewalOutcomes[] = {"renewed", "gone", "unanswered"};
constexpr std::string_view kHandoffPaths[] = {"reply", "notice", "tend"};
constexpr std::string_view kStoreVerbs[] = {"acquire",   "acquire_all", "renew", "release", "withdraw", "tend", "watch",
                                            "downgrade", "force",       "adopt", "wanted",  "inspect",  "list"};
constexpr std::string_view kStoreErrors[] = {"unsent", "unavailable", "full", "foreign_key", "unknown"};
constexpr std::string_view kStoreRedirects[] = {"moved", "ask", "tryagain", "clusterdown"};
constexpr std::string_view kSlotMapRefreshes[] = {"adopted", "doubted", "failed"};
constexpr std::string_view kQuorumRounds[] = {"vote", "confirm", "yield", "join"};
constexpr std::string_view kStreamEnds[] = {"client", "broken",   "lapsed",   "overflow", "drained",
                                            "quota",  "finished", "protocol", "denied",   "revoked"};
constexpr std::string_view kAccessDecisions[] = {"allowed", "denied", "would_deny"};
constexpr std::string_view kAccessVerbs[] = {"exclusive", "shared",        "permit",   "look",   "watch",
                                             "list",      "force-release", "min-hold", "status", "sessions",
                                             "drain",     "reload",        "access",   "store",  "proof"};
constexpr std::string_view kReloadParts[] = {"policy", "tokens", "jwt-keys", "tls"};
constexpr std::string_view kReloadOutcomes[] = {"reloaded", "refused"};

constexpr std::string_view kRefuseCauses[] = {"connections", "peer_connections", "rate",
                                              "descriptors", "preface",          "penalty"};
constexpr std::string_view kTlsCertificates[] = {"server", "client_ca"};
constexpr std::string_view kCutCauses[] = {"early_cancels", "open_calls", "unused_bytes",
                                           "frames",        "no_pause",   "revoked"};

template <typename Enum>
constexpr bool EndsWith(Labels names, Enum last) {
  return names.size() == static_cast<size_t>(last) + 1;
}
static_assert(std::size(kRefusalReasons) == core::kRefusalReasonCount);
static_assert(EndsWith(kLostReasons, core::LostReason::kDrained));
static_assert(EndsWith(kReleaseOutcomes, ReleaseOutcome::kMoved));
static_assert(EndsWith(kRenewalOutcomes, RenewalOutcome::kUnanswered));
static_assert(EndsWith(kHandoffPaths, core::HandoffPath::kTend));
// Behind the verbs of commands, those of questions.
constexpr size_t kQuestionsAt = static_cast<size_t>(core::Verb::kWanted) + 1;
static_assert(std::size(kStoreVerbs) == kQuestionsAt + static_cast<size_t>(shard::Question::kList) + 1);
// Behind the kinds, what may have run.
static_assert(EndsWith(kStoreErrors, static_cast<size_t>(core::FailureKind::kForeignKey) + 1));
static_assert(EndsWith(kRefuseCauses, acceptor::RefuseCause::kPenalty));
static_assert(EndsWith(kCutCauses, acceptor::CutCause::kRevoked));
static_assert(EndsWith(kTlsCertificates, TlsCertificate::kClientCa));
static_assert(EndsWith(kStoreRedirects, store::ClusterEvents::Redirect::kClusterDown));
static_assert(EndsWith(kSlotMapRefreshes, store::ClusterEvents::Refresh::kFailed));
static_assert(EndsWith(kQuorumRounds, store::QuorumRound::kJoin));
static_assert(EndsWith(kStreamEnds, rpc::StreamClose::kRevoked));
static_assert(EndsWith(kAccessDecisions, rpc::AccessOutcome::kWouldDeny));
// Behind the verbs, the proofs of identity.
static_assert(EndsWith(kAccessVerbs, access::kVerbs));
static_assert(EndsWith(kReloadParts, ReloadPart::kTls));
static_assert(EndsWith(kReloadOutcomes, ReloadOutcome::kRefused));

// A grant of a free lock takes well under a millisecond; waits and holds run up to the limits of an hour and a day.
const Buckets kWaitBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 3600, 86400};
const Buckets kHoldBuckets = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 86400};
const Buckets kPositionBuckets = {0, 1, 2, 5, 10, 50, 100, 500, 1000, 5000};
const Buckets kLatencyBuckets = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5};
const Buckets kBatchBuckets = {1, 2, 5, 10, 25, 50, 100};
const Buckets kLagBuckets = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5};

constexpr std::string_view kNodeStates[] = {"down", "up", "held_off"};

// The family functions below let the constructors read as the table they are.
template <typename Builder>
auto& Family(Builder builder, prometheus::Registry& registry, const char* name, const char* help) {
  return builder.Name(name).Help(help).Register(registry);
}

template <typename Metric, typename FamilyOf, typename... Args>
std::vector<Metric*> Series(FamilyOf& family, const char* label, Labels values, const Args&... args) {
  std::vector<Metric*> series;
  for (const std::string_view value : values) series.push_back(&family.Add({{label, std::string(value)}}, args...));
  return series;
}

auto& Count(prometheus::Registry& in, const char* name, const char* help) {
  return Family(prometheus::BuildCounter(), in, name, help).Add({});
}

auto CountBy(prometheus::Registry& in, const char* name, const char* help, const char* label, Labels values) {
  return Series<prometheus::Counter>(Family(prometheus::BuildCounter(), in, name, help), label, values);
}

template <typename First, typename Second>
ByLabels<First, Second, prometheus::Counter> CountByTwo(prometheus::Registry& in, const char* name, const char* help,
                                                        const char* label, Labels values, const char* second,
                                                        Labels second_values) {
  auto& family = Family(prometheus::BuildCounter(), in, name, help);
  std::vector<ByLabel<Second, prometheus::Counter>> all;
  for (const std::string_view value : values) {
    std::vector<prometheus::Counter*> series;
    for (const std::string_view other : second_values) {
      series.push_back(&family.Add({{label, std::string(value)}, {second, std::string(other)}}));
    }
    all.emplace_back(std::move(series));
  }
  return ByLabels<First, Second, prometheus::Counter>(std::move(all));
}

auto& Level(prometheus::Registry& in, const char* name, const char* help, const prometheus::Labels& labels = {}) {
  return Family(prometheus::BuildGauge(), in, name, help).Add(labels);
}

auto& Spread(prometheus::Registry& in, const char* name, const char* help, const Buckets& buckets) {
  return Family(prometheus::BuildHistogram(), in, name, help).Add({}, buckets);
}

auto SpreadBy(prometheus::Registry& in, const char* name, const char* help, const Buckets& buckets, const char* label,
              Labels values) {
  return Series<prometheus::Histogram>(Family(prometheus::BuildHistogram(), in, name, help), label, values, buckets);
}

// No family without a namespace: it would have no series.
std::vector<LockMetrics::OfNamespace> GaugesOf(prometheus::Registry& in, const std::vector<std::string>& namespaces) {
  std::vector<LockMetrics::OfNamespace> gauges;
  if (namespaces.empty()) return gauges;
  auto& oldest = Family(prometheus::BuildGauge(), in, "distlock_namespace_oldest_hold_seconds",
                        "distlock_oldest_hold_seconds of a namespace that --metrics-namespace names.");
  auto& longest = Family(prometheus::BuildGauge(), in, "distlock_namespace_longest_queue",
                         "distlock_longest_queue of a namespace that --metrics-namespace names.");
  for (const std::string& name : namespaces) {
    gauges.push_back({&oldest.Add({{"namespace", name}}), &longest.Add({{"namespace", name}})});
  }
  return gauges;
}

}  // namespace

LockMetrics::LockMetrics(prometheus::Registry& in, const std::vector<std::string>& namespaces)
    : grants(Count(in, "distlock_grants_total", "Locks given to callers of this broker.")),
      refusals(CountBy(in, "distlock_refusals_total", "Requests refused, by reason.", "reason", kRefusalReasons)),
      releases(CountBy(in, "distlock_releases_total",
                       "Leases given back, by outcome; lost leases are counted in distlock_lost_total.", "outcome",
                       kReleaseOutcomes)),
      lost(CountBy(in, "distlock_lost_total", "Leases that ended against their holder's will, by reason.", "reason",
                   kLostReasons)),
      adoptions(Count(in, "distlock_adoptions_total", "Leases taken over from another stream.")),
      at_risk(Count(in, "distlock_at_risk_total", "Leases whose renewal failed with time left to try again.")),
      renewals(CountBy(in, "distlock_renewals_total", "Lease renewals, by outcome.", "outcome", kRenewalOutcomes)),
      handoffs(CountBy(in, "distlock_handoffs_total",
                       "Grants to waiters of this broker, by the path on which it learned of them.", "path",
                       kHandoffPaths)),
      wait_seconds(
          Spread(in, "distlock_wait_seconds", "From the request to the grant, of requests granted.", kWaitBuckets)),
      hold_seconds(
          Spread(in, "distlock_hold_seconds", "From the grant to the end of a lease, however it ended.", kHoldBuckets)),
      queue_position(Spread(in, "distlock_queue_position", "How many were ahead of a request when it had to queue.",
                            kPositionBuckets)),
      waiters(Level(in, "distlock_waiters", "Requests waiting in this broker.")),
      leases(Level(in, "distlock_leases", "Leases renewed by this broker.")),
      oldest_hold_seconds(Level(in, "distlock_oldest_hold_seconds",
                                "Age of the oldest of the leases that this broker renews; 0: there are none.")),
      longest_queue(Level(in, "distlock_longest_queue", "Most requests that wait in this broker for the same lock.")),
      of_namespace(GaugesOf(in, namespaces)) {}

CallerMetrics::CallerMetrics(prometheus::Registry& in)
    : sessions(Level(in, "distlock_sessions", "Open Session, Hold, WatchLock and WatchLocks streams.")),
      streams_closed(
          CountBy(in, "distlock_streams_closed_total", "Streams that ended, by cause.", "cause", kStreamEnds)),
      unwritten_bytes(Level(in, "distlock_unwritten_bytes",
                            "Bytes of events that wait to be written to Session streams; what gRPC holds is not "
                            "counted.")),
      connections(Level(in, "distlock_connections", "Open client connections.")),
      connections_limit(Level(in, "distlock_connections_limit", "So many client connections may be open at a time.")),
      connections_refused(CountBy(in, "distlock_connections_refused_total",
                                  "Client connections that were not let in, by cause.", "cause", kRefuseCauses)),
      connections_cut(CountBy(in, "distlock_connections_cut_total",
                              "Client connections that the broker ended, by cause.", "cause", kCutCauses)),
      proofs_of_death(Count(in, "distlock_proofs_of_death_total",
                            "Processes whose end was seen, so that what they held was free at once.")),
      tls_not_after(Series<prometheus::Gauge>(
          Family(prometheus::BuildGauge(), in, "distlock_tls_not_after_seconds",
                 "When the certificate in use expires, in Unix time; of several authorities the first; 0: none."),
          "certificate", kTlsCertificates)),
      access(CountByTwo<rpc::AccessOutcome, access::Verb>(
          in, "distlock_access_total",
          "Questions about rights, by decision and verb; the verb proof: a proof of identity was wrong.", "decision",
          kAccessDecisions, "verb", kAccessVerbs)),
      reloads(CountByTwo<ReloadOutcome, ReloadPart>(in, "distlock_reloads_total",
                                                    "Files read again, by outcome and unit.", "outcome",
                                                    kReloadOutcomes, "unit", kReloadParts)) {}

StoreMetrics::StoreMetrics(prometheus::Registry& in)
    : store_up(Level(in, "distlock_store_up", "1 when every shard can send commands to the store, else 0.")),
      store_writable(Level(in, "distlock_store_writable",
                           "1 when the store takes writes, as it must to grant a lock; 0 while it answers and refuses "
                           "them, or is down.")),
      store_hold_off_seconds(Level(in, "distlock_store_hold_off_seconds",
                                   "For how long the store still grants nobody a lock newly; +Inf while its end is not "
                                   "known.")),
      store_keys(Level(in, "distlock_store_keys",
                       "Keys in the store's database, whoever wrote them. Each lock leaves one for 24 h after its last "
                       "use, or as --namespace-token-keep says.")),
      store_primary_changes(Count(in, "distlock_store_primary_changes_total",
                                  "Times that the store was another server, or another run of it.")),
      store_wait_seconds(Spread(in, "distlock_store_wait_seconds",
                                "How long replicas took to confirm what was written, or until they were given up.",
                                kLatencyBuckets)),
      store_wait_short(Count(in, "distlock_store_wait_short_total",
                             "Times that fewer replicas than --wait-replicas confirmed within --wait-timeout.")),
      store_commands(
          CountBy(in, "distlock_store_commands_total", "Commands sent to the store, by verb.", "verb", kStoreVerbs),
          kQuestionsAt),
      store_errors(CountBy(in, "distlock_store_errors_total", "Store commands without a usable reply, by kind.", "kind",
                           kStoreErrors)),
      store_latency_seconds(SpreadBy(in, "distlock_store_latency_seconds",
                                     "From handing a command to the connection to its reply, by verb.", kLatencyBuckets,
                                     "verb", kStoreVerbs),
                            kQuestionsAt),
      renewal_batch_leases(
          Spread(in, "distlock_renewal_batch_leases", "Leases renewed by one command.", kBatchBuckets)),
      store_reconnects(Count(in, "distlock_store_reconnects_total", "Store connections made anew.")),
      clock_steps(Count(in, "distlock_clock_steps_total", "Times the store's clock was seen to jump.")) {}

StoreServerMetrics::StoreServerMetrics(prometheus::Registry& in)
    : store_nodes(Series<prometheus::Gauge>(Family(prometheus::BuildGauge(), in, "distlock_store_nodes",
                                                   "Servers of the store that take commands, by state."),
                                            "state", kNodeStates)),
      store_redirects(CountBy(in, "distlock_store_redirects_total",
                              "Answers of a Cluster's node that did not run a command, by kind.", "kind",
                              kStoreRedirects)),
      slot_map_refreshes(CountBy(in, "distlock_store_slot_map_refreshes_total",
                                 "Times that a Cluster was asked who has which slot, by outcome.", "outcome",
                                 kSlotMapRefreshes)),
      slot_map_time_seconds(Level(in, "distlock_store_slot_map_time_seconds",
                                  "When a Cluster last told who has which slot, in Unix time; 0: never.")),
      store_clock_skew_seconds(Level(in, "distlock_store_clock_skew_seconds",
                                     "The largest difference between the clock of a server of a quorum or a Cluster "
                                     "and the median of all.")),
      store_clock_slew_ppm(Level(in, "distlock_store_clock_slew_ppm",
                                 "By how many parts in a million the clock of a server of the store runs faster or "
                                 "slower than the broker's, at the least; 0: by no more than --clock-drift allows.")),
      quorum_rounds(CountBy(in, "distlock_quorum_rounds_total",
                            "Rounds with the servers of a quorum, by kind. A lock that nobody else wants takes one "
                            "vote.",
                            "kind", kQuorumRounds)),
      quorum_nodes_counted(Level(in, "distlock_quorum_nodes_counted",
                                 "Servers of a quorum whose votes count; 0: the store is no quorum.")) {}

// Throw: a name that is used twice stops the daemon at the start, and any test that makes a Metrics.
OwnedRegistry::OwnedRegistry()
    : registry_(std::make_unique<prometheus::Registry>(prometheus::Registry::InsertBehavior::Throw)) {}

Metrics::Metrics(std::string_view version, const std::vector<std::string>& namespaces, const GrpcBuild& grpc)
    : LockMetrics(*registry_, namespaces),
      CallerMetrics(*registry_),
      StoreMetrics(*registry_),
      StoreServerMetrics(*registry_),
      loop_lag_seconds(Spread(*registry_, "distlock_loop_lag_seconds", "How late a shard's timer ran.", kLagBuckets)),
      mailbox_depth(Level(*registry_, "distlock_mailbox_depth", "Messages waiting for the shards.")),
      mailbox_rejected(
          Count(*registry_, "distlock_mailbox_rejected_total", "Messages refused because a shard's mailbox was full.")),
      draining(Level(*registry_, "distlock_draining", "1 while the broker is going down, else 0.")),
      start_time_seconds(Level(*registry_, "distlock_start_time_seconds", "When the broker started, in Unix time.")),
      build_info_(Level(*registry_, "distlock_build_info",
                        "Always 1; the labels tell the version, gRPC's, and whether that is hardened.",
                        {{"version", std::string(version)},
                         {"grpc", grpc.version},
                         {"hardened", grpc.hardened ? "true" : "false"}})) {
  build_info_.Set(1);
  start_time_seconds.SetToCurrentTime();
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().prometheus::Serializer::Serialize(registry_->Collect());
}

}  // namespace distlock
