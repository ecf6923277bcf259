// SPDX-License-Identifier: Apache-2.0
//
// One simulation from one seed, in virtual time: brokers with the production ballot, encoding and decoding, and servers
// that are the Redis model with the production scripts, each with a clock of its own. What stands above the ballot is a
// plain client that believes as the core does: until the last promise ends, by its broker's clock.
//
// Between them connections are slow, break or stall with commands in them, which may still run up to 20 s later, in
// order, beside the next connection; they lose answers and notices. Each of that befalls one server or, of one broker,
// all at once. Clients repeat a request under the same owner, through any broker. Servers pause, are restarted empty,
// and a minority has its clocks set. Brokers look at a clock once a second, while it can answer, and a clock is not set
// again before all of them have seen it: one that is set there and back between two looks is a limit of the product.
// Checked are
//  1. exclusion: no two conflicting clients believe at once;
//  2. tokens: a grant's token is greater than those of all conflicting grants before it, and no two are equal;
//  3. order: without faults, an EXCLUSIVE waiter that came when another one had its place is not served before it;
//  4. service: once the faults are over, everybody is served;
//  5. nothing is left in the end: in the ballots, or at the servers but for last tokens;
//  6. traffic: votes do not go round for ever among waiters.
#pragma once

#include <cstdint>
#include <string>

namespace distlock::sim::quorum {

struct Findings {
  std::string fault;  // "": none
  uint64_t grants = 0;
  uint64_t refusals = 0;
  uint64_t losses = 0;
  uint64_t commands = 0;  // to servers
  size_t requests = 0;
};

// `log`: tells every event on standard output.
Findings RunSimulation(uint64_t seed, bool log = false);

}  // namespace distlock::sim::quorum
