// SPDX-License-Identifier: Apache-2.0
//
// Connections and the bytes written to them, and processes that stand still with what comes meanwhile.
#include "simulation/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distlock::sim {
namespace {

class Machine : public Process {
 public:
  Machine(Env& env, const std::string& name) : Process(env, Actor::Kind::kBroker, name) { Live(); }
  void Kill() { Die(); }
  void Start() { Live(); }
};

class WireTest : public testing::Test {
 protected:
  WireTest() {
    env_.trouble = true;
    env_.temper.shortest_delay = milliseconds(1);
    env_.temper.usual_delay = milliseconds(2);
    env_.temper.late_bytes = 1;
    env_.temper.longest_late = seconds(20);
  }
  void Pass(Duration time) {
    env_.time.Run(env_.now() + time, [] { return false; });
  }
  void Say(const WirePtr& wire, const std::string& word) {
    wire->Send(Wire::kClient, [this, word] { heard_.push_back(word); });
  }
  WirePtr Connect() {
    WirePtr wire = Wire::Connect(env_, client_, server_);
    wire->on_closed[Wire::kServer] = [this] { heard_.emplace_back("end"); };
    return wire;
  }

  Env env_{1, false};
  Machine client_{env_, "client"};
  Machine server_{env_, "server"};
  std::vector<std::string> heard_;
};

using Words = std::vector<std::string>;

TEST_F(WireTest, WhatWasWrittenBeforeACloseArrivesBehindWhatTheNextConnectionSays) {
  WirePtr first = Connect();
  for (const char* word : {"a", "b", "c"}) Say(first, word);
  first->Close(Wire::kClient);
  first.reset();
  const WirePtr second = Connect();
  Say(second, "d");
  Pass(seconds(21));
  EXPECT_EQ(heard_, Words({"d", "a", "b", "c", "end"}));
}

TEST_F(WireTest, OfAConnectionThatBreaksTheAnswersAreLostAlone) {
  const WirePtr wire = Connect();
  bool answered = false;
  wire->Send(Wire::kClient, [&] {
    heard_.emplace_back("asked");
    wire->Send(Wire::kServer, [&] { answered = true; });
  });
  bool noticed = false;
  wire->on_closed[Wire::kClient] = [&] { noticed = true; };
  wire->Break(milliseconds(20));
  Pass(milliseconds(20));
  EXPECT_TRUE(noticed);
  Pass(seconds(21));
  EXPECT_EQ(heard_, Words({"asked", "end"}));
  EXPECT_FALSE(answered);
}

TEST_F(WireTest, OfACloseNothingArrivesLateWhenAllIsWell) {
  env_.trouble = false;
  const WirePtr wire = Connect();
  Say(wire, "a");
  wire->Finish(Wire::kClient);
  Pass(milliseconds(10));
  EXPECT_EQ(heard_, Words({"a", "end"}));
}

TEST_F(WireTest, TheEndIsHeardBehindMessagesThatAreDelayedAfterIt) {
  const WirePtr wire = Connect();
  Say(wire, "a");
  wire->Finish(Wire::kClient);
  wire->Silence(Wire::kClient, env_.now() + seconds(5));
  Pass(seconds(4));
  EXPECT_EQ(heard_, Words());
  Pass(seconds(2));
  EXPECT_EQ(heard_, Words({"a", "end"}));
}

// As of a broker whose census waits behind the requests that came while it stood still.
TEST(ProcessTest, WhatCameDuringAPauseMayBeDoneBeforeTheTimersThatWereDue) {
  Words orders;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    Env env(seed, false);
    env.temper.late_timers = true;
    Machine machine(env, "machine");
    std::string order;
    machine.PostAfter(seconds(1), [&] { order += "timer "; });
    machine.Pause(seconds(30));
    env.time.After(seconds(2), [&] { machine.Post([&] { order += "request "; }); });
    env.time.Run(env.now() + seconds(31), [] { return false; });
    orders.push_back(order);
    EXPECT_EQ(env.all_run_at, kDawn + seconds(30));
  }
  EXPECT_TRUE(std::ranges::find(orders, "timer request ") != orders.end());
  EXPECT_TRUE(std::ranges::find(orders, "request timer ") != orders.end());
}

TEST(ProcessTest, WhatIsDueWhileItIsDeadIsLost) {
  Env env(1, false);
  Machine machine(env, "machine");
  std::string order;
  machine.Kill();
  machine.PostAfter(seconds(1), [&] { order += "lost "; });
  env.time.Run(env.now() + seconds(2), [] { return false; });
  machine.Start();
  machine.Post([&] { order += "new"; });
  EXPECT_EQ(order, "new");
}

}  // namespace
}  // namespace distlock::sim
