// SPDX-License-Identifier: Apache-2.0
//
// A private real server, on a unix socket in a temporary folder, whose wall clock stands at the time that the test
// sets; and a blocking connection to it. One thread.
#pragma once

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "redis/redis_model.h"
#include "store/redis/resp.h"

namespace distlock::sim {

class RealServer {
 public:
  // Runs `binary`; throws std::runtime_error when it does not answer within 20 s. Keys expire only when they are
  // accessed.
  explicit RealServer(const std::string& binary);
  ~RealServer();
  RealServer(const RealServer&) = delete;
  RealServer& operator=(const RealServer&) = delete;

  // Sets the server's time; > 0.
  void SetClock(int64_t now_us);
  const std::string& socket() const { return socket_; }

 private:
  void MapClock();
  void Start(const std::string& binary);

  std::string folder_;
  std::string socket_;
  int64_t* clock_ = nullptr;  // shared with the clock shim: frozen, offset
  pid_t process_ = -1;
};

class Connection {
 public:
  explicit Connection(const std::string& socket);

  void Send(const Argv& argv);
  // Null when no reply has come within 5 s or the connection is broken.
  store::ReplyPtr Receive();
  store::ReplyPtr Do(const Argv& argv);
  bool good() const { return context_ != nullptr && context_->err == 0; }

 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace distlock::sim
