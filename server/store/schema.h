// SPDX-License-Identifier: Apache-2.0
//
// The schema of a store: a number for the shapes of the keys that brokers write. A store's mark says which one is
// written (lua/README.md, "The schema"); a broker that cannot read it does not use the store. Values.
#pragma once

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "core/types.h"

namespace distlock::store {

// This release reads these. It writes what the store says.
inline constexpr uint32_t kOldestSchema = 1;
inline constexpr uint32_t kNewestSchema = 1;

// The task for the mark. kLook: it is read. kServe: it is read, and made where there is none, and this broker announces
// itself. kAskUpgrade, kUpgrade: of `distlockctl store upgrade`; the first only finds out whether the second may be
// done.
enum class SchemaTask : uint8_t { kOff, kLook, kServe, kAskUpgrade, kUpgrade };

struct SchemaOptions {
  SchemaTask task = SchemaTask::kOff;
  uint32_t oldest = kOldestSchema;
  uint32_t newest = kNewestSchema;
  uint32_t upgrade_to = 0;  // of both upgrade tasks
  // The store's id, as its servers show it; 0: not known yet. All shards share it.
  std::shared_ptr<std::atomic<uint64_t>> id;
  uint64_t new_id = 0;           // a store without an id gets this one; 0: ids are neither read nor written
  bool several_have_id = false;  // several servers, which are to show one id
  // The store's mark as last seen, 0: not known yet. A server that has forgotten its mark gets this one again. All
  // shards share it; unset: each server's connection remembers for itself.
  std::shared_ptr<std::atomic<uint32_t>> known;
};

// As people and clients are shown it; "" for 0.
inline std::string StoreIdText(uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, id);
  return id == 0 ? "" : text;
}

}  // namespace distlock::store
