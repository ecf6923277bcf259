// SPDX-License-Identifier: Apache-2.0
#include "store/redis/socket_dialer.h"

#include <fcntl.h>
#include <hiredis/hiredis_ssl.h>
#include <hiredis/sds.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "store/redis/tls.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// A name may have several addresses, and one of them may be a black hole: the next one is tried after this long.
constexpr std::chrono::seconds kAddressPatience{1};
// Far above any reply that our commands have (a page of SCAN, a long queue).
constexpr size_t kMaxReplyBytes = 16u << 20;
constexpr long long kMaxReplyElements = 100'000;
// So that one connection does not keep the loop for itself.
constexpr int kMaxChunksPerTurn = 16;

// hiredis writes with send(2) without MSG_NOSIGNAL, and OpenSSL with write(2): both would raise SIGPIPE.
void IgnoreSigpipe() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction old{};
    if (sigaction(SIGPIPE, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
  });
}

void SetTcpOptions(int fd) {
  const auto set = [fd](int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof(value)); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

// The loop's handle of one socket. The loop frees it when it has closed it.
struct SocketTransport::Poll {
  uv_poll_t handle{};
  std::shared_ptr<SocketTransport> connection;
};

struct SocketTransport::Resolution {
  uv_getaddrinfo_t request{};
  std::shared_ptr<SocketTransport> connection;
};

std::shared_ptr<Transport> SocketDialer::Dial(const ServerAddress& address, Transport::Owner* owner) {
  IgnoreSigpipe();
  auto transport = std::make_shared<SocketTransport>(loop_, address, tls_, buffer_, owner);
  transport->Begin();
  return transport;
}

SocketTransport::SocketTransport(uv_loop_t* loop, const ServerAddress& address, const std::optional<TlsFiles>& tls,
                                 std::shared_ptr<ReadBuffer> buffer, Owner* owner)
    : loop_(loop),
      address_(address),
      tls_files_(tls),
      buffer_(std::move(buffer)),
      owner_(owner),
      attempt_timer_(loop, [this] { OnAttemptEnded(ETIMEDOUT); }),
      failure_timer_(loop, [this] {
        if (context_ != nullptr) {
          // Replies that the server sent before it hung up may still be in the socket.
          context_->err = 0;
          if (!ReadAll()) return;
        }
        Fail(pending_failure_);
      }) {}

SocketTransport::~SocketTransport() { DropSocket(); }

void SocketTransport::Begin() {
  if (!address_.path.empty()) {
    Endpoint endpoint{};
    auto* unix_address = reinterpret_cast<sockaddr_un*>(&endpoint.storage);
    unix_address->sun_family = AF_UNIX;
    address_.path.copy(unix_address->sun_path, sizeof(unix_address->sun_path) - 1);
    endpoint.size = sizeof(sockaddr_un);
    endpoints_.push_back(endpoint);
    return TryNextEndpoint();
  }
  resolution_ = new Resolution{{}, shared_from_this()};
  resolution_->request.data = resolution_;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  const int error = uv_getaddrinfo(
      loop_, &resolution_->request,
      [](uv_getaddrinfo_t* request, int status, addrinfo* found) {
        const std::unique_ptr<Resolution> resolution(static_cast<Resolution*>(request->data));
        resolution->connection->OnResolved(status, found);
        uv_freeaddrinfo(found);
      },
      address_.host.c_str(), std::to_string(address_.port).c_str(), &hints);
  if (error != 0) {
    delete std::exchange(resolution_, nullptr);
    FailSoon(Cat("cannot look up '", address_.host, "': ", uv_strerror(error)));
  }
}

void SocketTransport::OnResolved(int status, addrinfo* found) {
  resolution_ = nullptr;
  if (owner_ == nullptr) return;
  if (status != 0) return Fail(Cat("cannot look up '", address_.host, "': ", uv_strerror(status)));
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Endpoint endpoint{};
    memcpy(&endpoint.storage, at->ai_addr, at->ai_addrlen);
    endpoint.size = at->ai_addrlen;
    endpoints_.push_back(endpoint);
  }
  TryNextEndpoint();
}

