// SPDX-License-Identifier: Apache-2.0
// The relay's own process.
#include "bench/relay.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace distlock::bench {
namespace {

struct Asked {
  std::string command;
  std::function<void(std::string)> answer;
};

// One connection and its thread: commands that have gathered leave in one write.
class Upstream {
 public:
  explicit Upstream(const std::string& path) : context_(redisConnectUnix(path.c_str())), wake_(eventfd(0, 0)) {
    if (context_ == nullptr || context_->err != 0 || wake_ < 0) return;
    thread_ = std::thread([this] { Run(); });
    thread_.detach();
  }

  bool connected() const { return context_ != nullptr && context_->err == 0; }

  void Ask(Asked asked) {
    std::lock_guard lock(mu_);
    waiting_.push_back(std::move(asked));
    if (std::exchange(woken_, true)) return;
    const uint64_t one = 1;
    if (write(wake_, &one, sizeof one) < 0) std::perror("eventfd");
  }

 private:
  void Run() {
    pollfd polled[2] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                        {.fd = context_->fd, .events = POLLIN, .revents = 0}};
    while (connected()) {
      if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
      if (polled[1].revents != 0) ReadAnswers();
      if (polled[0].revents != 0) SendWaiting();
    }
    std::fprintf(stderr, "relay: redis: %s\n", context_->errstr);
    std::_Exit(1);
  }

  void SendWaiting() {
    uint64_t count = 0;
    if (read(wake_, &count, sizeof count) < 0) return;
    std::vector<Asked> asked;
    {
      std::lock_guard lock(mu_);
      asked.swap(waiting_);
      woken_ = false;
    }
    for (Asked& one : asked) {
      redisAppendFormattedCommand(context_, one.command.data(), one.command.size());
      sent_.push_back(std::move(one.answer));
    }
    int done = 0;
    while (done == 0 && redisBufferWrite(context_, &done) == REDIS_OK) {
    }
  }

  void ReadAnswers() {
    if (redisBufferRead(context_) != REDIS_OK) return;
    void* raw = nullptr;
    while (redisGetReplyFromReader(context_, &raw) == REDIS_OK && raw != nullptr) {
      const RedisReply reply(static_cast<redisReply*>(std::exchange(raw, nullptr)));
      const auto answer = std::move(sent_.front());
      sent_.pop_front();
      answer(reply->str != nullptr ? std::string(reply->str, reply->len) : std::to_string(reply->integer));
    }
  }

  redisContext* const context_;
  const int wake_;
  std::thread thread_;
  std::deque<std::function<void(std::string)>> sent_;
  std::mutex mu_;
  std::vector<Asked> waiting_;  // guarded by mu_, as below
  bool woken_ = false;
};

// One call. A stream reads again at once, and writes an answer when the previous one has left; it is never freed, since
// a relay lives for one measurement. A unary call ends with its answer.
class RelayedCall {
 public:
  RelayedCall(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Upstream& upstream)
      : service_(service), queue_(queue), upstream_(upstream) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, &come_);
  }

  using Step = std::function<void(bool)>;

 private:
  void OnRead() {
    grpc::Slice slice;
    if (!in_.DumpToSingleSlice(&slice).ok()) return;
    std::string command(reinterpret_cast<const char*>(slice.begin()), slice.size());
    if (!is_unary_) stream_.Read(&in_, &read_);
    if (context_.method() == kRelayEcho) return Write(command);
    upstream_.Ask({std::move(command), [this](const std::string& answer) { Write(answer); }});
  }

  void Write(const std::string& answer) {
    const grpc::Slice slice(answer);
    out_ = grpc::ByteBuffer(&slice, 1);
    if (is_unary_) return stream_.WriteAndFinish(out_, grpc::WriteOptions(), grpc::Status::OK, &finished_);
    if (unwritten_.fetch_add(1) == 0) stream_.Write(out_, &written_);
  }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  Upstream& upstream_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  bool is_unary_ = false;
  std::atomic<int> unwritten_{0};  // at most two: one command is in flight
  Step come_ = [this](bool ok) {
    if (!ok) return;
    new RelayedCall(service_, queue_, upstream_);
    is_unary_ = context_.method() == kRelayUnary;
    stream_.Read(&in_, &read_);
  };
  Step read_ = [this](bool ok) { ok ? OnRead() : stream_.Finish(grpc::Status::OK, &finished_); };
  Step written_ = [this](bool ok) {
    if (unwritten_.fetch_sub(1) == 2 && ok) stream_.Write(out_, &written_);
  };
  Step finished_ = [this](bool) {
    if (is_unary_) delete this;
  };
};

}  // namespace

int RunRelay(const std::string& listen, const std::string& redis_socket) {
  Upstream upstream(redis_socket);
  if (!upstream.connected()) {
    std::fprintf(stderr, "relay: no redis at %s\n", redis_socket.c_str());
    return 1;
  }
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials());
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  new RelayedCall(service, *queue, upstream);
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) (*static_cast<RelayedCall::Step*>(tag))(ok);
  return 0;
}

}  // namespace distlock::bench
