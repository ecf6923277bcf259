// SPDX-License-Identifier: Apache-2.0
#include "rpc/frame_defence.h"

#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#ifdef DISTLOCK_GRPC_HARDENED
extern "C" void distlock_grpc_on_excess(void (*hear)(const char* peer));
#endif

namespace distlock::rpc {

// Acceptors of this process.
struct ExcessListeners {
  static ExcessListeners& All() {
    static auto* const all = new ExcessListeners;
    return *all;
  }
  static void OnExcess(const char* peer) {
    const std::string name(peer);
    std::lock_guard lock(All().mu);
    for (const ExcessListener* listener : All().listening) listener->hear_(name);
  }

  std::mutex mu;
  std::vector<const ExcessListener*> listening;  // guarded by mu
};

ExcessListener::ExcessListener(std::function<void(const std::string&)> hear) : hear_(std::move(hear)) {
  auto& all = ExcessListeners::All();
  std::lock_guard lock(all.mu);
  all.listening.push_back(this);
#ifdef DISTLOCK_GRPC_HARDENED
  distlock_grpc_on_excess(&ExcessListeners::OnExcess);
#endif
}

ExcessListener::~ExcessListener() {
  auto& all = ExcessListeners::All();
  std::lock_guard lock(all.mu);
  std::erase(all.listening, this);
}

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kSelfTestPatience(10);  // on a busy machine
constexpr std::string_view kPingWord = "\1d\2i\3s\4t";

std::string FrameOf(char type, char flags, char stream, const std::string& payload) {
  const auto size = static_cast<unsigned>(payload.size());
  std::string frame = {static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8),
                       static_cast<char>(size),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream};
  return frame + payload;
}

// One block over several frames, each of them short enough; and a ping, which is answered when the block was taken.
std::string EndlessHeaders() {
  constexpr int kFrames = 5;
  constexpr int kHeaders = 600;  // each counts 34 bytes
  constexpr char kSettings = 4, kHeadersFrame = 1, kPing = 6, kContinuation = 9, kEndHeaders = 4;
  std::string headers;
  for (int i = 0; i < kHeaders; ++i) headers += std::string("\0\1a\1b", 5);
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0, "");
  bytes += FrameOf(kHeadersFrame, 0, 1, headers);
  for (int i = 1; i < kFrames; ++i) bytes += FrameOf(kContinuation, i + 1 < kFrames ? 0 : kEndHeaders, 1, headers);
  return bytes + FrameOf(kPing, 0, 0, std::string(kPingWord));
}

// Serves until `client` is closed (true) or its ping is answered (false).
bool IsClosed(grpc::ServerCompletionQueue& queue, int client) {
  const auto deadline = steady_clock::now() + kSelfTestPatience;
  std::string seen;
  while (steady_clock::now() < deadline) {
    void* tag = nullptr;
    bool ok = false;
    queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + milliseconds(1));
    std::array<char, 4096> bytes{};
    const ssize_t got = recv(client, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
    if (got > 0) seen.append(bytes.data(), static_cast<size_t>(got));
    if (seen.find(kPingWord) != seen.npos) return false;
  }
  return false;
}

bool TryEndlessHeaders() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const std::string bytes = EndlessHeaders();
  const bool sent = send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  grpc::AddInsecureChannelFromFd(server.get(), ends[0]);
  const bool closed = sent && IsClosed(*queue, ends[1]);
  close(ends[1]);
  server->Shutdown(std::chrono::system_clock::now());
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
  return closed;
}

}  // namespace

std::string GrpcVersion() { return grpc::Version(); }

bool EndsEndlessHeaders() {
  static const bool ends = TryEndlessHeaders();
  return ends;
}

}  // namespace distlock::rpc