void SocketTransport::TryNextEndpoint() {
  while (next_endpoint_ < endpoints_.size()) {
    const Endpoint& endpoint = endpoints_[next_endpoint_++];
    const int fd = socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      last_error_ = strerror(errno);
      continue;
    }
    if (connect(fd, reinterpret_cast<const sockaddr*>(&endpoint.storage), endpoint.size) != 0 && errno != EINPROGRESS) {
      last_error_ = strerror(errno);
      close(fd);
      continue;
    }
    connecting_fd_ = fd;
    if (next_endpoint_ < endpoints_.size()) attempt_timer_.Start(kAddressPatience);
    return Watch(fd, UV_WRITABLE);
  }
  FailSoon(Cat("cannot connect: ", last_error_));
}

void SocketTransport::OnAttemptEnded(int error) {
  const auto self = shared_from_this();
  attempt_timer_.Stop();
  if (error == 0) {
    const int fd = std::exchange(connecting_fd_, -1);
    return BecomeOpen(fd);
  }
  last_error_ = strerror(error);
  DropSocket();
  TryNextEndpoint();
}

void SocketTransport::BecomeOpen(int fd) {
  if (address_.path.empty()) SetTcpOptions(fd);
  redisOptions options{};
  options.type = REDIS_CONN_USERFD;
  options.endpoint.fd = fd;
  options.options = REDIS_OPT_NONBLOCK;
  context_ = redisConnectWithOptions(&options);
  if (context_ == nullptr) {
    connecting_fd_ = fd;
    return Fail("out of memory");
  }
  context_->reader->maxelements = kMaxReplyElements;
  if (tls_files_.has_value()) {
    auto tls = NewTls(*tls_files_, address_.host);
    if (!tls.ok()) return Fail(std::string(tls.status().message()));
    if (redisInitiateSSL(context_, tls->get()) != REDIS_OK) {
      const std::string why = TlsFailure(tls->get());
      return Fail(why.empty() ? context_->errstr : why);
    }
    tls_ = tls->release();
  }
  interest_ = UV_READABLE;
  uv_poll_start(&poll_->handle, interest_, &SocketTransport::PollCallback);
  owner_->OnConnected();
}

void SocketTransport::Watch(int fd, int events) {
  poll_ = new Poll{{}, shared_from_this()};
  const int error = uv_poll_init(loop_, &poll_->handle, fd);
  if (error != 0) {
    delete std::exchange(poll_, nullptr);
    return FailSoon(uv_strerror(error));
  }
  poll_->handle.data = poll_;
  uv_poll_start(&poll_->handle, events, &SocketTransport::PollCallback);
}

void SocketTransport::PollCallback(uv_poll_t* handle, int status, int events) {
  static_cast<Poll*>(handle->data)->connection->OnPoll(status, events);
}

void SocketTransport::OnPoll(int status, int events) {
  if (owner_ == nullptr) return;
  if (connecting_fd_ >= 0) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(connecting_fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    return OnAttemptEnded(error);  // `status` is EBADF whatever the error is
  }
  if (status < 0) return FailSoon("the server reset the connection");
  OnOpenPoll(events);
}

void SocketTransport::OnOpenPoll(int events) {
  if ((events & UV_READABLE) != 0 && !ReadAll()) return;
  Flush();
}

// False when the connection has ended meanwhile.
bool SocketTransport::ReadAll() {
  auto& buffer = buffer_->bytes;
  for (int chunk = 0; chunk < kMaxChunksPerTurn || (tls_ != nullptr && TlsHasBuffered(tls_)); ++chunk) {
    const ssize_t got = context_->funcs->read(context_, buffer.data(), buffer.size());
    if (got < 0) {
      Fail(ReadWriteCause());
      return false;
    }
    if (got == 0) break;
    unfinished_bytes_ += static_cast<size_t>(got);
    if (redisReaderFeed(context_->reader, buffer.data(), static_cast<size_t>(got)) != REDIS_OK || !DeliverReplies()) {
      if (owner_ != nullptr) Fail(Cat("the server does not speak RESP: ", context_->reader->errstr));
      return false;
    }
    if (unfinished_bytes_ > kMaxReplyBytes) {
      Fail(Cat("a reply of more than ", kMaxReplyBytes, " bytes"));
      return false;
    }
    if (tls_ == nullptr && static_cast<size_t>(got) < buffer.size()) break;
  }
  return true;
}

