// SPDX-License-Identifier: Apache-2.0
#include "core/broker_load.h"

#include <algorithm>
#include <string>

#include "core/broker.h"

namespace distlock::core {

BrokerLoad Broker::Load(const std::vector<std::string>& namespaces) const {
  BrokerLoad load;
  load.of_namespace.resize(namespaces.size());
  const auto note = [&](const LockName& name, Instant granted, size_t waiters) {
    const auto add = [&](BrokerLoad::Part& part) {
      part.oldest_grant = std::min(part.oldest_grant, granted);
      part.longest_queue = std::max(part.longest_queue, waiters);
    };
    add(load.all);
    for (size_t i = 0; i < namespaces.size(); ++i) {
      const std::string& escaped = name.escaped();
      const bool inside = escaped.size() > namespaces[i].size() && escaped[namespaces[i].size()] == '/';
      if (inside && escaped.starts_with(namespaces[i])) add(load.of_namespace[i]);
    }
  };
  claims_.ForEach(&Claim::lease, [&](const Lease& lease) {
    if (!lease.ending) note(lease.name, lease.granted, 0);
  });
  queues_.ForEach([&](const LocalQueue& queue) { note(queue.name, kNever, queue.waiters.size()); });
  return load;
}

}  // namespace distlock::core
