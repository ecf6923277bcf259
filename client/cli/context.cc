// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "address.h"
#include "flag_words.h"
#include "printable.h"

namespace distlock::cli {
namespace {

Failure Unreachable(const Context& context, const std::string& cause, Millis tried) {
  const std::string socket = MissingDefaultSocket(context);
  const std::string no_socket = socket.empty() ? "" : absl::StrCat("; there is no socket ", socket, " either");
  // A broker that hangs up, or whose certificate is not taken, does run.
  if (absl::StrContains(cause, "TLS")) {
    return OwnFailure("UNAVAILABLE", absl::StrCat("cannot reach the broker at ", context.Target(), ": ", cause),
                      kExitUnavailable);
  }
  return OwnFailure(
      "UNAVAILABLE",
      absl::StrCat("cannot reach the broker at ", context.Target(), " within ", FormatDuration(tried), ": ", cause,
                   no_socket, "; is distlockd running there? --server or DISTLOCK_SERVER says where"),
      kExitUnavailable);
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
  return PrintText((json ? Line(json_line) : Printable(text_line)) + "\n");
}

bool Context::PrintLines(const std::vector<std::string>& text_lines, const Json& json_line) const {
  if (json) return PrintText(Line(json_line) + "\n");
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
  const std::string line = json ? Line(json_line) : "distlockctl: " + Printable(text_line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Context::Warn(std::string_view line) const { Tell(line, Json{{"warning", Json{{"message", line}}}}); }

CLI::Option* AddDurationFlag(CLI::App& command, const std::string& names, std::function<void(Millis)> set,
                             const std::string& help) {
  const auto parse = [names, set = std::move(set)](const std::string& text) {
    const std::optional<Millis> value = ParseDuration(text);
    if (!value) {
      throw CLI::ValidationError(names,
                                 "'" + text + "' is not a duration; write 24h, 1m30s, 15s, 500ms, or seconds as 2.5");
    }
    set(*value);
  };
  return command.add_option_function<std::string>(names, parse, help)->option_text("DURATION");
}

void AddOutputFlag(CLI::App& command, Context& context) {
  command
      .add_option_function<std::string>(
          "-o,--output", [&context](const std::string& format) { context.json = format == "json"; },
          "Print text, or JSON with one object per line")
      ->option_text("text|json")
      ->check(CLI::IsMember({"text", "json"}));
}

void AddContextFlags(CLI::App& command, Context& context) {
  command
      .add_option("--server", context.server,
                  "unix:///path, host:port or tls://host:port; several brokers with commas (default: DISTLOCK_SERVER,\n"
                  "else the local broker)")
      ->type_name("ADDRESS");
  AddOutputFlag(command, context);
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
      command, "--connect-timeout",
      [&context](Millis value) {
        context.connect_timeout = value;
        context.connect_timeout_given = true;
      },
      "Try to reach the broker for at most this long (default 5s; a lock with -n 1s, with -w all of it)");
}

ClientOptions ClientOptionsFor(const Context& context) {
  ClientOptions options;
  options.address = context.Target();
  options.tls = context.tls;
  options.client_label = "distlockctl";
  options.ends_with_process = false;  // the command acts, and may outlive this process
  options.unreachable_timeout = context.connect_timeout;
  options.call_timeout = context.connect_timeout;
  return options;
}

Broker Open(const Context& context, std::optional<Duration> patience) {
  if (const auto useless = UselessAddress(context)) return {nullptr, context.Fail(*useless)};
  ClientOptions options = ClientOptionsFor(context);
  options.connect_at_once = false;
  if (patience) options.unreachable_timeout = *patience;
  return {std::make_unique<Client>(std::move(options))};
}

Failure FailureFrom(const Context& context, const Refusal& refusal, std::optional<Millis> tried) {
  if (refusal.cause.empty()) return FailureFrom(refusal);
  return Unreachable(context, refusal.cause, tried.value_or(context.connect_timeout));
}

}  // namespace distlock::cli
