// SPDX-License-Identifier: Apache-2.0
// Rows of locks that brokers keep for a moment after their release, beside the same without.
#include <stdexcept>
#include <string>

#include "bench/direct.h"
#include "bench/linger.h"
#include "bench/relay.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

Sample Echoed(const Lab& lab, size_t clients) {
  try {
    const Relay relay(lab);
    const auto load = EchoClients(lab, relay.target(), clients);
    return Measure(lab.size(), {lab.redis_pid(), {relay.pid()}}, *load);
  } catch (const std::runtime_error& e) {
    return {{}, e.what(), ""};
  }
}

Section Kept(const Setup& setup) {
  Section section{
      "linger",
      "Locks that linger: the next lease of the same broker is given them without asking the store",
      {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"},
      {},
      {},
      "CPU columns are microseconds per pair; the client is this process. The relay sends each message back: no "
      "broker behind gRPC can be faster. Goal of a lone client with the store 0.5 ms away: 8 times direct "
      "ones."};
  struct Shape {
    size_t sessions, in_flight;
  };
  for (const Shape& shape : {Shape{1, 1}, Shape{64, 1}, Shape{1, 64}}) {
    if (setup.size.smoke && shape.sessions * shape.in_flight > 1) continue;
    const std::string n = std::to_string(shape.sessions) + " x " + std::to_string(shape.in_flight);
    const std::string kept = n + ", kept for 50 ms";
    const std::string plain = n + ", given back at once";
    const std::string direct = n + " direct, SET NX + compare-and-delete";
    section.cases.push_back(
        {kept, [=](Lab& lab) { return KeptLocks(lab, Keeps::kFor50Ms, shape.sessions, shape.in_flight); }});
    section.cases.push_back(
        {plain, [=](Lab& lab) { return KeptLocks(lab, Keeps::kNothing, shape.sessions, shape.in_flight); }});
    section.comparisons.push_back({n + " against given back at once", Kind::kRatio, kept, plain, "pairs/s", "", ""});
    if (shape.in_flight > 1) continue;
    const std::string echo = n + ", a bare relay that asks nobody";
    section.cases.push_back({echo, [=](Lab& lab) { return Echoed(lab, shape.sessions); }});
    section.floors.push_back({kept, echo, "pairs/s", ""});
    section.cases.push_back({direct, [=](Lab& lab) {
                               const auto load = DirectSync(lab, DirectKind::kSetNx, shape.sessions);
                               return Measure(lab, *load, false);
                             }});
    section.comparisons.push_back({n + " against SET NX", Kind::kRatio, kept, direct, "pairs/s", "", ""});
  }
  if (setup.size.smoke) return section;
  const std::string kept = "64 readers of one lock, 1 session, covered";
  const std::string plain = "64 readers of one lock, 1 session, each in the store";
  section.cases.push_back({kept, [](Lab& lab) { return SharedLock(lab, Keeps::kFor50Ms, 64); }});
  section.cases.push_back({plain, [](Lab& lab) { return SharedLock(lab, Keeps::kNothing, 64); }});
  section.comparisons.push_back({"64 readers against each in the store", Kind::kRatio, kept, plain, "pairs/s", "", ""});
  section.comparisons.push_back(
      {"64 readers against 64 mutexes", Kind::kRatio, kept, "1 x 64, kept for 50 ms", "pairs/s", "", ""});
  return section;
}

Section Recalled(const Setup&) {
  const std::string kept = "the other broker has kept it";
  const std::string plain = "the other broker has given it back";
  return {.id = "linger-recall",
          .title = "Locks that linger: taken through another broker",
          .columns = {"p50 µs", "p99 µs", "trip µs", "p50 in trips", "p99 in trips"},
          .cases = {{kept, [](Lab& lab) { return Recalls(lab, Keeps::kFor50Ms); }},
                    {plain, [](Lab& lab) { return Recalls(lab, Keeps::kNothing); }}},
          .comparisons = {{"added by the recall, p50 µs", Kind::kDifference, kept, plain, "p50 µs", "", ""},
                          {"added by the recall, p99 µs", Kind::kDifference, kept, plain, "p99 µs", "", ""}},
          .notes =
              "From request to grant. A trip is a PING to the store. Goal of what the recall adds: p50 at most 1.5 "
              "trips and 0.1 ms, p99 3 trips.",
          .floors = {{kept, plain, "p50 µs", ""}}};
}

Section Turns(const Setup&) {
  return {.id = "linger-turns",
          .title = "Locks that linger: two callers in turn, each through a broker of its own",
          .columns = {"pairs/s", "p99 µs", "messages/s"},
          .cases = {{"kept for 50 ms", [](Lab& lab) { return InTurn(lab, Keeps::kFor50Ms); }},
                    {"given back at once", [](Lab& lab) { return InTurn(lab, Keeps::kNothing); }}},
          .comparisons = {{"against given back at once", Kind::kRatio, "kept for 50 ms", "given back at once",
                           "pairs/s", "0.98", ""}},
          .notes =
              "A recall is two messages: itself, and the hand-off that follows. Goal: at most one a second of each "
              "broker.",
          .floors = {{"kept for 50 ms", "given back at once", "pairs/s", ""}}};
}

}  // namespace

std::vector<Section> LingerSections(const Setup& setup) { return {Kept(setup), Recalled(setup), Turns(setup)}; }

}  // namespace distlock::bench
