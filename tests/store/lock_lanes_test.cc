// SPDX-License-Identifier: Apache-2.0
//
// The commands of one lock while its slot moves: every interleaving of their sending, running, answering and of the
// moves is tried.
#include "store/cluster/lock_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "store/text.h"

namespace distlock::store {
namespace {

using Id = LockLanes::CommandId;
using Step = LockLanes::Step;

const core::LockName kLock = core::LockName::Encode("default", "k");

// Two nodes, one connection to each, and the router with its lanes. A value: each branch of the search has a copy.
struct Sim {
  enum class Says { kRan, kMoved, kAsk };
  struct Sent {
    Id id;
    bool asking;
  };
  struct Reply {
    Id id;
    Says says;
  };

  LockLanes lanes;
  NodeNumber map = 0;       // where the router believes the slot is
  NodeNumber owner = 0;     // where it is
  bool on_its_way = false;  // the lock's keys are at the other node already
  std::array<std::deque<Sent>, 2> inbox;
  std::array<std::deque<Reply>, 2> replies;
  Id submitted = 0;
  std::vector<Id> ran;
  std::map<Id, std::string> answers;
  std::string trouble;
  std::string told;  // all that the lanes were told, in order: their state follows from it

  void Submit() {
    const Id id = ++submitted;
    Append(told, "s", id, "@", map);
    if (lanes.Enter(kLock, id, map)) inbox[map].push_back({id, false});
  }

  void Answer(Id id, const std::string& what) {
    if (!answers.emplace(id, what).second) trouble = Cat("command ", id, " is answered twice");
  }

  void Perform(const LockLanes::Steps& steps) {
    for (const Step& step : steps) {
      if (step.what == Step::What::kFail) {
        Answer(step.id, "failed");
        if (std::ranges::find(ran, step.id) != ran.end()) trouble = Cat("command ", step.id, " has run and failed");
      } else {
        inbox[step.node].push_back({step.id, step.what == Step::What::kSendAsking});
      }
    }
  }

  // The node takes the next command from its connection.
  void Run(NodeNumber node) {
    const Sent sent = inbox[node].front();
    inbox[node].pop_front();
    const bool here = owner == node ? !on_its_way : on_its_way && sent.asking;
    if (here) {
      if (std::ranges::find(ran, sent.id) != ran.end()) trouble = Cat("command ", sent.id, " runs twice");
      ran.push_back(sent.id);
      if (!std::ranges::is_sorted(ran)) trouble = Cat("command ", sent.id, " runs after a later one");
    }
    replies[node].push_back({sent.id, here ? Says::kRan : owner == node ? Says::kAsk : Says::kMoved});
  }

  void Deliver(NodeNumber node) {
    const Reply reply = replies[node].front();
    replies[node].pop_front();
    Append(told, "d", reply.id, "@", map, static_cast<int>(reply.says));
    LockLanes::Steps steps;
    const auto other = static_cast<NodeNumber>(1 - node);
    if (reply.says == Says::kRan) {
      lanes.Answered(kLock, reply.id, map, steps);
      Perform(steps);
      return Answer(reply.id, "ran");
    }
    if (reply.says == Says::kMoved) map = other;
    lanes.Redirected(kLock, reply.id, reply.says == Says::kAsk ? std::optional(other) : std::nullopt, map, steps);
    Perform(steps);
  }

  // For the set of states that were seen.
  std::string Key() const {
    std::string key = Cat(told, " ", map, owner, on_its_way ? 1 : 0, " ");
    for (const auto& box : inbox) {
      for (const Sent& sent : box) Append(key, sent.id, sent.asking ? "a" : "", ",");
      key += '/';
    }
    for (const auto& box : replies) {
      for (const Reply& reply : box) Append(key, reply.id, ":", static_cast<int>(reply.says), ",");
      key += '/';
    }
    for (const Id id : ran) Append(key, id, ".");
    return key;
  }
};

struct Search {
  Id commands;
  int moves;      // the slot's moves from node to node, at most
  int in_steps;   // of these, as many as this with a time in which the keys are at the other node
  int refreshes;  // the router's map becomes right by itself, at most
  size_t ends = 0;
  size_t fails = 0;
  std::set<std::string> seen;

