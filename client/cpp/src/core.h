// SPDX-License-Identifier: Apache-2.0
//
// The inside of a Client: what guards and the kinds of locks call. They share the Core; only Close (the Client's
// destructor) ends it. Thread-safe.
//
// In a child of fork a Core does nothing and takes no mutex, since its copy may be locked for ever. The locks, the
// streams and the threads belong to the parent. There and after Close the library has no thread: a callback then gets a
// thread that ends with it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "distlock/client.h"
#include "engine.h"
#include "fork.h"

namespace distlock::internal {

class Core : public std::enable_shared_from_this<Core> {
 public:
  // Throws std::system_error when the system has no descriptor for it.
  Core(ClientOptions options, const MakeTransport& make_transport);
  void Start();
  void Close();

  // Takes all locks or none.
  RequestPtr Acquire(std::span<const SpecPtr> specs, std::optional<Duration> max_wait, AcquireCallback callback);
  void Cancel(const RequestPtr& request);
  // Calls `callback` with `refusal`, on a thread of the library.
  void Refuse(AcquireCallback callback, Refusal refusal);
  void Release(const LeasePtr& lease, ReleaseCallback callback);
  void Downgrade(const LeasePtr& lease, ChangeCallback callback);
  // Has others see `value` under this name among the lease's metadata.
  void Proclaim(const LeasePtr& lease, const std::string& name, std::string value, ChangeCallback callback);

  LockState StateOf(const LeasePtr& lease);
  std::stop_token StopToken(const LeasePtr& lease);
  std::string EndMessage(const LeasePtr& lease);
  LockMode ModeOf(const LeasePtr& lease);
  Guard GuardOf(LeasePtr lease) { return {shared_from_this(), std::move(lease)}; }

  bool connected();
  bool draining();
  const ClientOptions& options() const { return options_; }
  // REQUIRES: this is not a child of fork.
  Lookups& lookups() { return engine_->lookups(); }
  // For Awaited. Null in a child of fork.
  std::shared_ptr<Waiting> waiting() const { return Forked() ? nullptr : engine_->waiting(); }

  // True in a child of the process that made this Core.
  bool Forked() const { return ForkCount() != made_in_; }
  // Why calls are refused: the client is closed, or this is a child of fork. Nothing when calls are allowed.
  std::optional<Refusal> Unusable();

  // The program's callback, which is then called by the executor of the options, if there is one. Callbacks of the
  // library itself, which wake a blocked caller, are never left to an executor: the caller may be its only thread.
  template <class T>
  Callback<void(T)> ForProgram(Callback<void(T)> callback) const;

 private:
  // In a child of fork.
  template <class T>
  void AnswerApart(Callback<void(T)> callback, std::type_identity_t<T> answer) const;

  const ClientOptions options_;
  const uint64_t made_in_;
  const std::shared_ptr<Engine> engine_;  // null in a child that was forked while its parent used gRPC
};

template <class T>
Callback<void(T)> Core::ForProgram(Callback<void(T)> callback) const {
  if (!options_.executor || !callback) return callback;
  return [executor = options_.executor, callback = std::move(callback)](T answer) mutable {
    executor([callback = std::move(callback), answer = std::move(answer)]() mutable { callback(std::move(answer)); });
  };
}

}  // namespace distlock::internal
