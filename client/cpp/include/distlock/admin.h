// SPDX-License-Identifier: Apache-2.0
//
// Admin: for tools of operators. It speaks to the broker that the Client's read-only calls go to. Bound to a client;
// copies are cheap and equal. Thread-safe. May outlive its Client; calls are then refused with kClientClosed. Each call
// blocks its thread; refused with kWouldDeadlock in a callback of the library.
//
// Drain and ForceRelease are served on a broker's unix socket, or where its --admin-listen says: elsewhere
// kPermissionDenied.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distlock/types.h"

namespace distlock {

class Client;

namespace internal {
class Core;
}

struct BrokerStatus {
  std::string version;
  std::string broker_id;  // public; a new one at each start
  std::chrono::system_clock::time_point start_time;
  Duration uptime{0};
  std::string store_url;  // without secrets
  bool store_up = false;
  std::string store_problem;  // why it is down
  bool draining = false;
  int64_t streams = 0;
  int64_t leases = 0;
  int64_t waiters = 0;
  std::vector<std::string> listen_addresses;
  Duration validity{0};
};

enum class StreamKind { kUnknown = 0, kSession = 1, kHold = 2, kWatch = 3 };

// A stream that a client has open at the broker.
struct StreamInfo {
  std::string session_id;
  StreamKind kind = StreamKind::kUnknown;
  std::string client;  // ClientOptions::client_label
  std::string peer;
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

class Admin {
 public:
  explicit Admin(Client& client);

  Result<BrokerStatus> Status();
  Result<StreamPage> Streams(const std::string& page_token = "", int32_t page_size = 1000);

  // Takes the lock from all who hold it, or from the holder with this id, and returns from how many. It answers when
  // the last promise to them has ended, after a few seconds; kUnreachable: the outcome is not known. `reason` is for
  // the broker's log and for the holders, up to 256 bytes.
  Result<int32_t> ForceRelease(const std::string& key, const std::string& lock_namespace = "",
                               const std::string& holder_id = "", const std::string& reason = "");

  // Begins the drain of the broker. Unset: its --drain-timeout.
  Result<DrainBegun> Drain(std::optional<Duration> timeout = std::nullopt);

 private:
  std::shared_ptr<internal::Core> core_;
};

}  // namespace distlock
