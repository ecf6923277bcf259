// SPDX-License-Identifier: Apache-2.0
//
// One request and its answer, which may come later and from any thread; meanwhile no thread waits for it.
//
// Thread: every method on any. Owned by the server and by whoever will answer; what comes after the end of the
// connection or of the server has no effect.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "http/request.h"

struct MHD_Connection;

namespace distlock::http {

class Connections;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() = default;

  // Constant once the handler has it.
  const Request& request() const { return request_; }

  // The whole answer. The first answer counts. False: this one will not be sent.
  bool Answer(Reply reply);
  // True: no answer is awaited, or none any more.
  bool IsAnswered() const;

  // An answer that goes on, in chunks. `drained` is called each time that all that was written has left, on the
  // server's thread: it must be quick, and may call Write or End. `beat` is written when nothing was for kBeat.
  void BeginStream(Reply head, std::string beat, std::function<void()> drained);
  void Write(std::string_view bytes);
  void End();

  // `gone` is called once if the client leaves, or the server stops, before the answer is complete; at once when that
  // has happened. It must be quick.
  void OnGone(std::function<void()> gone);

  static constexpr std::chrono::seconds kBeat{15};

 private:
  friend class Server;
  friend class Connections;

  Exchange() = default;

  enum class Turn { kWait, kReply, kStream, kAbort };
  // The next step of the server's thread. kWait: the connection is suspended.
  Turn Next();
  Reply TakeReply();
  // Reads a stream's bytes into `buffer`. kNothing: the connection is suspended.
  static constexpr long kNothing = 0, kEnd = -1, kCut = -2;
  long Read(char* buffer, size_t room);

  void Attach(MHD_Connection* connection, Connections* watch);
  void Detach();         // the connection is over
  void Leave();          // the client has left
  void Stop(Reply why);  // the server stops
  void Beat(std::chrono::steady_clock::time_point now);

  // With mu_ held.
  bool IsComplete() const { return !stopped_ && (streaming_ ? ended_ : reply_.has_value()); }
  void Suspend();
  void Resume();
  // Takes the lock over, and calls gone_ without it unless the answer is complete.
  void TellGone(std::unique_lock<std::mutex> lock);

  Request request_;

  // Used by the server's thread alone.
  std::optional<std::string> authority_;  // host and port of an absolute target
  bool started_ = false;
  bool dispatched_ = false;
  bool too_large_ = false;

  mutable std::mutex mu_;
  // Guarded by mu_.
  MHD_Connection* connection_ = nullptr;  // null: not begun, or over
  Connections* watch_ = nullptr;          // as connection_
  bool suspended_ = false;
  bool over_ = false;     // nobody will get more: the client has left, the connection has ended, or the server stops
  bool stopped_ = false;  // what it was answered was not the answer
  std::optional<Reply> reply_;  // the whole answer, or the head of a stream
  bool streaming_ = false;
  bool ended_ = false;
  std::string pending_;
  bool drains_ = false;  // drained_ is due once pending_ is empty
  std::string beat_;
  std::chrono::steady_clock::time_point written_;
  std::function<void()> drained_;
  std::function<void()> gone_;
};

}  // namespace distlock::http
