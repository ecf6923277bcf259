// SPDX-License-Identifier: Apache-2.0
//
// Connections over sockets, TLS included. hiredis' context does the reading, writing, parsing and TLS framing; the
// socket is opened here, so that name resolution never blocks the loop and the descriptor is close-on-exec.
//
// Thread: the loop's, which outlives the dialer. A connection is shared by its owner and the loop handles it still has,
// and the loop must run until they are closed.
#pragma once

#include <sys/socket.h>
#include <uv.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/redis/resp.h"
#include "store/redis/transport.h"
#include "store/redis/uv_timers.h"
#include "store/store_url.h"

struct ssl_st;

namespace distlock::store {

// Bytes read from a socket at once. The connections of a loop share one, since each empties it before the next reads.
// On the heap: in the storage of threads it would cost 64 KiB in every thread of the process, whatever the thread does.
struct ReadBuffer {
  std::array<char, 64u << 10> bytes;
};

class SocketDialer : public Dialer {
 public:
  // `tls`: unset for plain connections. Files are read anew for each connection.
  SocketDialer(uv_loop_t* loop, std::optional<TlsFiles> tls)
      : loop_(loop), tls_(std::move(tls)), buffer_(std::make_shared_for_overwrite<ReadBuffer>()) {}

  std::shared_ptr<Transport> Dial(const ServerAddress& address, Transport::Owner* owner) override;

 private:
  uv_loop_t* const loop_;
  const std::optional<TlsFiles> tls_;
  const std::shared_ptr<ReadBuffer> buffer_;
};

class SocketTransport : public Transport, public std::enable_shared_from_this<SocketTransport> {
 public:
  SocketTransport(uv_loop_t* loop, const ServerAddress& address, const std::optional<TlsFiles>& tls,
                  std::shared_ptr<ReadBuffer> buffer, Owner* owner);
  ~SocketTransport() override;
  SocketTransport(const SocketTransport&) = delete;
  SocketTransport& operator=(const SocketTransport&) = delete;

  // Once, after construction.
  void Begin();

  void Append(std::string_view command) override;
  void Flush() override;
  uint64_t appended() const override { return appended_; }
  uint64_t sent() const override;
  std::string AwaitedStep() const override;
  void Close() override;

 private:
  struct Poll;
  struct Resolution;
  struct Endpoint {
    sockaddr_storage storage;
    socklen_t size;
  };

  void OnResolved(int status, addrinfo* found);
  void TryNextEndpoint();
  void OnAttemptEnded(int error);
  void BecomeOpen(int fd);
  void Watch(int fd, int events);
  static void PollCallback(uv_poll_t* handle, int status, int events);
  void OnPoll(int status, int events);
  void OnOpenPoll(int events);
  bool ReadAll();
  bool DeliverReplies();
  void UpdateInterest();
  void FailSoon(std::string cause);
  void Fail(const std::string& cause);
  std::string ReadWriteCause() const;
  void DropSocket();

  // Const after construction.
  uv_loop_t* const loop_;
  const ServerAddress address_;
  const std::optional<TlsFiles> tls_files_;
  const std::shared_ptr<ReadBuffer> buffer_;

  Owner* owner_;                     // null once ended
  std::vector<Endpoint> endpoints_;  // of the address, once looked up
  size_t next_endpoint_ = 0;
  std::string last_error_;
  int connecting_fd_ = -1;
  Poll* poll_ = nullptr;
  Resolution* resolution_ = nullptr;
  redisContext* context_ = nullptr;  // once open
  ssl_st* tls_ = nullptr;            // owned by context_
  int interest_ = 0;
  uint64_t appended_ = 0;
  uint64_t attempted_ = 0;  // appended when bytes were last offered to the socket
  size_t unfinished_bytes_ = 0;
  UvTimer attempt_timer_;
  std::string pending_failure_;
  UvTimer failure_timer_;
};

}  // namespace distlock::store
