// SPDX-License-Identifier: Apache-2.0
//
// Session: a Session stream on a connection of its own, as lean as gRPC allows, so that the bench measures the broker
// and not the client: commands are bytes made beforehand, events are scanned and not parsed, and commands that gather
// while a write is in flight leave together.
//
// Events reach the handler one at a time, in order, on the one thread that all sessions of this process share: with a
// thread for each, their wake-ups would be measured as the broker's time. Only the handler may call Send(); other
// threads call Do(). No mutex is held across a write. The owner of a Session sends a heartbeat every second (Pulse).
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/bidi_call.h"
#include "bench/target.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::bench {

// The parts of an event that the bench reads.
struct SeenEvent {
  int64_t id = 0;
  v1::SessionEvent::EventCase kind = v1::SessionEvent::EVENT_NOT_SET;
  int64_t token = 0;       // granted
  int64_t outcome = 0;     // released
  std::string_view bytes;  // the whole event, for a message about an unexpected one
};

// The thread of all streams and calls of this process.
internal::CallThread& SharedCallThread();

// Gives each client a connection of its own.
grpc::ChannelArguments OwnConnection();

// A message of these bytes.
grpc::ByteBuffer Bytes(const std::string& text);

// Bytes of one command, ready for Session::Send.
std::string Encode(const v1::SessionCommand& command);
std::string EncodeAcquire(int64_t id, const v1::LockSpec& spec);
std::string EncodeRelease(int64_t id, int64_t acquire_id);

// One try for `key` with the broker's default ttl; or, with `wait`, until granted.
v1::LockSpec Spec(const std::string& key, bool wait = false);

// Describes an unexpected event, for an error message.
std::string Describe(const SeenEvent& event);

class Session final : public BidiCall<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  using Handler = std::function<void(Session&, const SeenEvent&)>;

  // Connects and opens. The handler sees neither Opened nor HeartbeatAck.
  Session(const Target& target, Handler handler);
  ~Session() override;  // Close()

  // Throws std::runtime_error when the session is not open after 10 s.
  void WaitOpened();

  void Send(std::string_view command);
  void Do(const std::function<void(Session&)>& action);
  void Beat();

  void Goodbye();  // once; Close() calls it, too
  // Says goodbye and waits for the end of the stream. Returns the problem; "": none.
  std::string Close(std::chrono::seconds patience = std::chrono::seconds(10));

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void End();    // nothing more will be read
  void Write();  // the next chunk, unless one is in flight

  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  const Handler handler_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;  // chunks not written yet; guarded by mu_, as all below
  std::vector<std::string> spare_;   // empty chunks, kept for their memory
  bool writing_ = false;
  bool opened_ = false;
  bool closing_ = false;
  bool ended_ = false;
  bool done_ = false;
  bool failed_ = false;
  int64_t beats_ = 0;
  grpc::Status status_;
};

// Sends the heartbeats of `sessions`, which must outlive it, on a thread of its own.
class Pulse {
 public:
  explicit Pulse(std::vector<Session*> sessions);
  ~Pulse();

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

// Opens `count` sessions in parallel; throws as WaitOpened does. make(i) gives a Session.
template <typename Make>
std::vector<std::unique_ptr<Session>> OpenSessions(size_t count, Make make) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < count; ++i) sessions.push_back(make(i));
  for (const auto& session : sessions) session->WaitOpened();
  return sessions;
}

std::vector<Session*> Pointers(const std::vector<std::unique_ptr<Session>>& sessions);

}  // namespace distlock::bench
