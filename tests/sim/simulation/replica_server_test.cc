// SPDX-License-Identifier: Apache-2.0
//
// Whom a server that replicates counts as its replicas.
#include "simulation/replica_server.h"

#include <gtest/gtest.h>

#include <string>

#include "store/redis/wire_value.h"

namespace distlock::sim {
namespace {

constexpr int kAdministrator = 1'000'000;

// The bytes of its first connection come up to 20 s later than that ended, beside the messages of the next one.
TEST(ReplicaServerTest, AReplicaThatHasConnectedAgainStaysWhenItsFirstConnectionIsHeardLate) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Env env{seed, false};
    env.trouble = true;
    env.temper.calm = true;
    env.temper.ttls = {seconds(2)};
    env.temper.shortest_delay = milliseconds(1);
    env.temper.usual_delay = milliseconds(2);
    env.temper.late_bytes = 1;
    env.temper.longest_late = seconds(20);
    ReplicaServer primary(env, 0, "server-0");
    ReplicaServer replica(env, 1, "server-1");
    const auto pass = [&](Duration time) { env.time.Run(env.now() + time, [] { return false; }); };

    env.apart = {primary.actor()};
    env.apart_until = env.now() + seconds(3);
    replica.Follow(primary, false);
    pass(seconds(1));
    replica.HangUp(milliseconds(20));
    pass(seconds(40));
    const store::ReplyPtr info = primary.model().Execute(kAdministrator, {"INFO", "replication"});
    EXPECT_NE(store::Text(*info).find("connected_slaves:1"), std::string::npos) << seed << ": " << store::Text(*info);
  }
}

}  // namespace
}  // namespace distlock::sim
