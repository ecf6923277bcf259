// SPDX-License-Identifier: Apache-2.0
//
// The seam between what speaks to a Redis server and what carries it: connections and timers. Production has sockets
// and a uv loop (socket_dialer.h, uv_timers.h); the simulator has wires and virtual time. Everything else in this
// folder has no clock, thread, socket or randomness of its own.
//
// Thread: all calls and callbacks on the thread that this module calls the loop's, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/types.h"
#include "store/redis/resp.h"
#include "store/store_url.h"

namespace distlock::store {

// One connection to one server, from the attempt to connect to its end. Bytes of commands go out in order, replies come
// in in order. Shared, so that it may be closed from within its own callbacks.
class Transport {
 public:
  // OnConnected comes at most once, OnReply only after it. OnClosed comes at most once and is the last. None of them
  // comes from within Dial, Append, Flush or Close, and none after Close. An owner may call Close from any of them.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnConnected() = 0;
    virtual void OnReply(ReplyPtr reply) = 0;
    // The connection, or the attempt at one, has failed. `cause` is for people.
    virtual void OnClosed(const std::string& cause) = 0;
  };

  virtual ~Transport() = default;

  // One whole command in RESP. Only between OnConnected and the end; otherwise it does nothing.
  virtual void Append(std::string_view command) = 0;
  // Offers what was appended to the network now. What it does not take follows by itself.
  virtual void Flush() = 0;

  // Bytes appended so far, and how many of them may have reached the server. Bytes beyond sent() surely have not: a
  // command that ends there has not run, even after Close.
  virtual uint64_t appended() const = 0;
  virtual uint64_t sent() const = 0;

  // The awaited step of the connection, for people; "" when it does not know.
  virtual std::string AwaitedStep() const { return ""; }

  // The owner wants no more and may be destroyed.
  virtual void Close() = 0;
};

class Dialer {
 public:
  virtual ~Dialer() = default;

  // Begins to connect: looks up the name, tries its addresses, does the TLS handshake. The owner outlives the
  // connection or closes it.
  virtual std::shared_ptr<Transport> Dial(const ServerAddress& address, Transport::Owner* owner) = 0;
};

// A one-shot timer. After destruction it never fires; its callback may destroy it.
class Timer {
 public:
  virtual ~Timer() = default;
  // Fires once, `delay` from now or later, never from within Start. Replaces an earlier Start.
  virtual void Start(core::Duration delay) = 0;
  virtual void Stop() = 0;
  // Started, and has neither fired nor been stopped.
  virtual bool active() const = 0;
};

class Timers {
 public:
  virtual ~Timers() = default;
  // The broker's clock. Never goes back.
  virtual core::Instant Now() const = 0;
  virtual std::unique_ptr<Timer> Make(std::function<void()> fire) = 0;
};

// The world of a store of Redis servers.
struct Network {
  std::shared_ptr<Dialer> dialer;
  std::shared_ptr<Timers> timers;
};

}  // namespace distlock::store
