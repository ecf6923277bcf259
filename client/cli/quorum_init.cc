// SPDX-License-Identifier: Apache-2.0
//
// quorum-init: becomes distlockd, which alone speaks with stores, to mark their servers. No broker may run meanwhile,
// so none can be asked.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "commands.h"
#include "exit_code.h"

namespace distlock::cli {
namespace {

struct InitArgs {
  std::string redis;
  std::string user;
  std::string password_file;
  std::string key_prefix;
};

// The one that was installed beside this program, else the one on the PATH.
std::string DaemonProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / "distlockd";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "distlockd";
}

int QuorumInit(Context& context, const InitArgs& args) {
  std::vector<std::string> words = {DaemonProgram(), "--quorum-init", "--log-format", "text"};
  const auto add = [&words](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--redis", args.redis);
  add("--redis-user", args.user);
  add("--redis-password-file", args.password_file);
  add("--key-prefix", args.key_prefix);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  return context.Fail({.reason = "NOT_FOUND",
                       .message = absl::StrCat("cannot start ", words.front(), ": ", std::strerror(errno)),
                       .exit_code = kExitNotFound});
}

}  // namespace

void AddQuorumInit(CLI::App& app, Context& context) {
  auto* init = app.add_subcommand("quorum-init", "Make independent servers one quorum, whatever they belonged to");
  auto args = std::make_shared<InitArgs>();
  init->add_option("--redis", args->redis, "redlock://h1,h2,h3[,...]: all servers of the quorum")->required();
  init->add_option("--redis-user", args->user, "As of distlockd");
  init->add_option("--redis-password-file", args->password_file, "As of distlockd");
  init->add_option("--key-prefix", args->key_prefix, "As of distlockd");
  init->footer(
      "Needed when the servers of a quorum change; the first start of a broker does the same by itself. Stop all\n"
      "brokers before, and wait until the longest ttl (--max-ttl) has passed: it refuses while a lock is held. All\n"
      "servers must be reachable. It runs distlockd, whose exit codes it has: 69 a server cannot be reached, 78 a "
      "lock\n"
      "is held, or the URL is none of a quorum.\n\n"
      "Examples:\n"
      "  distlockctl quorum-init --redis redlock://h1,h2,h3,h4,h5");
  init->callback([&context, args] { context.command = [&context, args] { return QuorumInit(context, *args); }; });
}

}  // namespace distlock::cli
