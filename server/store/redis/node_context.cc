// SPDX-License-Identifier: Apache-2.0
#include "store/redis/node_context.h"

#include <utility>

namespace distlock::store {

LinkOptions MakeLinkOptions(const std::optional<ServerAddress>& address, const StoreOptions& options, uint64_t salt) {
  LinkOptions link{.address = address.value_or(ServerAddress{}),
                   .credentials = options.credentials,
                   .db = options.url.db,
                   .connect_timeout = options.connect_timeout,
                   .subscriber = false,
                   .seed = options.seed * 2 + salt};
  if (!link.credentials) {
    link.credentials = [of_url = Credentials{options.url.user, options.url.password}] { return of_url; };
  }
  return link;
}

NodeContext::NodeContext(const Network& network, const std::optional<ServerAddress>& address,
                         StoreOptions store_options, NodeOwner* node_owner, Link::Owner* link_owner,
                         std::function<void(const std::string&)> leave)
    : options(std::move(store_options)),
      timers(network.timers),
      owner(node_owner),
      leave_server(std::move(leave)),
      clock(options.locks.clock_drift_ppm),
      codec(options.locks, clock),
      link(network, MakeLinkOptions(address, options, 0), link_owner),
      scripts(&link) {}

void NodeContext::Tell(core::Input&& input) {
  if (started) owner->OnNodeInput(std::move(input));
}

void NodeContext::TellDown(const std::string& cause) {
  down_cause = cause;
  if (std::exchange(told_cause, cause) != cause) Tell(core::StoreDown{cause});
}

}  // namespace distlock::store
