// SPDX-License-Identifier: Apache-2.0
#include "model_server.h"

#include <chrono>
#include <utility>

#include "redis/reply_sink.h"
#include "store/redis/uv_timers.h"

namespace distlock::shard {
namespace {

// Added to the broker's clock: the scripts expect a time of our days.
constexpr core::Duration kEpoch = std::chrono::hours(400'000);

store::ReplyPtr MessageOf(std::string_view channel, std::string_view payload) {
  sim::ReplyTree reply;
  reply.Array(3);
  reply.Bulk("message");
  reply.Bulk(channel);
  reply.Bulk(payload);
  return reply.Take();
}

}  // namespace

class ModelServer::Connection : public store::Transport {
 public:
  Connection(ModelServer& server, Owner* owner) : server_(server), owner_(owner) {}

  void Append(std::string_view command) override {
    if (owner_ == nullptr || !connected_) return;
    appended_ += command.size();
    waiting_ += command;
  }
  void Flush() override {
    if (sent_ == appended_) return;
    sent_ = appended_;
    flushed_ += std::exchange(waiting_, {});
    server_.Wake();
  }
  uint64_t appended() const override { return appended_; }
  uint64_t sent() const override { return sent_; }
  void Close() override { owner_ = nullptr; }

  bool is_over() const { return owner_ == nullptr; }
  bool connected() const { return connected_; }
  void Connect() {
    connected_ = true;
    owner_->OnConnected();
  }
  void Fail(const char* cause) {
    if (owner_ != nullptr) std::exchange(owner_, nullptr)->OnClosed(cause);
  }
  std::string TakeFlushed() { return std::exchange(flushed_, {}); }
  void Send(store::ReplyPtr reply) { replies_.push_back(std::move(reply)); }
  // To the owner, which may close the connection in between.
  void Deliver() {
    while (owner_ != nullptr && !replies_.empty()) {
      store::ReplyPtr reply = std::move(replies_.front());
      replies_.pop_front();
      owner_->OnReply(std::move(reply));
    }
  }

 private:
  ModelServer& server_;
  Owner* owner_;  // null once it is over
  bool connected_ = false;
  uint64_t appended_ = 0;
  uint64_t sent_ = 0;
  std::string waiting_;  // appended and not flushed
  std::string flushed_;  // and not run
  std::deque<store::ReplyPtr> replies_;
};

std::shared_ptr<ModelServer> ModelServer::Make(uv_loop_t* loop) {
  return std::shared_ptr<ModelServer>(new ModelServer(loop));
}

ModelServer::ModelServer(uv_loop_t* loop)
    : timers_(std::make_shared<store::UvTimers>(loop)), turn_(timers_->Make([this] { Turn(); })) {
  model_.OnMessage([this](int client, std::string_view channel, std::string_view payload) {
    connections_.at(client)->Send(MessageOf(channel, payload));
  });
}

std::shared_ptr<store::Transport> ModelServer::Dial(const store::ServerAddress&, store::Transport::Owner* owner) {
  auto connection = std::make_shared<Connection>(*this, owner);
  connections_.emplace(++last_client_, connection);
  Wake();
  return connection;
}

void ModelServer::SetAway(bool away) {
  away_ = away;
  Wake();
}

void ModelServer::Turn() {
  const auto now = timers_->Now().time_since_epoch() + kEpoch;
  model_.Advance(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  // A store that is told something may make and close connections.
  const auto connections = connections_;
  for (const auto& [client, connection] : connections) {
    if (away_) {
      connection->Fail(kAway);
    } else {
      Run(client, *connection);
    }
    if (!connection->is_over()) continue;
    model_.Disconnect(client);
    connections_.erase(client);
  }
  for (const auto& [client, connection] : connections) connection->Deliver();
}

// Bytes flushed before the connection was closed still arrive.
void ModelServer::Run(int client, Connection& connection) {
  if (!connection.is_over() && !connection.connected()) connection.Connect();
  const std::string bytes = connection.TakeFlushed();
  std::string_view left = bytes;
  for (sim::Argv argv = sim::ParseCommand(left); !argv.empty(); argv = sim::ParseCommand(left)) {
    connection.Send(model_.Execute(client, argv));
  }
}

}  // namespace distlock::shard
