// SPDX-License-Identifier: Apache-2.0
#include "other_reading.h"

#include <absl/strings/str_cat.h>

#include "lock_name.h"

namespace distlock::cli {

bool IsFree(const LockInfo& lock) { return lock.holder_count == 0 && lock.queue_length == 0 && !lock.block; }

void WarnOfOtherReading(const Context& context, Client& client, const LockFlags& flags) {
  Inspector inspector(client);
  for (const LockName& other : OtherReadings(flags.given, {flags.name_space, flags.key})) {
    const auto lock = inspector.Look(other.key, other.name_space);
    if (!lock.ok() || IsFree(*lock)) continue;
    const std::string named = other.key.find(':') == std::string::npos
                                  ? NameOf(other.name_space, other.key)
                                  : absl::StrCat(NameOf(other.name_space, other.key), " (the key ", other.key, ")");
    return context.Warn(absl::StrCat("nobody holds ", flags.Name(), "; did you mean ", named, ", which is taken?"));
  }
}

}  // namespace distlock::cli
