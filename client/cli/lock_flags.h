// SPDX-License-Identifier: Apache-2.0
//
// The flags that say which lock is wanted and how, the same for run, hold and acquire. Bounds are not checked here but
// by the broker, which names all bad fields at once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distlock/v1/lock.pb.h"
#include "duration.h"

namespace CLI {
class App;
}

namespace distlock::cli {

struct LockFlags {
  std::string name_space;
  std::string key;
  std::vector<std::string> more_keys;  // taken together with it; `key` may be empty then
  bool shared = false;
  bool exclusive = false;          // the default, given explicitly
  uint32_t limit = 0;              // not 0: a semaphore
  uint32_t permits = 0;            // 0 = 1
  std::optional<Millis> max_wait;  // unset: wait until granted; 0: one try
  std::optional<Millis> ttl;
  Millis max_hold{0};
  Millis lock_delay{0};
  v1::QueuePolicy policy = v1::QUEUE_POLICY_UNSPECIFIED;
  std::string owner;
  std::map<std::string, std::string> metadata;

  v1::LockSpec ToSpec() const;
  // All of them, in the order they were named.
  std::vector<std::string> Keys() const;
  // "default/deploy", for messages; of several "default/deploy, default/database".
  std::string Name() const;
};

// `flags` must outlive the parsing of `command`.
void AddLockFlags(CLI::App& command, LockFlags& flags);

// All but KEY and how it is shared.
void AddWaitAndLeaseFlags(CLI::App& command, LockFlags& flags);

// The same with -k, which may be repeated, beside KEY or in its place: Keys() may then be empty.
void AddLocksFlags(CLI::App& command, LockFlags& flags);

// KEY and --namespace alone, for the commands that only show a lock.
void AddKeyFlags(CLI::App& command, LockFlags& flags);

void AddNamespaceFlag(CLI::App& command, std::string& name_space);

// user@host:pid: the owner label when --owner is not given.
std::string DefaultOwner();

}  // namespace distlock::cli
