// SPDX-License-Identifier: Apache-2.0
#include "bench/peers.h"

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "bench/broker_load.h"
#include "bench/etcd_load.h"
#include "bench/handoff.h"
#include "bench/library_peer.h"
#include "bench/process.h"

namespace distlock::bench {
namespace {

constexpr const char* kEtcd = "etcd";
constexpr const char* kOurs = "through the broker";

// The columns of a pair, from a load whose latency is that of pairs.
Sample OfPairs(const Sample& measured) {
  Sample sample{{}, measured.error, measured.not_run};
  const auto copy = [&](const char* column, const char* from) {
    if (const auto found = measured.values.find(from); found != measured.values.end()) {
      sample.values[column] = found->second;
    }
  };
  copy("pairs/s", "pairs/s");
  copy("p50 µs", "op p50 µs");
  copy("p99 µs", "op p99 µs");
  return sample;
}

// Gives `measure` a fresh etcd. A problem of etcd makes the row NOT RUN and is no error of the bench.
template <typename Measurement>
Sample WithEtcd(const Lab& lab, Measurement measure) {
  Sample sample;
  if (!HasProgram(kEtcd)) {
    sample.not_run = "etcd is not installed; deploy/install-deps.sh --peers";
    return sample;
  }
  try {
    EtcdServer server(lab);
    sample = measure(server);
    sample.not_run = sample.error;
    sample.error.clear();
  } catch (const std::runtime_error& e) {
    sample.not_run = e.what();
  }
  return sample;
}

Section Pairs(const Setup& setup) {
  Section section{
      "peers",
      "Peers: uncontended pairs of other lock systems beside ours",
      {"pairs/s", "p50 µs", "p99 µs"},
      {},
      {},
      "Callers of one process, each on a lock of its own; latency is of a whole pair. The packages of distlock "
      "release by leaving the lock's scope, which does not wait for the answer. "
      "etcd writes every step to its log on disk before it answers; Redis is volatile here, for all others."};
  for (const size_t callers : {1, 16, 64}) {
    if (setup.size.smoke && callers > 16) continue;
    const std::string prefix = std::to_string(callers) + (callers == 1 ? " caller, " : " callers, ");
    section.cases.push_back({prefix + kOurs, [=](Lab& lab) {
                               const auto load = BrokerSessions(lab.broker(0).target(), 1, callers, Timed::kPair);
                               return OfPairs(Measure(lab, *load, true));
                             }});
    section.cases.push_back(
        {prefix + "distlock for C++", [=](Lab& lab) {
           const auto load = BlockingClients(
               lab, {.callers = callers, .release = Released::kByScope, .waits = true, .timed = Timed::kPair});
           return OfPairs(Measure(lab, *load, true));
         }});
    for (const Library& library : Libraries()) {
      section.cases.push_back(
          {prefix + library.name, [=](Lab& lab) { return LibraryPeer(lab, library, PeerWork::kPairs, callers); }});
      if (library.beside.empty()) continue;
      section.comparisons.push_back({absl::StrCat(prefix, library.name, " against ", library.beside),
                                     Comparison::Kind::kRatio, prefix + library.name, prefix + library.beside,
                                     "pairs/s", "", ""});
    }
    section.cases.push_back({prefix + kEtcd, [=](Lab& lab) {
                               return WithEtcd(lab, [&](EtcdServer& server) {
                                 const auto load = EtcdPairs(server, callers);
                                 return OfPairs(Measure(lab, *load, false));
                               });
                             }});
    for (const std::string peer : {"redis-semaphore", "redlock", kEtcd}) {
      section.comparisons.push_back({absl::StrCat(prefix, "ours against ", peer), Comparison::Kind::kRatio,
                                     prefix + kOurs, prefix + peer, "pairs/s", "", ""});
    }
  }
  return section;
}

std::vector<Case> Contended(PeerWork work, Sample (*ours)(const Lab&), Sample (*etcd)(EtcdServer&, const Size&)) {
  std::vector<Case> cases{{kOurs, ours}};
  for (const Library& library : Libraries()) {
    if (library.only_pairs) continue;
    cases.push_back({library.name, [=](Lab& lab) { return LibraryPeer(lab, library, work); }});
  }
  cases.push_back(
      {kEtcd, [=](Lab& lab) { return WithEtcd(lab, [&](EtcdServer& server) { return etcd(server, lab.size()); }); }});
  return cases;
}

Section Handoff() {
  return {"peers-handoff",
          "Peers: hand-off from idle, the waiter has waited 20 to 150 ms",
          {"p50 µs", "p99 µs"},
          Contended(
              PeerWork::kHandoff, [](const Lab& lab) { return IdleHandoff(lab, 1); }, EtcdIdleHandoff),
          {},
          "As `handoff-idle`, with one broker. A library that asks again and again is as slow as its pause is long."};
}

Section Queue() {
  return {"peers-queue",
          "Peers: one-shot queue, 50 waiters hold 1 ms each",
          {"makespan ms", "slowest ms"},
          Contended(PeerWork::kQueue, OneShotQueue, EtcdQueue),
          {},
          "As `queue`; that each peer has one holder at a time is checked, the order is not: only ours says when a "
          "waiter has joined."};
}

// The first line of `program --version`, such as "v18.20.4" or "etcd Version: 3.5.16"; "" when it is not installed.
std::string FirstLineOfVersion(const std::string& program) {
  if (!HasProgram(program)) return "";
  FILE* output = popen((program + " --version").c_str(), "r");
  if (output == nullptr) return "";
  char line[80] = "";
  const bool read = fgets(line, sizeof line, output) != nullptr;
  pclose(output);
  const std::string text = read ? line : "";
  return text.substr(0, text.find('\n'));
}

}  // namespace

void AppendPeers(const Setup& setup, std::vector<Section>* sections) {
  if (!setup.peers) return;
  sections->push_back(Pairs(setup));
  sections->push_back(Handoff());
  sections->push_back(Queue());
}

std::string PeerVersions() {
  const std::string node = FirstLineOfVersion("node");
  std::string text;
  for (const std::string& part : {node.empty() ? "" : "node " + node, LibraryVersions(), FirstLineOfVersion(kEtcd)}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "none is installed" : text;
}

}  // namespace distlock::bench
