// SPDX-License-Identifier: Apache-2.0
#include "lock_flags.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "lock_name.h"

namespace distlock::cli {
namespace {

const std::map<std::string, QueuePolicy> kPolicies = {
    {"fair", QueuePolicy::kFair},
    {"writer-preferring", QueuePolicy::kWriterPreferring},
    {"reader-preferring", QueuePolicy::kReaderPreferring},
    {"adaptive", QueuePolicy::kAdaptive},
};

void AddModeFlags(CLI::App& command, LockFlags& flags) {
  const CLI::Range counts(int32_t{1}, std::numeric_limits<int32_t>::max());
  auto* shared =
      command.add_flag("-s,--shared", flags.shared, "Share the lock with other --shared holders, as a reader");
  auto* exclusive = command.add_flag("-x,--exclusive", flags.exclusive, "Hold the lock alone, as a writer (default)");
  auto* limit =
      command.add_option("--limit", flags.limit, "Take permits of a semaphore of N; all callers should use the same N")
          ->option_text("N")
          ->check(counts);
  command.add_option("--permits", flags.permits, "With --limit, take this many permits (default 1)")
      ->option_text("N")
      ->check(counts)
      ->needs(limit);
  shared->excludes(exclusive)->excludes(limit)->option_text(" ");
  exclusive->excludes(limit)->option_text(" ");
}

void AddWaitFlags(CLI::App& command, LockFlags& flags) {
  auto* once = command.add_flag_callback(
      "-n,--nonblock", [&flags] { flags.max_wait = Millis(0); }, "Fail at once if another holds the lock");
  AddDurationFlag(
      command, "-w,--wait,--timeout", [&flags](Millis value) { flags.max_wait = value; },
      "Wait at most this long, also for a broker or store that is away (default: until the lock is\n"
      "granted; for those at first 5s)")
      ->excludes(once);
  once->option_text(" ");
  command.add_flag("-q,--quiet", flags.quiet, "Print nothing when another holds the lock")->option_text(" ");
}

void AddLeaseFlags(CLI::App& command, LockFlags& flags) {
  AddDurationFlag(
      command, "--ttl",
      [&flags](Millis value) {
        if (value <= Millis(0)) throw CLI::ValidationError("--ttl", "is 0; omit it for the default of 15s");
        flags.ttl = value;
      },
      "How long the store keeps the lock when nobody renews it, 1s to 1h (default 15s)");
  AddDurationFlag(
      command, "--max-hold", [&flags](Millis value) { flags.max_hold = value; },
      "Lose the lock this long after the grant (default: never)");
  AddDurationFlag(
      command, "--lock-delay", [&flags](Millis value) { flags.lock_delay = value; },
      "After an abnormal end, keep the lock taken for this long, up to 60s");
  command
      .add_option_function<std::string>(
          "--policy", [&flags](const std::string& name) { flags.policy = kPolicies.at(name); },
          "Who goes next: fair (default), writer-preferring, reader-preferring or adaptive")
      ->option_text("POLICY")
      ->check(CLI::IsMember(kPolicies));
  command.add_option("--owner", flags.owner, "Label that others see (default user@host:pid)")->type_name("LABEL");
  command
      .add_option_function<std::vector<std::string>>(
          "--metadata",
          [&flags](const std::vector<std::string>& pairs) {
            for (const std::string& pair : pairs) {
              const size_t equals = pair.find('=');
              if (equals == std::string::npos || equals == 0) {
                throw CLI::ValidationError("--metadata", "'" + pair + "' is not NAME=VALUE");
              }
              flags.metadata[pair.substr(0, equals)] = pair.substr(equals + 1);
            }
          },
          "NAME=VALUE that others see; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
}

CLI::Option* AddKey(CLI::App& command, LockFlags& flags) {
  return command.add_option("KEY", flags.key, "Name of the lock: KEY, or NAMESPACE:KEY")->option_text(" ");
}

}  // namespace

void AddKeyFlags(CLI::App& command, LockFlags& flags) {
  const CLI::Option* const key = AddKey(command, flags)->required();
  AddNamespaceFlag(command, flags.name_space, "Namespace of the lock");
  command.parse_complete_callback([&flags, key] { ReadNames(flags, key); });
}

void AddOncePerFlag(CLI::App& command, LockFlags& flags) {
  static constexpr Millis kLongest = std::chrono::hours(25);
  AddDurationFlag(
      command, "--once-per",
      [&flags](Millis value) {
        if (value <= Millis(0) || value > kLongest) {
          throw CLI::ValidationError("--once-per", "is " + FormatDuration(value) + "; 1ms to 25h are allowed");
        }
        flags.once_per = value;
      },
      "One run in each period of this length: nobody gets the lock before, less a tenth, at most 1m, while the store\n"
      "remembers it; a broker's own store (embedded) does until it ends");
}

void AddResumeFlag(CLI::App& command, LockFlags& flags) {
  flags.resume = true;
  auto* resume = command.add_flag_callback(
      "--resume", [&flags] { flags.resume = true; },
      "When the connection breaks, keep the lock through the broker that answers first (default)");
  command
      .add_flag_callback(
          "--no-resume", [&flags] { flags.resume = false; }, "When the connection breaks, lose the lock")
      ->excludes(resume)
      ->option_text(" ");
  resume->option_text(" ");
}

CLI::Option* AddNamespaceFlag(CLI::App& command, std::string& name_space, const std::string& help) {
  const auto not_empty = [](const std::string& value) {
    return std::string(value.empty() ? "is empty; leave it out for the default namespace" : "");
  };
  return command.add_option("--namespace", name_space, help + " (default: DISTLOCK_NAMESPACE, else \"default\")")
      ->option_text("NAME")
      ->check(not_empty);
}

void ReadNames(LockFlags& flags, const CLI::Option* key) {
  std::optional<LockName> first;
  const auto read = [&](const std::string& word, std::string& text) {
    const ReadName lock = ReadLockName(text, flags.name_space);
    if (!lock.problem.empty()) throw CLI::ValidationError(absl::StrCat(word, " ", lock.problem));
    if (!first) first = lock.name;
    if (lock.name.name_space != first->name_space) {
      throw CLI::ValidationError(absl::StrCat("'", text, "' is in another namespace than ",
                                              NameOf(first->name_space, first->key),
                                              ": locks that are taken together are in one"));
    }
    text = lock.name.key;
  };
  flags.given = flags.key;
  if (key->count() > 0) read(key->get_name(/*positional=*/true), flags.key);
  for (std::string& more : flags.more_keys) read("-k", more);
  flags.name_space = first ? first->name_space : DefaultNamespace();
}

void AddWaitAndLeaseFlags(CLI::App& command, LockFlags& flags) {
  AddWaitFlags(command, flags);
  AddLeaseFlags(command, flags);
}

void AddLockFlags(CLI::App& command, LockFlags& flags) {
  AddKeyFlags(command, flags);
  AddModeFlags(command, flags);
  AddWaitAndLeaseFlags(command, flags);
}

void AddLocksFlags(CLI::App& command, LockFlags& flags) {
  const CLI::Option* const key = AddKey(command, flags);
  command
      .add_option("-k,--key", flags.more_keys,
                  "One more lock, taken together with the others or not at all; may be repeated")
      ->type_name("KEY")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  AddNamespaceFlag(command, flags.name_space, "Namespace of the locks");
  command.parse_complete_callback([&flags, key] { ReadNames(flags, key); });
  AddModeFlags(command, flags);
  AddWaitAndLeaseFlags(command, flags);
}

Millis LockFlags::Patience(const Context& context) const {
  constexpr Millis kOfOneTry{1000};
  if (context.connect_timeout_given || !max_wait) return context.connect_timeout;
  return *max_wait == Millis(0) ? kOfOneTry : *max_wait;
}

std::vector<std::string> LockFlags::Keys() const {
  std::vector<std::string> keys = more_keys;
  if (!key.empty() || keys.empty()) keys.insert(keys.begin(), key);
  return keys;
}

std::string LockFlags::Name() const {
  const std::string prefix = NameOf(name_space, "");
  return absl::StrCat(prefix, absl::StrJoin(Keys(), absl::StrCat(", ", prefix)));
}

Json LockFlags::Event(std::string_view event, const Json& more) const {
  const std::vector<std::string> keys = Keys();
  Json json{{"event", event}, {"namespace", name_space}, {"key", keys.front()}};
  if (keys.size() > 1) json["keys"] = keys;
  json.update(more);
  return json;
}

int FailToTake(const Context& context, const LockFlags& flags, Failure failure, int busy_code) {
  if (failure.exit_code != kExitBusy) return context.Fail(failure);
  failure.exit_code = busy_code;
  return flags.quiet ? busy_code : context.Fail(failure);
}

std::optional<std::string> HeldByOwnJob(const LockFlags& flags) {
  const char* const keys = std::getenv("DISTLOCK_KEYS");
  const char* const name_space = std::getenv("DISTLOCK_NAMESPACE");
  if (keys == nullptr || name_space == nullptr) return std::nullopt;
  if (flags.name_space != name_space) return std::nullopt;
  const std::vector<std::string> held = absl::StrSplit(keys, '\n');
  for (const std::string& key : flags.Keys()) {
    if (std::ranges::find(held, key) == held.end()) continue;
    return absl::StrCat("this waits for ", NameOf(flags.name_space, key),
                        ", which the job that it runs in holds (DISTLOCK_KEYS): "
                        "it may wait for ever");
  }
  return std::nullopt;
}

LockOptions LockFlags::Options() const {
  LockOptions options;
  options.lock_namespace = name_space;
  if (ttl) options.ttl = *ttl;
  if (max_wait) options.max_wait = *max_wait;
  options.max_hold = max_hold;
  options.lock_delay = lock_delay;
  // The slack lets a host that is as early, by its clock or its cron, run in the next period all the same.
  if (once_per) options.min_hold = *once_per - std::min<Millis>(*once_per / 10, std::chrono::minutes(1));
  options.policy = policy;
  options.owner = owner;
  options.metadata = metadata;
  options.resume = resume;
  return options;
}

}  // namespace distlock::cli
