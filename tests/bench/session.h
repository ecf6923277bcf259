// SPDX-License-Identifier: Apache-2.0
//
// Session: a Session stream on a connection of its own, as lean as gRPC allows, so that the bench measures the broker
// and not the client: commands are bytes made beforehand, and those that gather while a write is in flight leave
// together.
//
// Events reach the handler one at a time, in order, on the one thread that all streams of this process share: with a
// thread for each, their wake-ups would be measured as the broker's time. Only the handler may call Send(); other
// threads call Do(). No mutex is held across a write.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/bidi_call.h"
#include "bench/load.h"
#include "distlock/v1/lock_service.grpc.pb.h"

namespace distlock::bench {

// The thread of all streams of this process.
internal::CallThread& SharedCallThread();

// Gives each client a connection of its own.
grpc::ChannelArguments OwnConnection();

// A message of these bytes.
grpc::ByteBuffer Bytes(const std::string& text);

// Bytes of one command, ready for Session::Send.
std::string EncodeAcquire(int64_t id, const v1::LockSpec& spec);
std::string EncodeRelease(int64_t id, int64_t acquire_id);

bool IsReleased(const v1::SessionEvent& event);

class Session final : public BidiCall<grpc::ByteBuffer, v1::SessionResponse> {
 public:
  using Handler = std::function<void(Session&, const v1::SessionEvent&)>;

  // Connects and opens. The handler sees neither Opened nor HeartbeatAck. An end that was not asked for fails
  // `problem`.
  Session(const std::string& target, Handler handler, Problem& problem);

  // Throws std::runtime_error when the session is not open after kPatience.
  void WaitOpened();

  void Send(std::string_view command);
  void Do(const std::function<void(Session&)>& action);
  void Beat();
  void Goodbye();
  void WaitEnded(std::chrono::seconds patience);  // after Goodbye()

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Hear();   // what was read
  void Write();  // what waits, unless a write is in flight

  grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::SessionResponse> stub_;
  const Handler handler_;
  Problem& problem_;
  v1::SessionResponse in_;
  grpc::ByteBuffer out_;

  std::mutex mu_;
  std::condition_variable changed_;
  std::string waiting_;  // not written yet; guarded by mu_, as all below
  bool writing_ = true;
  bool opened_ = false;
  bool closing_ = false;
  bool ended_ = false;  // nothing more will be read
  bool done_ = false;
  int64_t beats_ = 0;
};

// Open sessions and their heartbeats, which a thread of its own sends.
class Sessions {
 public:
  // make(i) gives a Session. Throws as WaitOpened does.
  Sessions(size_t count, const std::function<std::unique_ptr<Session>(size_t)>& make);
  ~Sessions();  // Close()

  Session& operator[](size_t i) { return *sessions_[i]; }
  size_t size() const { return sessions_.size(); }
  // Says goodbye for all, and waits for the ends of their streams.
  void Close(std::chrono::seconds patience = kPatience);

 private:
  void Beat();

  std::mutex mu_;  // taken before a session's own lock, never inside it
  std::condition_variable changed_;
  bool stop_ = false;                               // guarded by mu_
  std::vector<std::unique_ptr<Session>> sessions_;  // grows and shrinks under mu_
  std::thread pulse_;
};

}  // namespace distlock::bench
