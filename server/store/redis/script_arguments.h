// SPDX-License-Identifier: Apache-2.0
//
// Arguments that the calls of several scripts have; lua/README.md says what they mean. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/lock_name.h"
#include "core/types.h"
#include "lua/scripts_data.h"
#include "store/redis/keys.h"
#include "store/redis/resp.h"
#include "store/redis/server_clock.h"
#include "store/redis/wire_value.h"
#include "store/store_options.h"

namespace distlock::store {

inline CommandBuilder CallScript(const lua::ScriptSource& script, size_t keys,
                                 CommandBuilder command = CommandBuilder()) {
  command.Arg("EVALSHA").Arg(script.sha1).Arg(static_cast<int64_t>(keys));
  return command;
}

inline void AddKeys(CommandBuilder& command, const Keys& keys, const core::LockName& name) {
  std::string key = keys.Holder(name);
  command.Arg(key);
  for (const char part : {Keys::kToken, Keys::kQueue, Keys::kWaiters}) {
    key.back() = part;
    command.Arg(key);
  }
}

// EVALSHA of a script that knows one lock.
inline CommandBuilder CallOnLock(const lua::ScriptSource& script, const Keys& keys, const core::LockName& name) {
  CommandBuilder command = CallScript(script, 4);
  AddKeys(command, keys, name);
  return command;
}

inline std::string WantText(const core::Want& want) {
  std::string text(1, want.mode == core::Mode::kExclusive ? 'x' : want.mode == core::Mode::kShared ? 's' : 'p');
  if (want.mode == core::Mode::kPermit) text = Cat("p", uint64_t{want.permits}, "/", uint64_t{want.limit});
  return want.policy == core::Policy::kAdaptive ? text + "a" : text;
}

// Whether an acquire waits in the queue, and has had a place there.
inline std::string_view WaitText(bool wait, bool again) { return !wait ? "0" : again ? "2" : "1"; }

inline int64_t DelayMs(core::Duration delay) { return delay > core::Duration::zero() ? CeilMs(delay) : 0; }
// block_ms of a release: "0" leaves a min_hold to the store's record.
inline std::string BlockText(core::Duration block, bool ends_min_hold) {
  return block <= core::Duration::zero() && ends_min_hold ? "-" : Cat(DelayMs(block));
}

// The info as it is stored: behind the bounds of the hold, if there are any. See wanted_by.h for what is in `info`.
inline std::string StoredInfo(core::Duration min_hold, core::Duration max_hold, const std::string& info) {
  std::string stored = max_hold > core::Duration::zero() ? Cat("h", CeilMs(max_hold), ";", info) : info;
  return min_hold > core::Duration::zero() ? Cat("m", CeilMs(min_hold), ";", stored) : stored;
}
// The stamp from which on the scripts refuse; 0: never.
inline int64_t NotAfterUs(const ServerClock& clock, core::Instant run_before) {
  return run_before == core::kNever ? 0 : clock.ShownBy(run_before).us;
}

// For how long the lock's last token is kept after its last use.
inline core::Duration TokenKeepOf(const LockOptions& options, const core::LockName& name) {
  if (options.token_keep_of.empty()) return options.token_keep;
  const std::string& escaped = name.escaped();
  const auto found = options.token_keep_of.find(escaped.substr(0, escaped.find('/')));
  return found == options.token_keep_of.end() ? options.token_keep : found->second;
}

}  // namespace distlock::store
