// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdarg>
#include <cstring>
#include <optional>
#include <utility>

#include "acceptor/address.h"
#include "acceptor/listeners.h"
#include "acceptor/peers.h"
#include "http/connections.h"
#include "http/host.h"
#include "peer/names.h"
#include "text/text.h"

namespace distlock::http {
namespace {

using text::Cat;

constexpr size_t kStreamBlock = 8 * 1024;
// Connections that were cut to make room: the library closes them within its next few rounds, with ten new ones each.
constexpr unsigned kDying = 64;
constexpr std::chrono::milliseconds kStopPatience{500};
// One in each server's request: freed when MHD says that the request is over.
using Held = std::shared_ptr<Exchange>;

Peer PeerOfSocket(int fd) {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&from), &size) != 0) {
    return {.address = "unknown", .user = {}, .counts_as = "unknown"};
  }
  if (const std::string address = peer::AddressText(from); !address.empty()) {
    const bool is_loopback = address.starts_with("ipv4:127.") || address.starts_with("ipv6:[::1]:");
    return {.address = address, .is_loopback = is_loopback, .user = {}, .counts_as = peer::PeerText(from)};
  }
  const auto user = acceptor::CredentialsOf(fd);
  const uid_t uid = user ? user->uid : peer::kOverflowUid;
  return {.address = "unix:", .is_loopback = true, .user = user, .counts_as = peer::PeerText(uid)};
}

MHD_Result AddHeader(void* into, MHD_ValueKind, const char* key, const char* value) {
  static_cast<Request*>(into)->headers.emplace_back(LowerText(key), value == nullptr ? "" : value);
  return MHD_YES;
}

// Bytes of "http://" before the host of an absolute target, as proxies are sent it; 0: it is none.
size_t SchemeOf(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (LowerText(target.substr(0, scheme.size())) == scheme) return scheme.size();
  }
  return 0;
}

// Paths and queries stay as they came: who decodes a key must see which slashes were encoded.
size_t Undecoded(void*, MHD_Connection*, char* text) { return std::strlen(text); }

// libmicrohttpd says why it could not start only in its log, on the thread that starts it.
thread_local std::string* start_problem = nullptr;

void KeepMessage(void*, const char* format, va_list args) {
  if (start_problem == nullptr || !start_problem->empty()) return;
  std::array<char, 256> line{};
  std::vsnprintf(line.data(), line.size(), format, args);
  *start_problem = line.data();
  while (!start_problem->empty() && start_problem->back() == '\n') start_problem->pop_back();
}

ConnectionLimits LimitsOf(const ServerOptions& options) {
  const unsigned most = options.max_connections;
  const unsigned of_peer = options.max_connections_per_peer == 0 ? (most + 1) / 2 : options.max_connections_per_peer;
  return {.served = most,
          .served_of_peer = of_peer,
          .open = most + options.spare_connections,
          .open_of_peer = of_peer + (options.spare_connections + 1) / 2};
}

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& options, Handler handle, acceptor::Listener&& listening)
      : handler(std::move(handle)),
        max_body_bytes(options.max_body_bytes),
        send_seconds(options.send_seconds),
        promised_idle(std::chrono::floor<std::chrono::seconds>(options.idle_time - options.request_time).count()),
        limits(LimitsOf(options)),
        error(options.error),
        socket(std::move(listening)),
        connections(limits, options.request_time, options.idle_time) {}
  ~Impl() { acceptor::CloseListener(socket); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  static void* OnUri(void* cls, const char* uri, MHD_Connection* connection);
  static MHD_Result OnRequest(void* cls, MHD_Connection* connection, const char* url, const char* method,
                              const char* version, const char* data, size_t* size, void** held);
  static void OnCompleted(void* cls, MHD_Connection* connection, void** held, MHD_RequestTerminationCode);
  static void OnConnection(void* cls, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode code);
  static ssize_t OnRead(void* cls, uint64_t, char* buffer, size_t room);
  static void OnReadEnd(void* cls) { delete static_cast<Held*>(cls); }

  MHD_Result Begin(MHD_Connection* connection, const Held& exchange, const char* method);
  MHD_Result GoOn(MHD_Connection* connection, const Held& exchange);
  MHD_Daemon* StartDaemon(const ServerOptions& options);
  MHD_Result Queue(MHD_Connection* connection, const Reply& reply);
  MHD_Result Queue(MHD_Connection* connection, const Reply& head, MHD_Response* response);

  // An answer after which the connection ends.
  Reply Problem(int status, const std::string& message) const;
  Reply TooLarge() const {
    return Problem(413, Cat("the body of a request may have at most ", max_body_bytes, " bytes"));
  }
  Reply UsedUp() const { return Problem(503, Cat("all ", limits.served, " connections are in use")); }
  Reply PeerUsedUp() const {
    return Problem(503, Cat("all ", limits.served_of_peer, " connections that one caller may have are in use"));
  }
  Reply Stopped() const { return Problem(503, "the broker stops; whether the request was carried out is not known"); }

  const Handler handler;
  const size_t max_body_bytes;
  const unsigned send_seconds;
  const int64_t promised_idle;  // seconds for which a connection may await the next request, with time for it to arrive
  std::atomic<bool> ending = false;
  const ConnectionLimits limits;
  const std::function<Reply(int, const std::string&)> error;
  acceptor::Listener socket;
  Connections connections;
  MHD_Daemon* daemon = nullptr;
};

