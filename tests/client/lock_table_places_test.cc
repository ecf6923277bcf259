// SPDX-License-Identifier: Apache-2.0
//
// The lock table: waits that go on in another session, and keep their place in the queue.
#include <set>

#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

class PlacesTest : public LockTableTest {
 protected:
  PlacesTest() : LockTableTest(2) {}

  // A lease, as 2, and a wait, as 3, when the former broker drains and a session is opened at the next one. The lease
  // moves as 5.
  LeasePtr MoveAWait() {
    const LeasePtr held = Acquire("a");
    Grant(held);
    const LeasePtr waits = Acquire("b");
    Drain();
    Say("draining { time_left { seconds: 30 } }", kFormer);
    Start();
    Say(kOpened, kNext);
    EXPECT_EQ(Drain(kNext), (Strings{"open", "acquire 3", "adopt 5: lease-2 as request 1"}));
    return waits;
  }

  // Ids of acquires that wait to be sent.
  Strings RequestIds(int link) {
    Strings ids;
    for (v1::SessionRequest message; table_.Pack(now_, link, message); message.Clear()) {
      for (const v1::SessionCommand& c : message.commands()) {
        if (c.has_acquire()) ids.push_back(c.acquire().request_id());
      }
    }
    return ids;
  }
};

TEST_F(PlacesTest, WaitsAreSentAgainUnderTheSameRequestIds) {
  Acquire("a");
  Acquire("b");
  AcquireAll({"c", "d"});
  Acquire("tried once", std::chrono::seconds(0));
  const Strings first = RequestIds(kFormer);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 4u) << "each its own, and one try has none";
  EXPECT_EQ(first[3], "");
  for (const std::string& id : {first[0], first[1], first[2]}) {
    EXPECT_GE(id.size(), 16u);
    EXPECT_LE(id.size(), 64u);
  }
  Say("draining { time_left { seconds: 30 } }", kFormer);
  Start();
  EXPECT_EQ(RequestIds(kNext), first);
  Break(kNext);
  Start();
  EXPECT_EQ(RequestIds(table_.present()), first);
}

TEST_F(PlacesTest, AGrantThatCrossesTheMoveIsGivenBackWhenTheNextBrokerHasTheRequest) {
  const LeasePtr waits = MoveAWait();
  SayGranted(waits->id, kFormer);
  EXPECT_EQ(answers_, Strings{"granted"}) << "never believed in";
  SayGranted(5, kNext);
  EXPECT_EQ(Drain(kFormer), Strings{}) << "released now, it would go to whoever is next";
  Say("id: 3 queued {}", kNext);
  EXPECT_EQ(Drain(kFormer), Strings{"release 3"});
  Say("id: 6 released { outcome: RELEASE_OUTCOME_RELEASED }", kFormer);
  EXPECT_EQ(Drain(kFormer), Strings{"goodbye"});
  SayGranted(3, kNext);
  EXPECT_EQ(answers_, (Strings{"granted", "granted"}));
}

TEST_F(PlacesTest, AGrantByTheFormerBrokerThatComesLaterIsGivenBackAtOnce) {
  const LeasePtr waits = MoveAWait();
  Say("id: 3 queued {}", kNext);
  SayGranted(waits->id, kFormer);
  EXPECT_EQ(Drain(kFormer), Strings{"release 3"});
  EXPECT_EQ(answers_, Strings{"granted"});
}

}  // namespace
}  // namespace distlock::internal
