// SPDX-License-Identifier: Apache-2.0
//
// What the Core needs of the network: Session calls to brokers. grpc_transport.h is the production side; tests have
// another.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command_queue.h"
#include "distlock/client.h"
#include "waiting.h"

namespace distlock::internal {

class Core;

// One Session call. Made by a Transport, ends itself; keeps the Core alive until then.
//
// It tells the Core, on threads of the transport, one call at a time: OnResponse of each message, OnWritten of each
// write, OnReadEnd once when no message comes any more, and at last OnStreamDone, which comes only after AllowFinish.
// OnWritten may also come within Write, on its thread, beside another call. The Core counts the operations that are
// being started or in flight. It calls AllowFinish when the stream is broken and none is left, and does not use the
// stream afterwards. At most one write is in flight.
class Stream {
 public:
  // `link`: of the table, that it serves.
  explicit Stream(int link) : link_(link) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual void Write(std::unique_ptr<Batch> batch) = 0;
  // In OnWritten: what was written.
  virtual std::unique_ptr<Batch> TakeWritten() = 0;
  virtual void Cancel() = 0;
  virtual void AllowFinish() = 0;
  // On the thread that tells the Core: it serves other Clients, too, or is a blocked caller's. The program's callbacks
  // must not run there.
  virtual bool SharesThread() const { return false; }
  int link() const { return link_; }

  // How the Core uses the stream. Guarded by the Core's mutex.
  struct Use {
    int operations = 1;   // being started or in flight; Start is the first
    bool writing = true;  // Start writes
    bool broken = false;
    bool ended = false;

    // True once, when the stream is broken and no operation is left. The caller then unlocks the mutex and calls
    // AllowFinish().
    bool Ends() { return broken && operations == 0 && !std::exchange(ended, true); }
  };
  Use use;

 protected:
  ~Stream() = default;

 private:
  const int link_;
};

// Makes the streams. Used by the Core's thread, and destroyed by Close after it has joined that thread.
class Transport {
 public:
  virtual ~Transport() = default;
  // Nothing is sent before Start. The Core holds its mutex.
  virtual Stream* NewStream(std::shared_ptr<Core> core, int link) = 0;
  // Opens the call, with `first` as its first message, to the broker of that number (Addresses).
  virtual void Start(Stream* stream, size_t broker, std::unique_ptr<Batch> first) = 0;
  // Null: callers that block just wait.
  virtual std::shared_ptr<Waiting> waiting() { return nullptr; }
};

// `addresses`: one for each broker, in the order of their numbers. `options` outlive the transport.
using MakeTransport =
    std::function<std::unique_ptr<Transport>(const ClientOptions& options, std::vector<std::string> addresses)>;

}  // namespace distlock::internal
