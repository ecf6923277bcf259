// SPDX-License-Identifier: Apache-2.0
// Rows of a quorum of independent servers, beside one server that is reached in the same way.
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/broker_load.h"
#include "bench/handoff.h"
#include "bench/library_peer.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

struct Servers {
  size_t count;
  Ailment ailment = Ailment::kNone;
};

constexpr Servers kOne{1}, kThree{3}, kFive{5};
constexpr Servers kHealthy[] = {kOne, kThree, kFive};
constexpr Servers kAiling[] = {{3, Ailment::kDead}, {3, Ailment::kStopped}, {3, Ailment::kSlow},
                               {5, Ailment::kDead}, {5, Ailment::kStopped}, {5, Ailment::kSlow}};

const char* NameOf(Ailment ailment) {
  switch (ailment) {
    case Ailment::kDead:
      return "dead";
    case Ailment::kStopped:
      return "stopped";
    case Ailment::kSlow:
      return "a second slow";
    default:
      return "well";
  }
}

std::string NameOf(const Servers& servers) {
  if (servers.count == 1) return "one server";
  std::string count = std::to_string(servers.count) + " servers";
  if (servers.ailment == Ailment::kNone) return count;
  return count + (servers.count == 3 ? ", one of them " : ", two of them ") + NameOf(servers.ailment);
}

template <typename Run>
Case At(const Servers& servers, Run run) {
  return {NameOf(servers), [=](Lab& usual) -> Sample {
            try {
              return run(usual.Quorum(servers.count, servers.ailment));
            } catch (const std::runtime_error& e) {
              return {{}, e.what(), ""};
            }
          }};
}

Comparison Ratio(const Servers& of, const Servers& against, const std::string& column, const std::string& must) {
  return {column.substr(0, column.rfind(' ')) + " of " + NameOf(of) + " against " + NameOf(against),
          Kind::kRatio,
          NameOf(of),
          NameOf(against),
          column,
          must,
          ""};
}

// A lock at several servers cannot be faster than at one of them, nor with some away faster than with all well.
Floor FloorAt(const Servers& of, const Servers& floor, const std::string& column) {
  return {NameOf(of), NameOf(floor), column, ""};
}

constexpr const char* kNote =
    "All servers over TCP. CPU columns are microseconds per pair or grant; redis CPU and calls/pair are those of the "
    "first server. Two calls a pair are one round of votes and one of releases. Goal: 98 % in one round, so 2.02.";

Sample OneInFlight(Lab& lab) {
  const auto load = BrokerSessions(lab.broker(0).target(), 1, 1);
  const double calls = lab.RedisCalls("evalsha");
  Sample sample = Measure(lab, *load, true);
  sample.values["calls/pair"] = (lab.RedisCalls("evalsha") - calls) / static_cast<double>(load->Pairs());
  return sample;
}

const std::vector<std::string> kLoneColumns = {"pairs/s",    "op p50 µs",  "op p99 µs", "calls/pair",
                                               "client CPU", "daemon CPU", "redis CPU"};

Section Lone(const Setup& setup) {
  Section section{
      "quorum-lone", "A quorum of independent servers: a lone client, one operation in flight", kLoneColumns, {}, {},
      kNote};
  for (const Servers& servers : kHealthy) {
    if (setup.size.smoke && servers.count == 5) continue;
    section.cases.push_back(At(servers, OneInFlight));
  }
  section.comparisons = {Ratio(kThree, kOne, "op p50 µs", "1.4"), Ratio(kFive, kOne, "op p50 µs", "1.8")};
  section.floors = {FloorAt(kThree, kOne, "op p50 µs"), FloorAt(kFive, kOne, "op p50 µs")};
  return section;
}

// A request that is refused makes its row invalid.
Section Ailing(const Setup& setup) {
  Section section{
      "quorum-ailing", "A quorum with a minority that is away or slow: a lone client", kLoneColumns, {}, {}, kNote};
  for (const Servers& servers : {kThree, kFive}) {
    if (setup.size.smoke && servers.count == 5) continue;
    section.cases.push_back(At(servers, OneInFlight));
  }
  for (const Servers& servers : kAiling) {
    if (setup.size.smoke && (servers.count == 5 || servers.ailment != Ailment::kStopped)) continue;
    section.cases.push_back(At(servers, OneInFlight));
    const Servers& well = servers.count == 3 ? kThree : kFive;
    section.comparisons.push_back(Ratio(servers, well, "op p99 µs", "1.0"));
    section.floors.push_back(FloorAt(servers, well, "op p99 µs"));
  }
  return section;
}

