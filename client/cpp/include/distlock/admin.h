// SPDX-License-Identifier: Apache-2.0
//
// Admin: for tools of operators. It speaks to the broker that the Client's other calls with one answer go to; to name
// that broker, give the Client one address. Bound to a client; copies are cheap and equal. Thread-safe. May outlive its
// Client; calls are then refused with kClientClosed. Each call blocks its thread, within ClientOptions::call_timeout
// where nothing else is said; refused with kWouldDeadlock in a callback of the library.
//
// Drain and ForceRelease are served on a broker's unix socket, or where its --admin-listen says: elsewhere
// kPermissionDenied. A broker that is older than a call refuses it with kNotSupported.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "distlock/types.h"

namespace distlock {

class Client;

namespace internal {
class Core;
}

// The work of a server of the store for the broker.
enum class StoreNodeState {
  kDown = 1,     // it cannot be used
  kUp = 2,       // leases are granted and renewed
  kHeldOff = 3,  // leases are renewed, none is granted; an independent one: it is asked, but not counted
};

struct StoreReplica {
  std::string address;
  bool online = false;  // it has all that its server had when it joined
  Duration lag{0};      // since it last confirmed what it has; whole seconds
};

// A server that keeps locks, as the broker's connections see it.
struct StoreNode {
  std::string address;  // host:port, or the path of its socket
  StoreNodeState state = StoreNodeState::kDown;
  std::string problem;  // why it is down
  std::string refusal;  // up, but it refuses the broker's writes: its words; "": it takes them
  std::string role;     // as it says itself: "master"
  std::string version;
  std::string identity;                   // changes with each restart and failover; "": it was not up yet
  int64_t epoch = 0;                      // of the sentinels' choice of it; 0: no sentinels
  std::optional<Duration> hold_off_left;  // kHeldOff: unset while its end is not known
  std::string guard;                      // what bounds a hold-off, for people; "": hold-offs are off
  std::vector<StoreReplica> replicas;     // known while hold-offs are on
  int64_t primary_changes = 0;            // times that it was another server, or another run of it
  bool independent = false;               // one of several, of which most decide
  std::string not_counted;                // independent: why its votes do not count now; "": they do
  std::optional<Duration> clock_skew;     // quorum or Cluster: how far ahead of the median, or (negative) behind
};

struct BrokerStatus {
  std::string version;
  std::string broker_id;  // public; a new one at each start
  std::chrono::system_clock::time_point start_time;
  Duration uptime{0};
  std::string store_url;  // without secrets
  bool store_up = false;
  std::string store_problem;  // why it is down
  std::string store_refusal;  // up, but it takes no writes: why, and nobody is granted a lock; "": it takes them
  bool draining = false;
  int64_t streams = 0;
  int64_t leases = 0;
  int64_t waiters = 0;
  int32_t shards = 0;  // threads that the locks are spread over
  std::vector<std::string> listen_addresses;
  Duration validity{0};  // the longest promise to a client
  std::vector<StoreNode> store_nodes;
  int32_t wait_replicas = 0;      // so many replicas confirm each grant before it counts
  int64_t policy_generation = 0;  // counts what was read of policy, tokens and keys; 0: nobody's identity is asked for
};

enum class StreamKind { kUnknown = 0, kSession = 1, kHold = 2, kWatch = 3 };

// A stream that a client has open at the broker.
struct StreamInfo {
  std::string session_id;
  StreamKind kind = StreamKind::kUnknown;
  std::string client;  // ClientOptions::client_label
  std::string peer;
  std::string identity;  // what the caller has proven to be; "": the broker asks nobody
  std::chrono::system_clock::time_point open_time;
  int32_t leases = 0;
  int32_t waiters = 0;
};

struct StreamPage {
  std::vector<StreamInfo> streams;  // oldest first
  std::string next_page_token;      // "": the end
};

struct DrainBegun {
  Duration timeout{0};  // in force
  int64_t leases = 0;   // still held through the broker
};

// A caller's wish, by the words of the broker's policy.
struct AccessQuestion {
  std::string verb;  // such as exclusive, look or drain; "": none, the rights are all that is wanted
  // For a verb of locks: the lock, or with `prefix` all locks whose keys begin with `key`. The namespace kAllNamespaces
  // (inspect.h) with `prefix` is all locks.
  std::string lock_namespace;
  std::string key;
  bool prefix = false;
  std::string principal;  // whose rights, such as k8s:shop/worker, or anonymous; "": the caller's own
};

// The right to one verb.
struct AccessRight {
  std::string verb;
  std::vector<std::string> locks;         // patterns as in the policy, at most 100; empty for a verb of the broker
  std::vector<std::string> denied_locks;  // patterns that win over those, at most 100
};

struct AccessAnswer {
  bool allowed = false;             // also true when the broker asks nobody for an identity
  std::string rule;                 // that decides; "": no rule allows it
  std::string identity;             // whose rights these are; "": the broker asks nobody
  std::vector<AccessRight> rights;  // all verbs that are allowed for something
  std::string obstacle;             // why the call is refused at this address, whatever the policy says; "": it is not
};

// A part of the broker's configuration that was to be read again.
struct ReloadedUnit {
  std::string unit;       // such as policy, tokens or jwt-keys
  bool reloaded = false;  // false: the file is wrong, and the old content is in force
  std::string problem;    // why: file, line and what to do
};

class Admin {
 public:
  explicit Admin(Client& client);

  Result<BrokerStatus> Status();
  Result<StreamPage> Streams(const std::string& page_token = "", int32_t page_size = 1000);

  // Takes the lock from all who hold it, or from the holder with this id, and returns from how many. It answers when
  // the last promise to them has ended, after a few seconds: 30 s are allowed beside call_timeout. kUnreachable with an
  // empty cause: the outcome is not known. `reason` is for the broker's log and for the holders, up to 256 bytes.
  Result<int32_t> ForceRelease(const std::string& key, const std::string& lock_namespace = "",
                               const std::string& holder_id = "", const std::string& reason = "");

  // Begins the drain of the broker. Unset: its --drain-timeout. Repeating it is harmless.
  Result<DrainBegun> Drain(std::optional<Duration> timeout = std::nullopt);

  // Waits until the broker with this id has gone: nobody listens at its address any more, or another broker answers
  // there; nothing on success. kUnreachable: it is still there, but has not answered for as long as
  // ClientOptions::call_timeout, so it may still run. kCancelled: `stop` was requested.
  std::optional<Refusal> WaitUntilGone(const std::string& broker_id, std::stop_token stop = {});

  // Whether the policy in force allows something. Nothing is done. Everybody may ask for itself.
  Result<AccessAnswer> CheckAccess(const AccessQuestion& question);

  // Has the broker read its policy, tokens and keys again, and says what came of each.
  Result<std::vector<ReloadedUnit>> Reload();

  // Changes of the store as a whole, which the first broker of the address that answers makes. The answer says why
  // nothing was changed, and what to do next; "": it is done. Three minutes are allowed. kUnreachable with an empty
  // cause: the outcome is not known; repeating them is harmless.
  Result<std::string> UpgradeStore(int32_t to);  // the schema to write from now on
  Result<std::string> InitQuorum(bool all_brokers_stopped = false);

 private:
  std::shared_ptr<internal::Core> core_;
};

}  // namespace distlock
