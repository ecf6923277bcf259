// SPDX-License-Identifier: Apache-2.0
#include "simulation/vote_log.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "simulation/store_observer.h"

namespace distlock::sim {
namespace {

// The n-th part of "a;b;c".
uint64_t TokenIn(std::string_view value, int n) {
  for (; n > 0; --n) value.remove_prefix(std::min(value.find(';'), value.size() - 1) + 1);
  uint64_t token = 0;
  std::from_chars(value.data(), value.data() + value.size(), token);
  return token;
}

}  // namespace

void VoteLog::Watch(StoreProcess& server) {
  servers_.push_back(std::make_unique<Server>());
  Server* const log = servers_.back().get();
  server.model().OnChange([log](std::string_view key, ChangeKind kind) {
    if (kind == ChangeKind::kWritten && key.ends_with(":h")) log->changed.emplace(key);
  });
  // A script may write a vote and undo it: only the state after the call counts.
  server.AfterCall([log, &server] {
    for (const std::string& key : log->changed) {
      if (const auto value = server.model().String(key)) log->has_held.emplace(key, TokenIn(*value, 2));
      for (const auto& [field, slot] : server.model().Hash(key)) log->has_held.emplace(key, TokenIn(slot, 1));
    }
    log->changed.clear();
  });
}

std::string VoteLog::FirstWithout(size_t quorum, const History& history) const {
  for (const Record& record : history.records) {
    if (record.kind != RecordKind::kGranted) continue;
    const std::string key = StoreObserver::KeyOf(history.locks[static_cast<size_t>(record.lock)], "h");
    const auto had = std::ranges::count_if(
        servers_, [&](const auto& server) { return server->has_held.contains({key, record.token}); });
    if (std::cmp_greater_equal(had, quorum)) continue;
    return "lease " + std::to_string(record.lease) + " was granted with token " + std::to_string(record.token) +
           ", which only " + std::to_string(had) + " servers ever had";
  }
  return "";
}

}  // namespace distlock::sim
