// SPDX-License-Identifier: Apache-2.0
//
// A table at which requests of several locks are made: session 1 is open, and the store connected.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "table.h"

namespace distlock::core {

struct Several : OneSession {
  explicit Several(bool takes_many_at_once = true)
      : Several(BrokerConfig{.store = {.takes_many_at_once = takes_many_at_once}}) {}
  explicit Several(BrokerConfig config, Instant start = Instant(hours(100)))
      : OneSession(SessionKind::kSession, config, start) {}
  // Requests from 7 on, owners from 1 on.
  AcquireAll All(const std::vector<std::string>& keys, std::optional<Duration> max_wait = {}) {
    AcquireAll all;
    for (size_t i = 0; i < keys.size(); ++i) {
      all.parts.push_back(Want(1, 7 + i, keys[i], 1 + static_cast<int>(i)));
      all.parts.back().max_wait = max_wait;
    }
    return all;
  }
  static AcquireAll Detached(AcquireAll all, SessionId session) {
    for (Acquire& part : all.parts) {
      part.detached = true;
      part.session = session;
      part.owner[0] = kRepeatableMark;
    }
    return all;
  }
  // Detached, all of one request_id: each lock, named by a letter, has one owner in all its requests.
  AcquireAll Repeatable(const std::vector<std::string>& keys, SessionId session,
                        std::optional<Duration> max_wait = {}) {
    AcquireAll all = Detached(All(keys, max_wait), session);
    for (size_t i = 0; i < keys.size(); ++i) all.parts[i].owner = OwnerOf(keys[i]);
    return all;
  }
  static OwnerId OwnerOf(const std::string& key) {
    OwnerId owner = Owner(key.front());
    owner[0] = kRepeatableMark;
    return owner;
  }
  std::vector<OwnerId> Released() {
    std::vector<OwnerId> owners;
    while (Count<StoreRelease>() > 0) owners.push_back(Take<StoreRelease>().owner);
    std::sort(owners.begin(), owners.end());
    return owners;
  }
};

}  // namespace distlock::core
