// SPDX-License-Identifier: Apache-2.0
//
// The flags that say which lock to take and how; run, hold and acquire share them. The broker checks the bounds, not
// this code, and names all bad fields at once.
#pragma once

#include <distlock/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "duration.h"
#include "exit_code.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace distlock::cli {

struct LockFlags {
  std::string name_space;  // of all keys; once parsed never empty
  std::string key;
  std::string given;                   // the word that gave `key`
  std::vector<std::string> more_keys;  // taken together with `key`, which may then be empty
  bool shared = false;
  bool exclusive = false;          // the default, named on the command line
  int32_t limit = 0;               // of a semaphore; 0: no semaphore
  int32_t permits = 0;             // 0 = 1
  std::optional<Millis> max_wait;  // unset: wait until granted; 0: one try
  bool quiet = false;              // a lock that others hold is not reported, only the exit code says it
  std::optional<Millis> ttl;
  Millis max_hold{0};
  Millis lock_delay{0};
  std::optional<Millis> once_per;
  bool resume = false;  // LockOptions::resume; AddResumeFlag makes it true by default
  QueuePolicy policy = QueuePolicy::kDefault;
  std::string owner;
  std::map<std::string, std::string> metadata;

  // All but the mode and the keys.
  LockOptions Options() const;
  // For how long a request looks for a broker: for the whole wait, one try for 1 s, unless --connect-timeout says it.
  Millis Patience(const Context& context) const;
  // All keys, in the order of the command line.
  std::vector<std::string> Keys() const;
  // For messages: "default:deploy"; several keys: "default:deploy, default:database".
  std::string Name() const;
  // {"event":...} about the lock, with `keys` when there are several.
  Json Event(std::string_view event, const Json& more = Json::object()) const;
};

// `flags` must outlive the parsing of `command`.
void AddLockFlags(CLI::App& command, LockFlags& flags);

// All of these flags but KEY and the mode.
void AddWaitAndLeaseFlags(CLI::App& command, LockFlags& flags);

// The same, and -k, which may be repeated, beside KEY or in its place. KEY is optional then: the caller checks that a
// key was given.
void AddLocksFlags(CLI::App& command, LockFlags& flags);

// Only KEY and --namespace, for commands that do not take the lock.
void AddKeyFlags(CLI::App& command, LockFlags& flags);

// --once-per, for a command that is to run once a period although several hosts start it.
void AddOncePerFlag(CLI::App& command, LockFlags& flags);

// --resume and --no-resume, for commands that hold the lock by a stream.
void AddResumeFlag(CLI::App& command, LockFlags& flags);

// `help`: without its end, which names the default.
CLI::Option* AddNamespaceFlag(CLI::App& command, std::string& name_space, const std::string& help);

// Takes the namespace out of the keys; `key`: the option of flags.key. Throws CLI::ValidationError for a word that
// names no lock. Called when all flags are parsed, because --namespace may come last.
void ReadNames(LockFlags& flags, const CLI::Option* key);

// Reports why the lock was not taken, but with `quiet` not that others hold it. Returns the exit code: `busy_code` when
// others hold it.
int FailToTake(const Context& context, const LockFlags& flags, Failure failure, int busy_code = kExitBusy);

// A warning when the lock must be waited for: a `run` around this process holds it, by the environment that it gave.
// Such a wait may never end.
std::optional<std::string> HeldByOwnJob(const LockFlags& flags);

}  // namespace distlock::cli
