// SPDX-License-Identifier: Apache-2.0
#include "web/api.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "contract/error_details.h"
#include "contract/refusal.h"
#include "distlock/v1/lock_service.pb.h"
#include "distlock/wire/limits.h"
#include "distlock/wire/status_details.pb.h"
#include "text/text.h"
#include "web/answers.h"
#include "web/guard.h"
#include "web/messages.h"
#include "web/openapi_text.h"

namespace distlock::web {
namespace {

using text::Cat;

constexpr int64_t kMostWaitSeconds = 60;
constexpr std::chrono::milliseconds kEndPatience{500};
constexpr char kBeat[] = ":\n\n";  // a comment
constexpr char kPath[] = "/openapi.json";

http::Reply Invalid(const std::string& problem) {
  return ErrorReply(
      contract::ErrorOf(contract::MakeRefusal(core::RefusalReason::kInvalidArgument, problem), core::LockName()));
}

bool IsSayable(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

access::PeerFacts FactsOfCaller(const http::Request& request) {
  access::PeerFacts facts{.peer = request.peer.address, .keeps_secrets = request.peer.is_loopback};
  if (const auto& user = request.peer.user) facts.unix_peer = access::UnixPeer{user->uid, user->gid, user->groups};
  for (const std::string_view value : request.All("authorization")) {
    // gRPC takes printable ASCII only. This one is no proof either.
    facts.authorization.emplace_back(IsSayable(value) ? value : "unreadable");
  }
  return facts;
}

grpc::ByteBuffer Bytes(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* into) {
  grpc::Slice slice;
  return bytes.DumpToSingleSlice(&slice).ok() && into->ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

std::optional<std::string> AsJson(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor* type) {
  const auto message = NewMessage(type);
  if (!Parse(bytes, message.get())) return std::nullopt;
  return ToJson(*message);
}

wire::RpcStatus ErrorIn(const grpc::Status& status) {
  wire::RpcStatus error;
  if (!status.error_details().empty() && error.ParseFromString(status.error_details())) return error;
  error.set_code(status.error_code());
  error.set_message(status.error_message());
  return error;
}

std::string FullMethod(const Route& route) { return Cat("/", route.service, "/", route.call); }

// A long poll has an end, because nothing tells a client that waits from one that is gone behind a proxy.
std::optional<std::string> BoundWaits(v1::AcquireRequest* request) {
  for (int i = 0; i < request->locks_size(); ++i) {
    v1::LockSpec& lock = *request->mutable_locks(i);
    if (!lock.has_max_wait()) {
      lock.mutable_max_wait()->set_seconds(kMostWaitSeconds);
      continue;
    }
    const auto& wait = lock.max_wait();
    if (wait.seconds() > kMostWaitSeconds || (wait.seconds() == kMostWaitSeconds && wait.nanos() > 0)) {
      return Cat("locks[", i, "].max_wait is more than ", kMostWaitSeconds,
                 "s, the most over HTTP: wait for less, and ask again");
    }
  }
  return std::nullopt;
}

// data: lines hold no line feed, and JSON on one line has none.
std::string Event(std::string_view name, std::string_view json) {
  return Cat("event: ", name, "\ndata: ", json, "\n\n");
}

bool IsHealth(const Route& route) { return route.path == "/health"; }

}  // namespace

Api::Api(ApiOptions options) : options_(std::move(options)), calls_(std::make_unique<Calls>(options_.pass)) {}

absl::StatusOr<std::unique_ptr<Api>> Api::Start(ApiOptions options) {
  std::unique_ptr<Api> api(new Api(std::move(options)));
  http::ServerOptions listen;
  listen.address = api->options_.address;
  listen.max_connections = api->options_.max_connections;
  listen.spare_connections = 64;
  listen.max_body_bytes = wire::kMostMessageBytes;
  listen.error = &HttpError;
  auto started = http::Server::Start(listen, [at = api.get()](const Exchange& exchange) { at->Serve(exchange); });
  if (!started.ok()) return started.status();
  api->server_ = *std::move(started);
  return api;
}

Api::~Api() {
  // The gRPC server may have ended streams a moment ago. Their last events are to reach those who watch.
  calls_->AwaitNone(kEndPatience);
  server_.reset();
  calls_.reset();
}

void Api::Serve(const Exchange& exchange) {
  const http::Request& request = exchange->request();
  if (auto refused = RefusedAtOnce(request, options_.hosts)) return void(exchange->Answer(*std::move(refused)));
  if (request.path == kPath && (request.method == "GET" || request.method == "HEAD")) {
    return void(exchange->Answer(JsonReply(std::string(kOpenApi))));
  }
  const auto found = FindRoute(request);
  if (const auto* matched = std::get_if<Matched>(&found)) return Ask(exchange, *matched);
  const auto& none = std::get<NoRoute>(found);
  http::Reply reply = HttpError(none.status, none.problem);
  if (!none.allow.empty()) reply.headers.emplace_back("Allow", none.allow);
  exchange->Answer(std::move(reply));
}

void Api::Ask(const Exchange& exchange, const Matched& matched) {
  const Route& route = *matched.route;
  const auto* method = MethodOf(route);
  if (method == nullptr) return void(exchange->Answer(HttpError(501, "this broker does not have that call")));
  const auto request = NewMessage(method->input_type());
  auto problem = ReadFields(matched.fields, request.get());
  if (!problem && route.method == "POST") problem = ReadJson(exchange->request().body, request.get());
  if (auto* acquire = dynamic_cast<v1::AcquireRequest*>(request.get()); !problem && acquire != nullptr) {
    problem = BoundWaits(acquire);
  }
  if (problem) return void(exchange->Answer(Invalid(*problem)));
  method->server_streaming() ? AskForMany(exchange, route, *request) : AskOnce(exchange, route, *request);
}

void Api::AskOnce(const Exchange& exchange, const Route& route, const google::protobuf::Message& request) {
  const auto done = [this, exchange, &route](const grpc::Status& status, const grpc::ByteBuffer& answer) {
    if (!status.ok()) return void(exchange->Answer(ErrorReply(ErrorIn(status))));
    auto json = AsJson(answer, MethodOf(route)->output_type());
    if (!json) return void(exchange->Answer(HttpError(500, "the answer cannot be read")));
    http::Reply reply = JsonReply(*std::move(json));
    if (IsHealth(route) && !text::Contains(reply.body, "\"SERVING\"")) {
      reply.status = 503;
      reply.headers.emplace_back("Retry-After", "1");
    }
    if (!exchange->Answer(std::move(reply))) GiveBack(*exchange, route, answer);
  };
  const auto call = calls_->Start(FullMethod(route), FactsOfCaller(exchange->request()), Bytes(request), done);
  exchange->OnGone([call] { call->Cancel(); });
}

void Api::GiveBack(const http::Exchange& exchange, const Route& route, const grpc::ByteBuffer& answer) {
  if (route.call != "Acquire") return;
  v1::AcquireRequest request;
  if (ReadJson(exchange.request().body, &request) || !request.request_id().empty()) return;
  v1::AcquireResponse response;
  if (!Parse(answer, &response)) return;
  for (const v1::Grant& grant : response.grants()) {
    v1::ReleaseRequest release;
    release.set_lease_id(grant.lease_id());
    calls_->Start("/distlock.v1.LockService/Release", FactsOfCaller(exchange.request()), Bytes(release),
                  [](const grpc::Status&, const grpc::ByteBuffer&) {});
  }
}

void Api::AskForMany(const Exchange& exchange, const Route& route, const google::protobuf::Message& request) {
  // The first answer decides whether there is a stream.
  const auto begun = std::make_shared<bool>(false);
  const std::string name = route.call == "WatchLock" ? "lock" : "locks";
  const auto answered = [exchange, begun, name, &route](const std::shared_ptr<StreamingCall>& call,
                                                        const grpc::ByteBuffer& answer) {
    if (!std::exchange(*begun, true)) {
      exchange->BeginStream({.type = "text/event-stream",
                             .headers = {{"Cache-Control", "no-store"},
                                         {"X-Content-Type-Options", "nosniff"},
                                         {"X-Accel-Buffering", "no"}}},  // else nginx collects events
                            kBeat, [call] { call->ReadNext(); });
    }
    exchange->Write(Event(name, AsJson(answer, MethodOf(route)->output_type()).value_or("{}")));
  };
  const auto ended = [exchange, begun](const grpc::Status& status) {
    const wire::RpcStatus error = ErrorIn(status);
    if (!*begun) return void(exchange->Answer(ErrorReply(error)));
    exchange->Write(Event("error", StatusJson(error)));
    exchange->End();
  };
  const auto call =
      calls_->StartStream(FullMethod(route), FactsOfCaller(exchange->request()), Bytes(request), answered, ended);
  exchange->OnGone([call] { call->Cancel(); });
}

}  // namespace distlock::web
