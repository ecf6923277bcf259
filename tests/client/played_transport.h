// SPDX-License-Identifier: Apache-2.0
//
// Streams without gRPC, for the Core under ThreadSanitizer: a thread plays all brokers. It grants each lock to one at a
// time, in the order of arrival, and breaks streams when it is told to.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine.h"
#include "stream.h"

namespace distlock::internal {

class PlayedTransport final : public Transport {
 public:
  PlayedTransport() : thread_([this] { Run(); }) {}
  ~PlayedTransport() override {
    Post(nullptr);
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  std::shared_ptr<Stream> NewStream(std::shared_ptr<Engine> engine, int link, size_t broker) override {
    return std::make_shared<PlayedStream>(*this, std::move(engine), link, broker);
  }

  // Any thread. Breaks all streams, as a broker that dies.
  void BreakAll() {
    Post([this] {
      const std::set<PlayedStream*> all = streams_;
      for (PlayedStream* stream : all) stream->End();
    });
  }

 private:
  using Job = std::function<void()>;

  class PlayedStream final : public Stream, public std::enable_shared_from_this<PlayedStream> {
   public:
    PlayedStream(PlayedTransport& transport, std::shared_ptr<Engine> engine, int of_link, size_t to_broker)
        : Stream(of_link, to_broker), transport_(transport), engine_(std::move(engine)) {}

    void Start(const std::optional<std::string>&) override {
      transport_.Post([self = shared_from_this()] { self->transport_.streams_.insert(self.get()); });
      Write();
    }
    void Write() override {
      transport_.Post([self = shared_from_this()] {
        const bool ok = !self->over_;
        if (ok) self->transport_.Play(*self, *self->message);
        self->engine_->OnWritten(*self, ok);
      });
    }
    void Cancel() override {
      transport_.Post([self = shared_from_this()] { self->End(); });
    }
    void Finish() override {
      transport_.Post([self = shared_from_this()] { self->engine_->OnStreamEnd(*self, grpc::Status::OK); });
    }

    // On the transport's thread.
    void Tell(const v1::SessionResponse& response) {
      if (!over_ && !response.events().empty()) engine_->OnResponse(*this, response);
    }
    void End() {
      if (std::exchange(over_, true)) return;
      transport_.Forget(*this);
      engine_->OnReadEnd(*this);
    }

    int64_t last_seq = 0;

   private:
    PlayedTransport& transport_;
    const std::shared_ptr<Engine> engine_;
    bool over_ = false;
  };

  struct Owner {
    PlayedStream* stream;
    int64_t id;
  };

  void Post(Job job) {
    const std::lock_guard lock(mu_);
    jobs_.push_back(std::move(job));
    came_.notify_one();
  }

  void Run() {
    while (true) {
      Job job;
      {
        std::unique_lock lock(mu_);
        came_.wait(lock, [this] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      if (job == nullptr) return;
      job();
    }
  }

  void Play(PlayedStream& stream, const v1::SessionRequest& request) {
    v1::SessionResponse out;
    bool goodbye = false;
    for (const v1::SessionCommand& command : request.commands()) {
      goodbye = goodbye || command.has_goodbye();
      if (command.has_open()) {
        v1::SessionOpened& opened = *out.add_events()->mutable_opened();
        opened.mutable_validity()->set_seconds(30);
        opened.mutable_heartbeat_interval()->set_nanos(5'000'000);
      } else if (command.has_heartbeat()) {
        v1::HeartbeatAck& ack = *out.add_events()->mutable_heartbeat_ack();
        stream.last_seq = command.heartbeat().seq();
        ack.set_seq(stream.last_seq);
        ack.mutable_valid_for()->set_seconds(30);
      } else if (command.has_acquire()) {
        std::deque<Owner>& queue = locks_[command.acquire().locks(0).key()];
        queue.push_back({&stream, command.id()});
        if (queue.size() == 1) Grant(queue.front(), command.acquire().locks(0).key(), out);
      } else if (command.has_release()) {
        Remove(stream, command.release().acquire_id(), out);
        v1::SessionEvent& event = *out.add_events();
        event.set_id(command.id());
        event.mutable_released()->set_outcome(v1::RELEASE_OUTCOME_RELEASED);
      } else if (command.has_cancel()) {
        Remove(stream, command.cancel().acquire_id(), out);
        v1::SessionEvent& event = *out.add_events();
        event.set_id(command.cancel().acquire_id());
        event.mutable_refused()->set_reason(v1::REFUSAL_REASON_CANCELLED);
      } else if (command.has_downgrade()) {
        v1::SessionEvent& event = *out.add_events();
        event.set_id(command.id());
        event.mutable_downgraded();
      }
    }
    stream.Tell(out);
    for (auto& [to, theirs] : std::exchange(for_others_, {})) to->Tell(theirs);
    if (goodbye) stream.End();
  }

  void Grant(const Owner& owner, const std::string& key, v1::SessionResponse& out) {
    v1::SessionEvent& event = *out.add_events();
    event.set_id(owner.id);
    v1::Grant& grant = *event.mutable_granted();
    grant.set_key(key);
    grant.set_fencing_token(++token_);
    grant.set_lease_id("lease " + std::to_string(token_));
    grant.set_holder_id("holder " + std::to_string(token_));
    grant.set_echo_seq(owner.stream->last_seq);
    grant.mutable_valid_for()->set_seconds(30);
  }

  void Remove(const PlayedStream& stream, int64_t id, v1::SessionResponse& out) {
    for (auto& [key, queue] : locks_) {
      for (size_t i = queue.size(); i-- > 0;) {
        if (queue[i].stream != &stream || queue[i].id != id) continue;
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
        if (i > 0 || queue.empty()) continue;
        Grant(queue.front(), key, queue.front().stream == &stream ? out : for_others_[queue.front().stream]);
      }
    }
  }

  void Forget(PlayedStream& stream) {
    streams_.erase(&stream);
    for (auto& [key, queue] : locks_) {
      const bool held = !queue.empty() && queue.front().stream == &stream;
      std::erase_if(queue, [&](const Owner& owner) { return owner.stream == &stream; });
      if (held && !queue.empty()) Grant(queue.front(), key, for_others_[queue.front().stream]);
    }
    for_others_.erase(&stream);
  }

  std::mutex mu_;
  std::condition_variable came_;
  std::deque<Job> jobs_;

  // The thread's.
  std::set<PlayedStream*> streams_;
  std::map<std::string, std::deque<Owner>> locks_;
  std::map<PlayedStream*, v1::SessionResponse> for_others_;  // told after the present message
  int64_t token_ = 0;

  std::thread thread_;
};

}  // namespace distlock::internal
