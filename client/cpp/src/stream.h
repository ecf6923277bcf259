// SPDX-License-Identifier: Apache-2.0
//
// The Engine's view of the network: Session calls to brokers. grpc_transport.h is the production side; tests have
// another.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distlock/client.h"
#include "distlock/v1/lock_service.pb.h"
#include "effects.h"
#include "reused_message.h"
#include "waiting.h"

namespace distlock::internal {

class Engine;

// One Session call. Whoever is to tell the Engine something keeps both alive until then.
//
// It tells the Engine, on threads of the transport, one call at a time: OnResponse of each message, OnWritten of each
// write, OnReadEnd once when no message comes any more, and OnStreamEnd once, after Finish. OnWritten may also come
// within Write, on its thread, beside another call.
class Stream {
 public:
  // `link`: of the table, that it serves. `broker`: its number (Addresses).
  Stream(int link_, size_t broker_) : link(link_), broker(broker_) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Opens the call. `proof`: what it shows the broker, if anything. Once, before all else.
  virtual void Start(const std::optional<std::string>& proof) = 0;
  // Sends `message`. At most one write is in flight; meanwhile the message is the stream's.
  virtual void Write() = 0;
  virtual void Cancel() = 0;
  // Once, when no message comes any more, and no write is in flight nor will be.
  virtual void Finish() = 0;
  // On the thread that tells the Engine: it serves other Clients, too, or is a blocked caller's. The program's
  // callbacks must not run there.
  virtual bool SharesThread() const { return false; }

  const int link;
  const size_t broker;
  ReusedMessage<v1::SessionRequest> message;  // while `writing` is false: the Engine's, which packs it
  Effects fx;                                 // of the thread that tells the Engine
  // The Engine's, guarded by its mutex.
  bool writing = false;
  bool read_ended = false;
};

// Makes the streams. Used by the Engine's thread, and destroyed by Close after it has joined that thread.
class Transport {
 public:
  virtual ~Transport() = default;
  // Does nothing yet: the Engine holds its mutex.
  virtual std::shared_ptr<Stream> NewStream(std::shared_ptr<Engine> engine, int link, size_t broker) = 0;
  // Null: callers that block just wait.
  virtual std::shared_ptr<Waiting> waiting() { return nullptr; }
};

// `addresses`: one for each broker, in the order of their numbers. `options` outlive the transport.
using MakeTransport =
    std::function<std::unique_ptr<Transport>(const ClientOptions& options, const std::vector<std::string>& addresses)>;

}  // namespace distlock::internal
