// SPDX-License-Identifier: Apache-2.0
//
// The simulator's Redis (tests/sim/redis) on a shard's loop, reached without sockets: what is flushed to it is run, and
// answered, in the next turn of the loop. It begins empty, and its clock runs with the broker's.
//
// Thread: the loop's own, where libuv calls back; the transports' methods on any thread that holds the loop.
#pragma once

#include <uv.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redis/redis_model.h"
#include "store/redis/transport.h"

namespace distlock::shard {

class ModelServer : public store::Dialer, public std::enable_shared_from_this<ModelServer> {
 public:
  // The loop runs after the server's end until its handles are closed.
  static std::shared_ptr<ModelServer> Make(uv_loop_t* loop);
  // For a store on the same loop.
  store::Network network() { return {.dialer = shared_from_this(), .timers = timers_}; }

  // While it is away, it has no connection and takes none. Its data stays.
  void SetAway(bool away);
  // A store is told this of a server that is away.
  static constexpr const char* kAway = "the modelled server is away";

  std::shared_ptr<store::Transport> Dial(const store::ServerAddress& address, store::Transport::Owner* owner) override;

 private:
  class Connection;

  explicit ModelServer(uv_loop_t* loop);
  // There is something to run or to deliver.
  void Wake() { turn_->Start(core::Duration::zero()); }
  void Turn();
  void Run(int client, Connection& connection);

  const std::shared_ptr<store::Timers> timers_;
  const std::unique_ptr<store::Timer> turn_;
  sim::RedisModel model_;
  bool away_ = false;
  int last_client_ = 0;
  std::map<int, std::shared_ptr<Connection>> connections_;  // by their number at the server
};

}  // namespace distlock::shard
