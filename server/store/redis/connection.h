// SPDX-License-Identifier: Apache-2.0
//
// One connection to the server, from connect to its end: bytes out, replies in. It knows RESP framing and nothing of
// what commands mean. hiredis' context does the reading, writing, parsing and TLS framing; the socket is opened here,
// so that name resolution never blocks the loop and the descriptor is close-on-exec.
//
// Thread: the loop's. Lifetime: shared by its owner and the loop handles it still has, so it may be closed from within
// its own callbacks. Invariants: OnConnected at most once; OnClosed at most once, never from within Open, Append or
// Flush, and nothing after OnClosed or Close().
#pragma once

#include <sys/socket.h>
#include <uv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/loop_timer.h"
#include "store/redis/resp.h"
#include "store/store_url.h"

struct ssl_st;

namespace distlock::store {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnConnected() = 0;
    virtual void OnReply(ReplyPtr reply) = 0;
    virtual void OnClosed(const std::string& cause) = 0;
  };

  static std::shared_ptr<Connection> Open(uv_loop_t* loop, const StoreUrl& url, Owner* owner);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Only between OnConnected and the end.
  void Append(std::string_view command);
  // Writes at once what the socket takes; the rest follows when there is room.
  void Flush();

  // Bytes appended so far, and how many of them may have left. What lies beyond sent() surely has not.
  uint64_t appended() const { return appended_; }
  uint64_t sent() const;

  void Close();

 private:
  struct Poll;
  struct Resolution;
  struct Address {
    sockaddr_storage storage;
    socklen_t size;
  };

  Connection(uv_loop_t* loop, const StoreUrl& url, Owner* owner);
  void Begin();
  void OnResolved(int status, addrinfo* found);
  void TryNextAddress();
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
  const StoreUrl url_;

  Owner* owner_;  // null once ended
  std::vector<Address> addresses_;
  size_t next_address_ = 0;
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
  LoopTimer attempt_timer_;
  std::string pending_failure_;
  LoopTimer failure_timer_;
};

}  // namespace distlock::store
