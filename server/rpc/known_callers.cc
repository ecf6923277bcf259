// SPDX-License-Identifier: Apache-2.0
#include "rpc/known_callers.h"

namespace distlock::rpc {

std::optional<Subject> KnownCallers::Find(uint64_t connection, uint64_t generation, int64_t now_s) {
  Slot& slot = SlotOf(connection);
  std::lock_guard lock(slot.mu);
  if (slot.caller == nullptr || slot.connection != connection || slot.generation != generation) return std::nullopt;
  if (now_s >= slot.caller->proof_until_s) return std::nullopt;
  Subject known{.caller = slot.caller, .rights = slot.rights.lock(), .account = slot.account, .generation = generation};
  if (known.rights == nullptr && slot.has_rights) return std::nullopt;
  return known;
}

void KnownCallers::Remember(uint64_t connection, const Subject& subject) {
  Slot& slot = SlotOf(connection);
  std::lock_guard lock(slot.mu);
  slot.connection = connection;
  slot.generation = subject.generation;
  slot.caller = subject.caller;
  slot.has_rights = subject.rights != nullptr;
  slot.rights = subject.rights;
  slot.account = subject.account;
}

}  // namespace distlock::rpc
