// SPDX-License-Identifier: Apache-2.0
//
// quorum-init and store: the maintenance of a store. They become distlockd, which alone speaks with stores.
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

struct StoreArgs {
  std::string redis;
  std::string user;
  std::string password_file;
  std::string sentinel_user;
  std::string sentinel_password_file;
  std::string key_prefix;
};

// The one that was installed beside this program, else the one on the PATH.
std::string DaemonProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / "distlockd";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "distlockd";
}

int BecomeDaemon(Context& context, std::vector<std::string> action, const StoreArgs& args) {
  std::vector<std::string> words = {DaemonProgram()};
  words.insert(words.end(), action.begin(), action.end());
  words.insert(words.end(), {"--log-format", "text"});
  const auto add = [&words](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--redis", args.redis);
  add("--redis-user", args.user);
  add("--redis-password-file", args.password_file);
  add("--sentinel-user", args.sentinel_user);
  add("--sentinel-password-file", args.sentinel_password_file);
  add("--key-prefix", args.key_prefix);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  return context.Fail({.reason = "NOT_FOUND",
                       .message = absl::StrCat("cannot start ", words.front(), ": ", std::strerror(errno)),
                       .exit_code = kExitNotFound});
}

void AddStoreFlags(CLI::App& app, StoreArgs& args, const std::string& redis_help) {
  app.add_option("--redis", args.redis, redis_help)->required();
  app.add_option("--redis-user", args.user, "As of distlockd");
  app.add_option("--redis-password-file", args.password_file, "As of distlockd");
  app.add_option("--key-prefix", args.key_prefix, "As of distlockd");
}

}  // namespace

void AddQuorumInit(CLI::App& app, Context& context) {
  auto* init = app.add_subcommand("quorum-init", "Make independent servers one quorum");
  auto args = std::make_shared<StoreArgs>();
  AddStoreFlags(*init, *args, "redlock://h1,h2,h3[,...]: all servers of the quorum");
  init->footer(
      "Needed when the servers of a quorum change, also to take a server from another quorum; the first start of a\n"
      "broker at new servers does the same by itself. First stop all brokers, and wait until the longest ttl\n"
      "(--max-ttl) has passed: the command refuses while a lock is held. All servers must be reachable. The command\n"
      "runs distlockd and has its exit codes: 69 a server cannot be reached; 78 a lock is held, or the URL does not\n"
      "name a quorum.\n\n"
      "Examples:\n"
      "  distlockctl quorum-init --redis redlock://h1,h2,h3,h4,h5");
  init->callback([&context, args] {
    context.command = [&context, args] { return BecomeDaemon(context, {"--quorum-init"}, *args); };
  });
}

void AddStore(CLI::App& app, Context& context) {
  auto* store = app.add_subcommand("store", "Maintain the store");
  store->require_subcommand(1);
  store->footer(
      "Examples:\n"
      "  distlockctl store upgrade --to 2 --redis redis://lock-store");
  auto* upgrade = store->add_subcommand("upgrade", "Raise the schema that brokers write in a store");
  auto args = std::make_shared<StoreArgs>();
  auto to = std::make_shared<uint32_t>(0);
  upgrade->add_option("--to", *to, "The schema to write from now on")->required()->check(CLI::PositiveNumber);
  AddStoreFlags(*upgrade, *args, "The store, as of distlockd");
  upgrade->add_option("--sentinel-user", args->sentinel_user, "As of distlockd");
  upgrade->add_option("--sentinel-password-file", args->sentinel_password_file, "As of distlockd");
  upgrade->footer(
      "Brokers of two releases share a store as long as its schema is one that both read. Upgrade once all brokers\n"
      "are of the newer release and none is to go back: a broker that cannot read the new schema does not start any\n"
      "more. The command refuses while a broker that cannot read it was there within the last hour. All servers of\n"
      "the store must be reachable. The command runs distlockd and has its exit codes: 69 a server cannot be\n"
      "reached; 78 refused.\n"
      "\n"
      "Examples:\n"
      "  distlockctl store upgrade --to 2 --redis redis://lock-store");
  upgrade->callback([&context, args, to] {
    context.command = [&context, args, to] {
      return BecomeDaemon(context, {"--store-upgrade", absl::StrCat(*to)}, *args);
    };
  });
}

}  // namespace distlock::cli