MHD_Result Server::Impl::Queue(MHD_Connection* connection, const Reply& reply) {
  return Queue(
      connection, reply,
      MHD_create_response_from_buffer(reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY));
}

MHD_Result Server::Impl::Queue(MHD_Connection* connection, const Reply& head, MHD_Response* response) {
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", head.type.c_str());
  bool closes = false;
  for (const auto& [name, value] : head.headers) {
    MHD_add_response_header(response, name.c_str(), value.c_str());
    closes = closes || (name == "Connection" && value == "close");
  }
  if (!closes && ending) {
    MHD_add_response_header(response, "Connection", "close");
  } else if (!closes && promised_idle > 0) {
    MHD_add_response_header(response, "Keep-Alive", Cat("timeout=", promised_idle).c_str());
  }
  // This timeout is for the answer alone; `connections` bounds how long a connection awaits a request.
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, send_seconds);
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(head.status), response);
  MHD_destroy_response(response);
  return queued;
}

Reply Server::Impl::Problem(int status, const std::string& message) const {
  Reply reply = error ? error(status, message) : Reply{.status = status, .body = Cat(message, "\n"), .headers = {}};
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  reply.headers.emplace_back("Connection", "close");
  return reply;
}

void* Server::Impl::OnUri(void*, const char* uri, MHD_Connection*) {
  auto held = std::make_unique<Held>(new Exchange());
  std::string_view whole = uri;
  if (const size_t scheme = SchemeOf(whole); scheme > 0) {
    whole.remove_prefix(scheme);
    const size_t end = std::min(whole.find_first_of("/?"), whole.size());
    (*held)->authority_ = whole.substr(0, end);
    whole.remove_prefix(end);
  }
  const size_t mark = whole.find('?');
  (*held)->request_.path = whole.substr(0, mark);
  if (mark != std::string_view::npos) (*held)->request_.query = whole.substr(mark + 1);
  if ((*held)->request_.path.empty()) (*held)->request_.path = "/";
  return held.release();
}

MHD_Result Server::Impl::OnRequest(void* cls, MHD_Connection* connection, const char*, const char* method, const char*,
                                   const char* data, size_t* size, void** held) {
  Impl& impl = *static_cast<Impl*>(cls);
  // A copy, because the answer may come, and the request end, meanwhile.
  const Held exchange = *static_cast<Held*>(*held);
  if (!exchange->started_) return impl.Begin(connection, exchange, method);
  if (*size > 0) {
    std::string& body = exchange->request_.body;
    exchange->too_large_ = exchange->too_large_ || body.size() + *size > impl.max_body_bytes;
    if (!exchange->too_large_) body.append(data, *size);
    *size = 0;
    return MHD_YES;
  }
  return impl.GoOn(connection, exchange);
}

MHD_Result Server::Impl::Begin(MHD_Connection* connection, const Held& exchange, const char* method) {
  exchange->started_ = true;
  Request& request = exchange->request_;
  request.method = method;
  request.peer = connections.PeerOf(connection);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, AddHeader, &request);
  // The target's host counts, whatever the header says (RFC 9112, 3.2.2).
  if (exchange->authority_ && request.All("host").size() < 2) {
    std::erase_if(request.headers, [](const auto& header) { return header.first == "host"; });
    request.headers.emplace_back("host", *exchange->authority_);
  }
  exchange->Attach(connection, &connections);
  connections.Begin(exchange);
  // A proxy may read the other one than this server, and then take the rest for the next request.
  if (request.All("content-length").size() + request.All("transfer-encoding").size() > 1) {
    exchange->Answer({});
    return Queue(connection, Problem(400, "the length of the body is given more than once"));
  }
  const std::string_view length = request.Header("content-length");
  size_t bytes = 0;
  const auto read = std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (!length.empty() && (read.ec != std::errc() || bytes > max_body_bytes)) {
    exchange->Answer({});
    return Queue(connection, TooLarge());
  }
  return MHD_YES;
}

