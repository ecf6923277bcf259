// SPDX-License-Identifier: Apache-2.0
//
// The stream of a program that uses the C++ library: start, messages, end and reconnect.
#include <algorithm>

#include "simulation/library_client.h"

namespace distlock::sim {

// Receives the events of one stream, until the stream is replaced.
class LibraryClient::Ears : public Listener {
 public:
  explicit Ears(LibraryClient* client) : client_(client) {}
  void OnSession(const v1::SessionResponse& response) override {
    if (client_ != nullptr) client_->OnResponse(response);
  }
  void OnStatus(const grpc::Status& status) override {
    if (client_ != nullptr) client_->stream_->status = status;
  }
  void Close() { client_ = nullptr; }

 private:
  LibraryClient* client_;
};

void LibraryClient::Connect() {
  reconnect_at_ns_ = internal::kNever;
  if (env_.dice.Chance(0.3)) MoveHome();
  BrokerProcess& broker = Home();
  if (!broker.alive()) {
    const Refusal refused{.reason = RefusalReason::kUnreachable, .message = "connection refused"};
    table_->OnStarted(Now(), std::nullopt, std::nullopt, fx_);
    table_->OnBroken(EndCause::kDisconnected, refused.message, refused, Now(), fx_, 0);
    ReconnectLater();
    return Settle();
  }
  env_.Log([&] { return name() + " opens a session with " + broker.name(); });
  stream_ = std::make_unique<Stream>();
  stream_->broker = &broker;
  stream_->wire = Wire::Connect(env_, *this, broker);
  stream_->ears = std::make_shared<Ears>(this);
  stream_->wire->on_closed[Wire::kClient] = [this, wire = stream_->wire.get()] {
    if (stream_ != nullptr && stream_->wire.get() == wire) OnStreamOver();
  };
  stream_->wire->Send(Wire::kClient, [&broker, wire = stream_->wire, ears = stream_->ears, id = stream_->id] {
    *id = broker.front().Accept(wire, ears);
  });
  table_->OnStarted(Now(), std::nullopt, std::nullopt, fx_);
  Flush();
  Settle();
}

void LibraryClient::Flush() {
  if (stream_ == nullptr || stream_->writing) return;
  const auto request = std::make_shared<v1::SessionRequest>();
  if (!table_->Pack(Now(), 0, *request)) return;
  for (v1::SessionCommand& command : *request->mutable_commands()) {
    if (!command.has_acquire()) continue;
    int64_t id = command.id();
    for (v1::LockSpec& spec : *command.mutable_acquire()->mutable_locks()) spec.set_owner(LabelOnWire(id++));
  }
  stream_->writing = true;
  const auto written = [this, wire = stream_->wire.get()] {
    if (stream_ == nullptr || stream_->wire.get() != wire) return;
    stream_->writing = false;
    Flush();
  };
  const bool buffered = env_.dice.Chance(0.8);
  if (buffered) PostAfter(env_.dice.Between(Duration(0), microseconds(100)), written);
  stream_->wire->Send(Wire::kClient,
                      [this, buffered, written, life = life(), broker = stream_->broker, id = stream_->id, request] {
                        broker->front().Session(*id, *request);
                        if (!buffered && life == this->life()) Post(written);
                      });
}

// A wish that is requested again after its stream broke is another lease to the store.
const std::string& LibraryClient::LabelOnWire(int64_t lease_id) {
  const Wish* wish = Find(asked_for_.at(lease_id));
  if (wish != nullptr) labels_[lease_id] = LabelOf(*wish);
  return labels_.at(lease_id);
}

void LibraryClient::OnResponse(const v1::SessionResponse& response) {
  const int64_t now_ns = Now();
  for (const v1::SessionEvent& event : response.events()) table_->OnEvent(event, now_ns, fx_, 0);
  if (table_->at(0).session.heard()) failures_ = 0;
  Settle();
}

void LibraryClient::OnStreamOver() {
  std::optional<Refusal> failure =
      Refusal{.reason = RefusalReason::kUnreachable, .message = "the connection was reset"};
  if (stream_->status) failure = internal::ToRefusal(*stream_->status);
  if (stream_->status && stream_->status->ok()) failure = std::nullopt;
  Break(EndCause::kDisconnected, "the stream to the broker ended", failure);
  if (leaving_) return;
  ReconnectLater();
  Settle();
}

void LibraryClient::StopListening(Stream& stream) { static_cast<Ears&>(*stream.ears).Close(); }

void LibraryClient::Break(EndCause cause, const char* why, const std::optional<Refusal>& failure) {
  env_.Log([&] { return name() + " has no session any more: " + why; });
  const std::unique_ptr<Stream> stream = std::move(stream_);
  StopListening(*stream);
  stream->wire->Close(Wire::kClient);
  table_->OnBroken(cause, why, failure, Now(), fx_, 0);
  Settle();
  for (auto& [id, wish] : wishes()) {
    if (wish.stage == Stage::kAsking && !KeepsPlace(wish)) AskAnew(wish);
  }
}

void LibraryClient::ReconnectLater() {
  const int64_t bound_ns = std::min<int64_t>(20'000'000LL << std::min(failures_, 7), 2'000'000'000);
  ++failures_;
  reconnect_at_ns_ = Now() + env_.dice.Between(Duration(0), Duration(bound_ns)).count();
}

}  // namespace distlock::sim