Section Hot(const Setup& setup) {
  Section section{
      "quorum-hot",
      "A quorum of independent servers: hot hand-off among 50 parties through two brokers",
      {"p50 µs", "p99 µs", "grants/s", "calls/grant", "least/most", "client CPU", "daemon CPU", "redis CPU"},
      {},
      {},
      std::string(kNote) + " Goal: at most 4 calls for a grant."};
  const size_t parties = setup.size.smoke ? 4 : 50;
  for (const Servers& servers : {kOne, kThree, kFive, Servers{3, Ailment::kStopped}}) {
    if (setup.size.smoke && (servers.count == 5 || servers.ailment != Ailment::kNone)) continue;
    section.cases.push_back(At(servers, [parties](Lab& lab) { return HotHandoff(lab, parties, 2); }));
    if (servers.count == 1) continue;
    section.comparisons.push_back(Ratio(servers, kOne, "p50 µs", servers.count == 3 ? "1.5" : "2.0"));
    section.floors.push_back(FloorAt(servers, kOne, "p50 µs"));
  }
  return section;
}

// The libraries that can keep a lock at several servers.
std::vector<Case> OfLibraries(const Setup& setup, PeerWork work, size_t callers, const std::string& prefix) {
  std::vector<Case> cases;
  if (!setup.peers) return cases;
  for (const Library& library : Libraries()) {
    if (!library.has_quorum) continue;
    cases.push_back({prefix + library.name,
                     [=](Lab& usual) { return LibraryPeer(usual.Quorum(kThree.count), library, work, callers); }});
  }
  return cases;
}

Section Queue(const Setup& setup) {
  Section section{"quorum-queue",
                  "A quorum of independent servers: 50 waiters hold 1 ms each",
                  {"makespan ms", "slowest ms"},
                  {},
                  {},
                  "A perfect queue needs 50 ms. Goal: 80. With --peers also libraries on the same three servers."};
  for (const Servers& servers : {kOne, kThree, kFive, Servers{3, Ailment::kStopped}}) {
    if (setup.size.smoke && servers.count != 3) continue;
    section.cases.push_back(At(servers, [](Lab& lab) { return OneShotQueue(lab); }));
    if (servers.count > 1) section.floors.push_back(FloorAt(servers, kOne, "makespan ms"));
  }
  for (Case& one : OfLibraries(setup, PeerWork::kQueue, 1, "3 servers, ")) section.cases.push_back(std::move(one));
  return section;
}

Section Quiet(const Setup& setup) {
  Section section{"quorum-quiet",
                  "A quorum of independent servers: what 50 waiters of a lock each cost",
                  {"calls/s held", "calls/s waiting", "calls of a lock in 10 s"},
                  {},
                  {},
                  "Calls of scripts at the first server: while another broker holds the locks, and with the waiters; "
                  "the difference for one lock. Goal: 1."};
  section.max_rounds = 1;
  for (const Servers& servers : {kOne, kThree}) {
    if (setup.size.smoke && servers.count == 1) continue;
    section.cases.push_back(At(servers, QuietLocks));
  }
  return section;
}

// What libraries do on the same three servers.
Section Peers(const Setup& setup) {
  Section section{"quorum-peers",
                  "Peers: uncontended pairs on the same three servers",
                  {"pairs/s", "p50 µs", "p99 µs"},
                  {},
                  {},
                  "Callers of one process, each on a lock of its own; latency is of a whole pair."};
  for (const size_t callers : {1, 64}) {
    const std::string prefix = std::to_string(callers) + (callers == 1 ? " caller, " : " callers, ");
    section.cases.push_back({prefix + "through the broker", [=](Lab& usual) {
                               Lab& lab = usual.Quorum(kThree.count);
                               const auto load = BrokerSessions(lab.broker(0).target(), 1, callers, Timed::kPair);
                               Sample sample = Measure(lab, *load, true);
                               sample.values["p50 µs"] = sample.values["op p50 µs"];
                               sample.values["p99 µs"] = sample.values["op p99 µs"];
                               return sample;
                             }});
    for (Case& one : OfLibraries(setup, PeerWork::kPairs, callers, prefix)) section.cases.push_back(std::move(one));
  }
  return section;
}

}  // namespace

std::vector<Section> QuorumSections(const Setup& setup) {
  if (setup.store_delay_us > 0) return {};  // the proxy stands in front of the first server only
  std::vector<Section> sections{Lone(setup), Ailing(setup), Hot(setup), Queue(setup), Quiet(setup)};
  if (setup.peers) sections.push_back(Peers(setup));
  return sections;
}

}  // namespace distlock::bench
