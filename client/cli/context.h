// SPDX-License-Identifier: Apache-2.0
//
// The settings that all commands share: the broker's address, how long to try to reach it, and the output format. The
// parser fills the Context in before a command runs; from then on it is constant. Commands return exit codes
// (exit_code.h) and print only through the Context: results to stdout, failures and progress to stderr.
#pragma once

#include <distlock/client.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "duration.h"
#include "failure.h"
#include "json.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace distlock::cli {

struct Context {
  std::string server;  // as given; see Target()
  Millis connect_timeout{5000};
  bool connect_timeout_given = false;
  TlsOptions tls;  // as given; "" means the environment
  bool json = false;
  std::function<int()> command;  // set by the subcommand on the command line

  // The addresses: --server, else DISTLOCK_SERVER, else the default socket if it exists, else the default port.
  // Several are brokers of one store. Never empty.
  std::vector<std::string> Targets() const;
  // The same, with commas between them.
  std::string Target() const;

  // Prints to stdout. False when that fails (closed, disk full), which it reports on stderr. Control characters in a
  // text line are replaced (printable.h), so that a lock's name cannot start another line.
  bool Print(std::string_view text_line, const Json& json_line) const;
  bool PrintLines(const std::vector<std::string>& text_lines, const Json& json_line) const;
  // Prints the text unchanged.
  bool PrintText(std::string_view text) const;

  // Prints the failure on stderr in the chosen format and in the words of flags (flag_words.h). Returns its exit code.
  int Fail(const Failure& failure) const;

  // Prints what happens on stderr in the chosen format, when stdout belongs to a command.
  void Tell(std::string_view text_line, const Json& json_line) const;
  // Prints a warning on stderr in the chosen format.
  void Warn(std::string_view line) const;
};

// Adds --output alone, to a command that asks no broker.
void AddOutputFlag(CLI::App& command, Context& context);

// Adds --server, --output, --connect-timeout and those of TLS to a command.
void AddContextFlags(CLI::App& command, Context& context);

CLI::Option* AddDurationFlag(CLI::App& command, const std::string& names, std::function<void(Millis)> set,
                             const std::string& help);

// The options for the library's Client.
ClientOptions ClientOptionsFor(const Context& context);

struct Broker {
  std::unique_ptr<Client> client;  // null after context.Fail has reported why there can be none
  int exit_code = kExitOk;         // of that failure
};

// For commands that take no lock by a stream: the client connects at the first call, to the first broker that answers.
// `patience`: for how long a request for a lock looks for one.
Broker Open(const Context& context, std::optional<Duration> patience = std::nullopt);

// Why the library did not do it. `tried`: for how long a broker was looked for; --connect-timeout when it is not given.
Failure FailureFrom(const Context& context, const Refusal& refusal, std::optional<Millis> tried = std::nullopt);

}  // namespace distlock::cli