  void Go(const Sim& sim, int moved, int stepped, int refreshed, int depth) {
    ASSERT_EQ(sim.trouble, "") << sim.Key();
    ASSERT_LT(depth, 200) << "it does not end";
    if (!seen.insert(Cat(sim.Key(), " ", moved, " ", stepped, " ", refreshed)).second) return;
    bool over = true;
    const auto go = [&](auto&& change, int m, int s, int r) {
      over = false;
      Sim next = sim;
      change(next);
      Go(next, m, s, r, depth + 1);
    };
    if (sim.submitted < commands) go([](Sim& s) { s.Submit(); }, moved, stepped, refreshed);
    for (const NodeNumber node : {NodeNumber{0}, NodeNumber{1}}) {
      if (!sim.inbox[node].empty()) go([node](Sim& s) { s.Run(node); }, moved, stepped, refreshed);
      if (!sim.replies[node].empty()) go([node](Sim& s) { s.Deliver(node); }, moved, stepped, refreshed);
    }
    const bool idle = over;
    if (moved < moves && !sim.on_its_way) {
      go([](Sim& s) { s.owner = static_cast<NodeNumber>(1 - s.owner); }, moved + 1, stepped, refreshed);
    }
    if (moved < moves && stepped < in_steps && !sim.on_its_way) {
      go([](Sim& s) { s.on_its_way = true; }, moved + 1, stepped + 1, refreshed);
    }
    if (sim.on_its_way) {
      go([](Sim& s) { s.on_its_way = false, s.owner = static_cast<NodeNumber>(1 - s.owner); }, moved, stepped,
         refreshed);
    }
    if (refreshed < refreshes && sim.map != sim.owner) {
      go([](Sim& s) { s.map = s.owner; }, moved, stepped, refreshed + 1);
    }
    if (!idle) return;
    ++ends;
    ASSERT_EQ(sim.answers.size(), commands) << "not all are answered: " << sim.Key();
    EXPECT_EQ(sim.lanes.size(), 0u) << "a lane is left behind";
    for (const auto& [id, what] : sim.answers) {
      fails += what == "failed";
      if (what == "ran") {
        EXPECT_TRUE(std::ranges::find(sim.ran, id) != sim.ran.end());
      }
    }
  }
};

// Else a listing of the tests shows the bytes of the object.
void PrintTo(const Search& search, std::ostream* out) {
  *out << search.commands << " commands, " << search.moves << " moves";
}

class LockLanesSearch : public testing::TestWithParam<Search> {};

// Fails when a redirected acquire is sent again after the withdraw behind it was answered: nobody expects that grant.
TEST_P(LockLanesSearch, NoCommandRunsAfterALaterOneOrTwiceAndEachIsAnsweredOnce) {
  Search search = GetParam();
  search.Go(Sim{}, 0, 0, 0, 0);
  EXPECT_GT(search.ends, 5u);
  printf("%zu states, %zu ends, %zu commands that failed\n", search.seen.size(), search.ends, search.fails);
}

INSTANTIATE_TEST_SUITE_P(AcquireAndWithdraw, LockLanesSearch,
                         testing::Values(Search{.commands = 2, .moves = 1, .in_steps = 0, .refreshes = 1},
                                         Search{.commands = 2, .moves = 1, .in_steps = 1, .refreshes = 1},
                                         Search{.commands = 2, .moves = 3, .in_steps = 1, .refreshes = 2}));
INSTANTIATE_TEST_SUITE_P(ThreeCommands, LockLanesSearch,
                         testing::Values(Search{.commands = 3, .moves = 1, .in_steps = 1, .refreshes = 1},
                                         Search{.commands = 3, .moves = 2, .in_steps = 1, .refreshes = 1}));

// ---- One by one ----

class LockLanesTest : public testing::Test {
 protected:
  std::string Of(const LockLanes::Steps& steps) {
    std::string text;
    for (const Step& step : steps) {
      Append(text, text.empty() ? "" : " ", step.what == Step::What::kFail ? "fail" : "send", step.id);
      if (step.what != Step::What::kFail) Append(text, "@", step.node);
      if (step.what == Step::What::kSendAsking) text += "?";
    }
    return text;
  }
  std::string Answered(Id id, NodeNumber map) {
    LockLanes::Steps steps;
    lanes_.Answered(kLock, id, map, steps);
    return Of(steps);
  }
  std::string Redirected(Id id, NodeNumber map, std::optional<NodeNumber> ask_at = {}) {
    LockLanes::Steps steps;
    lanes_.Redirected(kLock, id, ask_at, map, steps);
    return Of(steps);
  }
  LockLanes lanes_;
};

TEST_F(LockLanesTest, WithoutMovesNothingWaits) {
  EXPECT_TRUE(lanes_.Enter(kLock, 1, 0));
  EXPECT_TRUE(lanes_.Enter(kLock, 2, 0));
  EXPECT_EQ(Answered(1, 0), "");
  EXPECT_EQ(Answered(2, 0), "");
  EXPECT_EQ(lanes_.size(), 0u);
}

TEST_F(LockLanesTest, AfterAMoveOfTheMapTheNextOneWaitsForWhatIsOut) {
  EXPECT_TRUE(lanes_.Enter(kLock, 1, 0));
  EXPECT_FALSE(lanes_.Enter(kLock, 2, 1));
  EXPECT_TRUE(lanes_.Enter(core::LockName::Encode("default", "other"), 3, 1)) << "another lock does not wait";
  EXPECT_EQ(Answered(1, 1), "send2@1");
}

TEST_F(LockLanesTest, RedirectedOnesGoAgainTogetherInTheirOrder) {
  EXPECT_TRUE(lanes_.Enter(kLock, 1, 0));
  EXPECT_TRUE(lanes_.Enter(kLock, 2, 0));
  EXPECT_EQ(Redirected(1, 1), "");
  EXPECT_FALSE(lanes_.Enter(kLock, 3, 1));
  EXPECT_EQ(Redirected(2, 1), "send1@1 send2@1 send3@1");
}

TEST_F(LockLanesTest, WhatALaterOneHasOvertakenFails) {
  EXPECT_TRUE(lanes_.Enter(kLock, 1, 0));
  EXPECT_TRUE(lanes_.Enter(kLock, 2, 0));
  EXPECT_EQ(Redirected(1, 0), "");
  EXPECT_EQ(Answered(2, 0), "fail1");
  EXPECT_EQ(lanes_.size(), 0u);
}

TEST_F(LockLanesTest, AskingGoesAlone) {
  EXPECT_TRUE(lanes_.Enter(kLock, 1, 0));
  EXPECT_EQ(Redirected(1, 0, 1), "send1@1?");
  EXPECT_FALSE(lanes_.Enter(kLock, 2, 0));
  EXPECT_EQ(Answered(1, 0), "send2@0");
}

TEST_F(LockLanesTest, AtMostThreeRedirects) {
  EXPECT_TRUE(lanes_.Enter(kLock, 1, 0));
  EXPECT_EQ(Redirected(1, 1), "send1@1");
  EXPECT_EQ(Redirected(1, 0), "send1@0");
  EXPECT_EQ(Redirected(1, 1), "send1@1");
  EXPECT_FALSE(lanes_.Enter(kLock, 2, 0)) << "the map may be right again, but the first is still out";
  EXPECT_EQ(Redirected(1, 0), "fail1 send2@0");
}

}  // namespace
}  // namespace distlock::store
