// SPDX-License-Identifier: Apache-2.0
//
// Options to open a store of any topology. Values, const once the store is made; the callbacks run on the loop's
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/types.h"
#include "store/cluster_events.h"
#include "store/node_status.h"
#include "store/quorum_events.h"
#include "store/schema.h"
#include "store/store_url.h"

namespace distlock::store {

struct Credentials {
  std::string user;
  std::string password;
};

// Whether, and for how long, nobody is newly granted a lock after a restart or a failover: census.h.
struct HoldOffOptions {
  // kAuto: as long as a forgotten belief may last; nothing when the server cannot have forgotten any. kIfReplicated: as
  // kAuto from when the server is seen to have, or to have had, replicas; until then as kOff.
  enum class Kind : uint8_t { kOff, kAuto, kFixed, kIfReplicated };
  Kind kind = Kind::kOff;
  core::Duration fixed{};                              // kFixed
  core::Duration longest_ttl = std::chrono::hours(1);  // of any request at any broker
  // kIfReplicated: of any request from then on, so longer ones of before count as long as they are out; zero: as
  // before.
  core::Duration longest_ttl_if_replicated{};
  int nodes = 0;               // the primary and its replicas; 0: as many as are seen
  bool can_fail_over = false;  // a replica may be made the primary
  // No other server can have had the locks of this one, but one that it has been a replica of. Then a first start is
  // held off as from the start of the server's process. Not so a Cluster's node, whose slots come from others, nor one
  // of several servers, of which another machine may have the name.
  bool has_all_locks = false;
  // How long a primary that was replaced may go on granting when nothing else ends that.
  core::Duration unguarded = std::chrono::seconds(12);
  // One of several servers with data of their own: its address, as all brokers name it. Data that were written at
  // another one are never taken for complete.
  std::string server;
  std::optional<core::Duration> node_timeout;  // of a Cluster, which `unguarded` follows from, if it is known
};

// How the store keeps locks and queues.
struct LockOptions {
  std::string key_prefix = "dl";  // of every key and channel
  std::string broker_id;          // 16 lowercase hex digits; differs between all stores of all brokers
  core::Duration queue_slot = std::chrono::seconds(30);  // how long waiters of a silent broker keep their places
  uint32_t clock_drift_ppm = 500;                        // bound on the rate error of any machine's clock
  core::Duration token_keep = std::chrono::hours(24);    // how long the last token outlives its grant
  // For the locks in these namespaces, escaped, instead.
  std::map<std::string, core::Duration> token_keep_of;
  uint32_t max_waiters = 10'000;  // per lock
  // ADAPTIVE: once a waiter has waited for so long, no newcomer takes a free lock until the queue has drained.
  core::Duration fair_after = std::chrono::milliseconds(100);
  bool counts_listeners = true;  // PUBLISH counts every subscriber, as one server does: see core::StoreTraits
  HoldOffOptions hold_off;
  SchemaOptions schema;
};

struct StoreOptions {
  StoreUrl url;
  // Asked at each connect, so that a changed password is used; unset: those of the URL.
  std::function<Credentials()> credentials;
  // As `credentials`, of the sentinels; unset: none.
  std::function<Credentials()> sentinel_credentials;
  // A primary may be chosen by the sentinels that answer, when a majority of them does not.
  bool few_sentinels_suffice = true;
  core::Duration usual_ttl = std::chrono::seconds(15);  // of a lease; for warnings
  core::Duration connect_timeout = std::chrono::seconds(3);
  LockOptions locks;
  uint64_t seed = 1;  // of the back-off's jitter
  // A grant counts only once so many replicas have confirmed it; 0: none is asked.
  int wait_replicas = 0;
  core::Duration wait_timeout = std::chrono::milliseconds(100);
  // For a quorum whose servers belong to none yet: nobody can hold a lock of theirs, so they count at once.
  bool quorum_is_new = false;
  // The start-up check. kNew: the servers must not belong to a quorum yet. kReplace: they belong to this one from now
  // on, whatever they belonged to; no lock may be held.
  enum class QuorumCheck : uint8_t { kAny, kNew, kReplace };
  QuorumCheck quorum_check = QuorumCheck::kAny;
  // For kReplace: so long, or as long as the longest ttl of others if that is more, no broker may have been seen at the
  // servers; nullopt: the operator says so.
  std::optional<core::Duration> quiet_for;
  // For a quorum: a server that has not answered by then is not waited for.
  core::Duration node_timeout = std::chrono::milliseconds(200);
  // Called for each question to the replicas: how long it took, and whether enough of them confirmed.
  std::function<void(core::Duration took, bool confirmed)> on_wait;
  // Called when a server turns out to have, or to have had, replicas, with HoldOffOptions::Kind::kIfReplicated.
  std::function<void()> on_replicated;
  // Called from Store::Start on, when it has changed and about once a second while there is a hold-off.
  std::function<void(const NodeStatus&)> on_node_status;  // of several servers: for each
  ClusterEvents cluster_events;
  QuorumEvents quorum_events;
  // For the log. on_problem is called when a problem is new, for refused commands once a minute. Unavailable may pass
  // by itself; for other codes somebody has to change something. AlreadyExists: a server belongs to another quorum.
  std::function<void(const absl::Status&)> on_problem;
  std::function<void(const std::string&)> on_warning;
};

}  // namespace distlock::store