// False when the bytes are no RESP or the connection has ended meanwhile.
bool SocketTransport::DeliverReplies() {
  for (;;) {
    void* raw = nullptr;
    if (redisReaderGetReply(context_->reader, &raw) != REDIS_OK) return false;
    if (raw == nullptr) return true;
    unfinished_bytes_ = 0;
    owner_->OnReply(ReplyPtr(static_cast<redisReply*>(raw)));
    if (owner_ == nullptr) return false;
  }
}

void SocketTransport::Append(std::string_view command) {
  if (owner_ == nullptr || context_ == nullptr) return;
  redisAppendFormattedCommand(context_, command.data(), command.size());
  appended_ += command.size();
}

void SocketTransport::Flush() {
  if (owner_ == nullptr || context_ == nullptr || failure_timer_.active()) return;
  if (sdslen(context_->obuf) > 0) {
    attempted_ = appended_;
    int done = 0;
    if (redisBufferWrite(context_, &done) != REDIS_OK) return FailSoon(ReadWriteCause());
  }
  UpdateInterest();
}

uint64_t SocketTransport::sent() const {
  // A part of a TLS record may have left even when the socket refused the record.
  if (tls_ != nullptr) return attempted_;
  return context_ == nullptr ? appended_ : appended_ - sdslen(context_->obuf);
}

std::string SocketTransport::AwaitedStep() const {
  if (resolution_ != nullptr) return Cat("nobody answers the look-up of '", address_.host, "'");
  if (connecting_fd_ >= 0) return "nothing accepts the connection";
  if (tls_ != nullptr && !TlsIsOpen(tls_)) {
    return "the server does not answer the TLS handshake; is this the port on which it speaks TLS?";
  }
  return "the server does not answer";
}

void SocketTransport::UpdateInterest() {
  int wanted = UV_READABLE;
  if (sdslen(context_->obuf) > 0 && (tls_ == nullptr || !TlsWaitsForPeer(tls_))) wanted |= UV_WRITABLE;
  if (wanted == interest_) return;
  interest_ = wanted;
  uv_poll_start(&poll_->handle, wanted, &SocketTransport::PollCallback);
}

std::string SocketTransport::ReadWriteCause() const {
  if (tls_ != nullptr && context_->err != REDIS_ERR_EOF) {
    if (std::string why = TlsFailure(tls_); !why.empty()) return why;
  }
  return context_->err == REDIS_ERR_EOF ? "the server closed the connection" : context_->errstr;
}

void SocketTransport::FailSoon(std::string cause) {
  pending_failure_ = std::move(cause);
  failure_timer_.Start(std::chrono::nanoseconds(0));
}

void SocketTransport::Fail(const std::string& cause) {
  const auto self = shared_from_this();
  Owner* owner = std::exchange(owner_, nullptr);
  attempt_timer_.Stop();
  failure_timer_.Stop();
  if (owner != nullptr) owner->OnClosed(cause);
  DropSocket();
}

void SocketTransport::Close() {
  owner_ = nullptr;
  attempt_timer_.Stop();
  failure_timer_.Stop();
  if (resolution_ != nullptr) uv_cancel(reinterpret_cast<uv_req_t*>(&resolution_->request));
  DropSocket();
}

void SocketTransport::DropSocket() {
  if (poll_ != nullptr) {
    uv_close(reinterpret_cast<uv_handle_t*>(&std::exchange(poll_, nullptr)->handle),
             [](uv_handle_t* handle) { delete static_cast<Poll*>(handle->data); });
  }
  if (connecting_fd_ >= 0) close(std::exchange(connecting_fd_, -1));
  if (context_ != nullptr) redisFree(std::exchange(context_, nullptr));
  tls_ = nullptr;
}

}  // namespace distlock::store