MHD_Result Server::Impl::GoOn(MHD_Connection* connection, const Held& exchange) {
  if (exchange->too_large_) {
    exchange->Answer({});
    return Queue(connection, TooLarge());
  }
  if (!exchange->dispatched_) {
    exchange->dispatched_ = true;
    const Connections::Place place = connections.Arrived(connection);
    if (place == Connections::Place::kCut) return MHD_NO;
    if (place == Connections::Place::kAllTaken) exchange->Answer(UsedUp());
    if (place == Connections::Place::kPeerHasItsShare) exchange->Answer(PeerUsedUp());
    if (!exchange->IsAnswered()) handler(exchange);
  }
  switch (exchange->Next()) {
    case Exchange::Turn::kWait:
      return MHD_YES;
    case Exchange::Turn::kAbort:
      return MHD_NO;
    case Exchange::Turn::kReply:
      return Queue(connection, exchange->TakeReply());
    case Exchange::Turn::kStream:
      break;
  }
  return Queue(
      connection, exchange->TakeReply(),
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock, &OnRead, new Held(exchange), &OnReadEnd));
}

ssize_t Server::Impl::OnRead(void* cls, uint64_t, char* buffer, size_t room) {
  const long read = (*static_cast<Held*>(cls))->Read(buffer, room);
  if (read == Exchange::kEnd) return MHD_CONTENT_READER_END_OF_STREAM;
  if (read == Exchange::kCut) return MHD_CONTENT_READER_END_WITH_ERROR;
  return static_cast<ssize_t>(read);
}

void Server::Impl::OnCompleted(void* cls, MHD_Connection* connection, void** held, MHD_RequestTerminationCode) {
  const std::unique_ptr<Held> owned(static_cast<Held*>(std::exchange(*held, nullptr)));
  if (owned == nullptr) return;
  (*owned)->Detach();
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
  static_cast<Impl*>(cls)->connections.Served(connection, owned->get());
}

void Server::Impl::OnConnection(void* cls, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode code) {
  Connections& connections = static_cast<Impl*>(cls)->connections;
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) return connections.Closed(connection);
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  connections.Opened(connection, info->connect_fd, PeerOfSocket(info->connect_fd));
}

MHD_Daemon* Server::Impl::StartDaemon(const ServerOptions& options) {
  return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, nullptr,
                          nullptr, &OnRequest, this, MHD_OPTION_EXTERNAL_LOGGER, &KeepMessage, nullptr,
                          MHD_OPTION_LISTEN_SOCKET, socket.fd.get(), MHD_OPTION_URI_LOG_CALLBACK, &OnUri, this,
                          MHD_OPTION_UNESCAPE_CALLBACK, &Undecoded, nullptr, MHD_OPTION_NOTIFY_COMPLETED, &OnCompleted,
                          this, MHD_OPTION_NOTIFY_CONNECTION, &OnConnection, this, MHD_OPTION_CONNECTION_LIMIT,
                          static_cast<unsigned>(limits.open) + kDying, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                          options.connection_bytes, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Handler handler) {
  // Without a resolver, which may know two addresses by this name.
  const std::string here = "localhost:";
  const bool is_localhost = options.address.starts_with(here);
  auto socket =
      acceptor::OpenListener(is_localhost ? Cat("127.0.0.1:", options.address.substr(here.size())) : options.address);
  if (!socket.ok()) return socket.status();
  auto impl = std::make_unique<Impl>(options, std::move(handler), *std::move(socket));
  std::string problem;
  start_problem = &problem;
  impl->daemon = impl->StartDaemon(options);
  start_problem = nullptr;
  if (impl->daemon == nullptr)
    return absl::FailedPreconditionError(Cat("cannot serve ", options.address, ": ", problem));
  impl->socket.fd.Release();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  impl_->connections.Stop(impl_->Stopped());
  impl_->connections.AwaitServed(kStopPatience);
  MHD_stop_daemon(impl_->daemon);
}

void Server::AnnounceEnd() { impl_->ending = true; }

const std::string& Server::address() const { return impl_->socket.address; }
int Server::port() const {
  const auto at = acceptor::ParseHostPort(address());
  return at.ok() ? at->port : 0;
}

}  // namespace distlock::http
