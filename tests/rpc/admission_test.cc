// SPDX-License-Identifier: Apache-2.0
#include "rpc/admission.h"

#include <gtest/gtest.h>

#include <string>

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(AdmissionTest, CountsByHost) {
  EXPECT_EQ(PeerHost("ipv4:10.0.0.1:4711"), "ipv4:10.0.0.1");
  EXPECT_EQ(PeerHost("ipv6:%5B::1%5D:4711"), "ipv6:%5B::1%5D");
  EXPECT_EQ(PeerHost("ipv6:2001:db8:0:1::/64"), "ipv6:2001:db8:0:1::/64");
  EXPECT_EQ(PeerHost("unix:"), "unix:");
  EXPECT_EQ(PeerHost("unix:uid=1000,pid=17"), "unix:uid=1000");

  contract::Limits limits;
  limits.max_sessions = 3;
  limits.max_sessions_per_peer = 2;
  Admission admission(limits);
  EXPECT_FALSE(admission.Admit("ipv4:1.1.1.1:1", 1, {}));
  EXPECT_FALSE(admission.Admit("ipv4:1.1.1.1:2", 2, {}));
  EXPECT_TRUE(admission.Admit("ipv4:1.1.1.1:3", 3, {}));
  admission.Leave("ipv4:1.1.1.1:3", 3);
  EXPECT_FALSE(admission.Admit("ipv4:2.2.2.2:1", 4, {}));
  EXPECT_TRUE(admission.Admit("ipv4:3.3.3.3:1", 5, {})) << "in all";
  admission.Leave("ipv4:1.1.1.1:1", 1);
  admission.Leave("ipv4:1.1.1.1:1", 1);
  EXPECT_EQ(admission.streams(), 2u);
  EXPECT_FALSE(admission.Admit("ipv4:1.1.1.1:9", 6, {}));
  admission.Drain();
  EXPECT_EQ(admission.Admit("ipv4:9.9.9.9:9", 7, {})->reason(), v1::REFUSAL_REASON_DRAINING);
}

TEST(AdmissionTest, UsersOfASocketAndWatchersAreCountedApart) {
  contract::Limits limits;
  limits.max_sessions_per_peer = 1;
  Admission admission(limits);
  EXPECT_FALSE(admission.Admit("unix:uid=1,pid=7", 1, {}));
  EXPECT_TRUE(admission.Admit("unix:uid=1,pid=8", 2, {})) << "another process of the same user";
  EXPECT_FALSE(admission.Admit("unix:uid=2,pid=9", 3, {})) << "another user";
  EXPECT_FALSE(admission.Admit("unix:uid=1,pid=8", 4, {}, /*watch=*/true)) << "who watches takes no lock from anybody";
  EXPECT_TRUE(admission.Admit("unix:uid=1,pid=8", 5, {}, /*watch=*/true));
  admission.Leave("unix:uid=1,pid=8", 4);
  EXPECT_FALSE(admission.Admit("unix:uid=1,pid=8", 6, {}, /*watch=*/true));
  EXPECT_TRUE(admission.Admit("unix:uid=1,pid=8", 7, {}));
}

TEST(AdmissionTest, CountsWaitingCallsByHost) {
  contract::Limits limits;
  limits.max_waiting_calls = 3;
  limits.max_waiting_calls_per_peer = 2;
  Admission admission(limits);
  const core::Instant now{seconds(1000)};
  EXPECT_FALSE(admission.AdmitCall("ipv4:1.1.1.1:1", now));
  EXPECT_FALSE(admission.AdmitCall("ipv4:1.1.1.1:2", now));
  EXPECT_EQ(admission.AdmitCall("ipv4:1.1.1.1:3", now)->reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
  EXPECT_FALSE(admission.AdmitCall("ipv4:2.2.2.2:1", now));
  EXPECT_TRUE(admission.AdmitCall("ipv4:3.3.3.3:1", now)) << "in all";
  admission.LeaveCall("ipv4:1.1.1.1:1", now);
  EXPECT_FALSE(admission.AdmitCall("ipv4:3.3.3.3:1", now));
}

TEST(AdmissionTest, ARateOutlivesTheCallsOfItsHost) {
  contract::Limits limits;
  limits.requests_per_second = 2;
  Admission admission(limits);
  core::Instant now{seconds(1000)};
  const auto call = [&](const std::string& peer) {
    const auto refusal = admission.AdmitCall(peer, now);
    if (!refusal) admission.LeaveCall(peer, now);
    return !refusal;
  };
  EXPECT_TRUE(call("ipv4:1.1.1.1:1"));
  EXPECT_TRUE(call("ipv4:1.1.1.1:2"));
  EXPECT_FALSE(call("ipv4:1.1.1.1:3"));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(call("ipv4:2.2.2." + std::to_string(i) + ":1"));
  EXPECT_FALSE(call("ipv4:1.1.1.1:3")) << "hosts that come and go make nothing forgotten";
  now += milliseconds(600);
  EXPECT_TRUE(call("ipv4:1.1.1.1:4"));
  EXPECT_FALSE(call("ipv4:1.1.1.1:5"));
}

TEST(AdmissionTest, PrefixWatchesAreCounted) {
  contract::Limits limits;
  limits.max_prefix_watches = 1;
  Admission admission(limits);
  EXPECT_FALSE(admission.AdmitPrefixWatch());
  const auto refusal = admission.AdmitPrefixWatch();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
  EXPECT_NE(refusal->message().find("limit max-prefix-watches"), std::string::npos);
  admission.LeavePrefixWatch();
  EXPECT_FALSE(admission.AdmitPrefixWatch());
}

}  // namespace
}  // namespace distlock::rpc
