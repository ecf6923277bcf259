// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <distlock/client.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "address.h"
#include "distlock/v1/admin_service.grpc.pb.h"
#include "distlock/wire/bearer.h"
#include "flag_words.h"
#include "printable.h"
#include "tls_channel.h"

namespace distlock::cli {
namespace {

// Shows the broker who calls, by DISTLOCK_TOKEN_FILE.
class ShowToken final : public grpc::experimental::Interceptor {
 public:
  explicit ShowToken(std::string bearer) : bearer_(std::move(bearer)) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(wire::kAuthorization, bearer_);
    }
    methods->Proceed();
  }

 private:
  const std::string bearer_;
};

class TokenShower final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenShower(std::string address) : address_(std::move(address)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    auto bearer = wire::BearerFor(address_);
    return bearer ? new ShowToken(*std::move(bearer)) : nullptr;
  }

 private:
  const std::string address_;
};

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address, const TlsOptions& tls,
                                          grpc::ChannelArguments args) {
  const auto [target, credentials] = internal::FindWay(address, tls, args);
  if (!wire::BearerFor(address)) return grpc::CreateCustomChannel(target, credentials, args);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<TokenShower>(address));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, args, std::move(interceptors));
}

// The channel does not say why it is not connected. A call that does not wait for the connection fails with the reason.
std::string CauseOf(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::GetStatusResponse ignored;
  const grpc::Status status = v1::AdminService::NewStub(channel)->GetStatus(&call, {}, &ignored);
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? "no answer" : status.error_message();
}

}  // namespace

std::vector<std::string> Context::Targets() const {
  std::vector<std::string> targets;
  const std::string all = server.empty() ? DefaultAddress() : server;
  for (const absl::string_view address : absl::StrSplit(all, ',', absl::SkipWhitespace())) {
    const absl::string_view target = absl::StripAsciiWhitespace(address);
    targets.push_back(absl::StrCat(absl::StartsWith(target, "/") ? "unix://" : "", target));
  }
  if (targets.empty()) targets.push_back(all);
  return targets;
}

std::string Context::Target() const { return absl::StrJoin(Targets(), ","); }

bool Context::Print(std::string_view text_line, const Json& json_line) const {
  return PrintText((json ? json_line.Line() : Printable(text_line)) + "\n");
}

bool Context::PrintLines(const std::vector<std::string>& text_lines, const Json& json_line) const {
  if (json) return PrintText(json_line.Line() + "\n");
  std::string text;
  for (const std::string& line : text_lines) absl::StrAppend(&text, Printable(line), "\n");
  return PrintText(text);
}

bool Context::PrintText(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return true;
  std::fprintf(stderr, "distlockctl: cannot write to stdout: %s\n", std::strerror(errno));
  return false;
}

int Context::Fail(const Failure& of_broker) const {
  Failure failure = of_broker;
  SpeakOfFlags(failure);
  const std::string text = json ? DescribeJson(failure) : DescribeText(failure);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return failure.exit_code;
}

void Context::Tell(std::string_view text_line, const Json& json_line) const {
  const std::string line = json ? json_line.Line() : "distlockctl: " + Printable(text_line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Context::Warn(std::string_view line) const { Tell(line, Json().Object("warning", Json().Text("message", line))); }

CLI::Option* AddDurationFlag(CLI::App& command, const std::string& names, std::function<void(Millis)> set,
                             const std::string& help) {
  const auto parse = [names, set = std::move(set)](const std::string& text) {
    const std::optional<Millis> value = ParseDuration(text);
    if (!value) {
      throw CLI::ValidationError(names, "'" + text + "' is not a duration; write 15s, 500ms, 1m30s, or seconds as 2.5");
    }
    set(*value);
  };
  return command.add_option_function<std::string>(names, parse, help)->option_text("DURATION");
}

void AddContextFlags(CLI::App& command, Context& context) {
  command
      .add_option("--server", context.server,
                  "unix:///path, host:port or tls://host:port; several brokers with commas (default: DISTLOCK_SERVER,\n"
                  "else the local broker)")
      ->type_name("ADDRESS");
  command
      .add_option_function<std::string>(
          "-o,--output", [&context](const std::string& format) { context.json = format == "json"; },
          "Print text, or JSON with one object per line")
      ->option_text("text|json")
      ->check(CLI::IsMember({"text", "json"}));
  const auto add_tls = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->type_name("FILE");
  };
  add_tls("--tls-ca", context.tls.ca,
          "PEM file with the authorities of tls:// brokers (default: DISTLOCK_TLS_CA,\n"
          "else the system's)");
  add_tls("--tls-cert", context.tls.cert, "PEM file with the own certificate (default: DISTLOCK_TLS_CERT)");
  add_tls("--tls-key", context.tls.key, "PEM file with its key (default: DISTLOCK_TLS_KEY)");
  command
      .add_option("--tls-server-name", context.tls.server_name,
                  "Name that the broker's certificate must have (default: DISTLOCK_TLS_SERVER_NAME,\n"
                  "else the host of the address)")
      ->type_name("NAME");
  AddDurationFlag(
      command, "--connect-timeout", [&context](Millis value) { context.connect_timeout = value; },
      "Try to reach the broker for at most this long (default 5s)");
}

Failure Unreachable(const Context& context, const std::string& cause, Millis tried) {
  const std::string socket = MissingDefaultSocket(context);
  const std::string no_socket = socket.empty() ? "" : absl::StrCat("; there is no socket ", socket, " either");
  return OwnFailure("UNAVAILABLE",
                    absl::StrCat("cannot reach the broker at ", context.Target(), " within ", FormatDuration(tried),
                                 cause.empty() ? "" : ": ", cause, no_socket,
                                 "; is distlockd running there? --server or DISTLOCK_SERVER says where"),
                    kExitUnavailable);
}

Connection Connect(const Context& context, Patience patience) {
  if (const auto useless = UselessAddress(context)) {
    return {nullptr, context.Fail(*useless)};
  }
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The first retries come quickly, so that a short --connect-timeout is enough for a broker that is just starting.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  if (patience == Patience::kLong) {
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
    // Otherwise gRPC stops its pings after the second one.
    args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  const TlsOptions tls = internal::WithEnvironment(context.tls);
  for (const std::string& target : context.Targets()) {
    channels.push_back(NewChannel(target, tls, args));
    channels.back()->GetState(/*try_to_connect=*/true);
  }
  const auto deadline = std::chrono::system_clock::now() + context.connect_timeout;
  do {
    for (const auto& channel : channels) {
      // One after the other, for a moment each; they all connect meanwhile.
      const auto moment = std::chrono::system_clock::now() + std::chrono::milliseconds(20);
      if (channel->WaitForConnected(channels.size() == 1 ? deadline : std::min(deadline, moment))) return {channel};
    }
  } while (std::chrono::system_clock::now() < deadline);
  return {nullptr, context.Fail(Unreachable(context, CauseOf(channels.front()), context.connect_timeout))};
}

}  // namespace distlock::cli
