// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include <algorithm>

#include "duration.h"

namespace distlock::cli {
namespace {

std::string For(const std::optional<Duration>& left) {
  return left ? absl::StrCat("for another ", FormatDuration(*left)) : "for a while";
}

// The advice about a server that answers and refuses writes.
std::string AdviceFor(const std::string& refusal) {
  if (absl::StrContains(refusal, "NOREPLICAS")) {
    return "Bring its replicas back, or lower its min-replicas-to-write. Until then renewals are refused, too.";
  }
  if (absl::StrContains(refusal, "MISCONF")) {
    return "It could not save a snapshot: free its disk, then BGSAVE. Until then renewals are refused, too.";
  }
  if (absl::StrContains(refusal, "OOM")) {
    return "It is at maxmemory: give it more, or remove what others keep there. Locks that are held go on.";
  }
  if (absl::StrContains(refusal, "NOPERM")) {
    return "Give the broker's user the rights that lua/README.md lists, under \"Servers and rights\".";
  }
  return "deploy/runbooks.md says what to do, at StoreRefusesWrites.";
}

// One server of which some locks are: the only one, or a primary of a Cluster.
void AddPrimary(const StoreNode& node, bool is_only, std::vector<Obstacle>& found) {
  const std::string locks = is_only ? "" : " whose keys are there";
  if (!node.refusal.empty()) {
    found.push_back({absl::StrCat("No lock", locks, " is granted: ", node.address, " refuses writes: ", node.refusal,
                                  node.refusal.ends_with('.') ? "" : "."),
                     AdviceFor(node.refusal), is_only});
  }
  if (node.state == StoreNodeState::kDown) {
    found.push_back({absl::StrCat("The store's server ", node.address, " does not serve",
                                  node.problem.empty() ? "" : ": " + node.problem, "."),
                     "Look whether it runs and can be reached from the broker; holders keep their locks until their "
                     "ttl ends.",
                     is_only});
  } else if (node.state == StoreNodeState::kHeldOff) {
    found.push_back(
        {absl::StrCat("No lock", locks, " is newly granted ", For(node.hold_off_left), ": ", node.address,
                      " has started or was promoted, and may have forgotten locks whose holders still act."),
         "Wait: it ends by itself, and locks that are held go on. --max-ttl of distlockd, or a time given to "
         "--failover-hold-off, says how long.",
         is_only});
  }
}

void AddReplicas(const BrokerStatus& status, const StoreNode& node, bool is_only, std::vector<Obstacle>& found) {
  const auto online = std::ranges::count_if(node.replicas, [](const StoreReplica& replica) { return replica.online; });
  if (status.wait_replicas <= online || node.state == StoreNodeState::kDown) return;
  found.push_back({absl::StrCat("Each grant must be confirmed by ", status.wait_replicas, " replicas of ", node.address,
                                ", and ", online, " are in step."),
                   "Bring the replicas back, or start distlockd with a smaller --wait-replicas.", is_only});
}

// The servers of redlock://[user@]h1,h2:6380[?options], as nodes name them.
std::vector<std::string> ServersOf(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == absl::string_view::npos) return {};
  url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?"));
  if (const size_t user = url.rfind('@'); user != absl::string_view::npos) url.remove_prefix(user + 1);
  std::vector<std::string> servers = absl::StrSplit(url, ',', absl::SkipEmpty());
  for (std::string& server : servers) {
    const size_t host_end = server.rfind(']');
    const bool has_port = server.find(':', host_end == std::string::npos ? 0 : host_end) != std::string::npos;
    if (!has_port) server += ":6379";
  }
  return servers;
}

// The servers that the broker has not reached since it started: its answer names them in the URL alone.
std::vector<std::string> NeverReached(const std::string& url, const std::vector<const StoreNode*>& reached) {
  std::vector<std::string> rest = ServersOf(url);
  const size_t all = rest.size();
  for (const StoreNode* server : reached) std::erase(rest, server->address);
  return rest.size() + reached.size() == all ? rest : std::vector<std::string>();
}

void AddQuorum(const std::string& url, const std::vector<const StoreNode*>& servers, std::vector<Obstacle>& found) {
  std::vector<std::string> out;
  for (const StoreNode* server : servers) {
    if (server->state == StoreNodeState::kDown) {
      out.push_back(absl::StrCat(server->address, " is down", server->problem.empty() ? "" : ": " + server->problem));
    } else if (!server->not_counted.empty()) {
      out.push_back(
          absl::StrCat(server->address, " is not counted ", For(server->hold_off_left), ": ", server->not_counted));
    } else if (!server->refusal.empty()) {
      out.push_back(absl::StrCat(server->address, " refuses writes: ", server->refusal));
    }
  }
  size_t all = servers.size();
  for (const std::string& address : NeverReached(url, servers)) {
    out.push_back(address + " has been down since the broker started");
    ++all;
  }
  if (out.empty()) return;
  const size_t needed = all / 2 + 1;
  const size_t counted = all - out.size();
  const bool grants = counted >= needed;
  // A minority that is out hides until the next server fails, so it is named before that.
  const std::string spare = !grants             ? ""
                            : counted == needed ? " Locks are granted; none will be when one more server is out."
                                                : " Locks are granted.";
  found.push_back({absl::StrCat("Of ", all, " servers ", counted, counted == 1 ? " counts" : " count",
                                ", and each grant needs ", needed, ".", spare),
                   absl::StrCat(absl::StrJoin(out, "; "),
                                ". Bring back those that are down or refuse writes; the others count again by "
                                "themselves."),
                   !grants});
}

}  // namespace

std::vector<Obstacle> ObstaclesOf(const BrokerStatus& status) {
  std::vector<Obstacle> found;
  if (status.draining) {
    found.push_back({"The broker drains: it grants nothing new, and exits when its leases are given back or moved.",
                     "Ask another broker of the store, or start this one again when it has exited."});
  }
  std::vector<const StoreNode*> servers;
  size_t primaries = 0;
  for (const StoreNode& node : status.store_nodes) {
    node.independent ? servers.push_back(&node) : void(++primaries);
  }
  for (const StoreNode& node : status.store_nodes) {
    if (node.independent) continue;
    AddPrimary(node, primaries == 1, found);
    AddReplicas(status, node, primaries == 1, found);
  }
  if (!servers.empty()) AddQuorum(status.store_url, servers, found);
  const bool is_known = std::ranges::any_of(status.store_nodes,
                                            [](const StoreNode& node) { return node.state == StoreNodeState::kDown; });
  if (!status.store_up && !is_known) {
    const bool is_anothers = absl::StrContains(status.store_problem, "quorum-init");
    found.push_back({absl::StrCat("The store at ", status.store_url, " does not serve: ", status.store_problem, "."),
                     is_anothers ? "This broker grants nothing until its servers are one quorum."
                                 : "Look whether it runs and can be reached from the broker; holders keep their locks "
                                   "until their ttl ends."});
  }
  return found;
}

}  // namespace distlock::cli
