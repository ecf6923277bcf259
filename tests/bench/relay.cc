// SPDX-License-Identifier: Apache-2.0
// The relay's own process.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <utility>

#include "bench/direct_slot.h"
#include "bench/load.h"

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
    if (connected() && wake_ >= 0) std::thread([this] { Run(); }).detach();
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
      redisAppendFormattedCommand(context_.get(), one.command.data(), one.command.size());
      sent_.push_back(std::move(one.answer));
    }
    int done = 0;
    while (done == 0 && redisBufferWrite(context_.get(), &done) == REDIS_OK) {
    }
  }

  void ReadAnswers() {
    if (redisBufferRead(context_.get()) != REDIS_OK) return;
    void* raw = nullptr;
    while (redisGetReplyFromReader(context_.get(), &raw) == REDIS_OK && raw != nullptr) {
      const RedisReply reply(static_cast<redisReply*>(std::exchange(raw, nullptr)));
      const auto answer = std::move(sent_.front());
      sent_.pop_front();
      answer(TextOf(*reply));
    }
  }

  const RedisConnection context_;
  const int wake_;
  std::deque<std::function<void(std::string)>> sent_;
  std::mutex mu_;
  std::vector<Asked> waiting_;  // guarded by mu_, as below
  bool woken_ = false;
};

// One stream. It reads again at once, and writes an answer when the previous one has left. Never freed: a stream lasts
// for one measurement.
class RelayedStream {
 public:
  using Step = std::function<void(bool)>;

  RelayedStream(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Upstream& upstream)
      : service_(service), queue_(queue), upstream_(upstream) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, &come_);
  }

 private:
  void OnRead() {
    grpc::Slice slice;
    if (!in_.DumpToSingleSlice(&slice).ok()) return;
    std::string command(reinterpret_cast<const char*>(slice.begin()), slice.size());
    stream_.Read(&in_, &read_);
    upstream_.Ask({std::move(command), [this](const std::string& answer) {
                     const grpc::Slice out(answer);
                     out_ = grpc::ByteBuffer(&out, 1);
                     if (unwritten_.fetch_add(1) == 0) stream_.Write(out_, &written_);
                   }});
  }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  Upstream& upstream_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  std::atomic<int> unwritten_{0};  // at most two: one command is in flight
  Step come_ = [this](bool ok) {
    if (!ok) return;
    new RelayedStream(service_, queue_, upstream_);
    stream_.Read(&in_, &read_);
  };
  Step read_ = [this](bool ok) { ok ? OnRead() : stream_.Finish(grpc::Status::OK, &finished_); };
  Step written_ = [this](bool ok) {
    if (unwritten_.fetch_sub(1) == 2 && ok) stream_.Write(out_, &written_);
  };
  Step finished_ = [](bool) {};
};

}  // namespace

int RunRelay(const std::string& listen, const std::string& redis_socket) {
  Upstream upstream(redis_socket);
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials());
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (!upstream.connected() || server == nullptr) {
    std::fprintf(stderr, "relay: no redis at %s, or cannot listen at %s\n", redis_socket.c_str(), listen.c_str());
    return 1;
  }
  new RelayedStream(service, *queue, upstream);
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) (*static_cast<RelayedStream::Step*>(tag))(ok);
  return 0;
}

}  // namespace distlock::bench
