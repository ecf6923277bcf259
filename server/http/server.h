// SPDX-License-Identifier: Apache-2.0
//
// An HTTP/1.1 server with one thread for all connections, and one that watches them: a request must arrive whole within
// a time, and a client that leaves while its answer is awaited is noticed at once.
//
// Owned by main or by a part of it. The handler runs on the server's thread, so it must be quick; it may keep
// the exchange and answer later.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "http/exchange.h"

namespace distlock::http {

struct ServerOptions {
  std::string address;  // unix:///path, or host:port as --listen has it; port 0: the kernel chooses
  // Whose requests are served at a time: in all, and of one peer (an IPv4 address, the /64 of an IPv6 address, a user
  // of a unix socket; 0: half of all). Others are answered with 503.
  unsigned max_connections = 1024;
  unsigned max_connections_per_peer = 0;
  // Beyond these, half of them for one peer: for those that are told 503. Where there are more, whichever has awaited a
  // request the longest is closed, of the same peer where that one has its share.
  unsigned spare_connections = 0;
  size_t max_body_bytes = 0;
  size_t connection_bytes = 32 * 1024;           // memory for the head of a request and of its answer
  std::chrono::milliseconds request_time{5000};  // a whole request, from the connection's begin
  // A whole request, from the end of the one before. Clients are told (Keep-Alive) how long they may wait with it:
  // longer than balancers keep their connections, which is 60 s or a little more.
  std::chrono::milliseconds idle_time{80'000};
  unsigned send_seconds = 20;  // of an answer, without a byte that the client takes
  // Makes the answer of this server's own errors: 413, and 503 when it is full or stops. Unset: a line of text.
  std::function<Reply(int status, const std::string& message)> error;
};

class Server {
 public:
  using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

  // The error is one line, without the name of an option.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Handler handler);
  // Ends what is open: answers that are awaited become a 503 that says so. Returns when no handler runs any more.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // From now on each answer is the last one of its connection, and says so: clients go elsewhere. Any thread.
  void AnnounceEnd();

  // As bound: host:port with the port that the kernel chose, or unix:///path.
  const std::string& address() const;
  int port() const;  // 0 of a unix socket

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace distlock::http
