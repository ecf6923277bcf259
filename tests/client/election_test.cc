// SPDX-License-Identifier: Apache-2.0
//
// Elections through a real distlockd.
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "daemon_fixture.h"

namespace distlock {
namespace {

// The leaders that an observer is told.
class Seen {
 public:
  void Add(const std::optional<Leader>& leader) {
    const std::lock_guard lock(mu_);
    values_.push_back(leader ? leader->value : "nobody");
    changed_.notify_all();
  }

  bool WaitForLast(const std::string& value) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, kPatience, [&] { return !values_.empty() && values_.back() == value; });
  }

  std::vector<std::string> All() {
    const std::lock_guard lock(mu_);
    return values_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<std::string> values_;
};

TEST_F(DaemonTest, OneCandidateLeadsAndItsValueIsSeen) {
  Election first = one_.MakeElection("boss", "10.0.0.1", {.owner = "ann"});
  Election second = two_.MakeElection("boss", "10.0.0.2");
  EXPECT_FALSE(second.Look().value().has_value());
  Result<Leadership> leading = first.Campaign();
  ASSERT_TRUE(leading.ok()) << leading.refusal().message;
  EXPECT_EQ(leading->state(), LockState::kHeld);
  const std::optional<Leader> seen = second.Look().value();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->value, "10.0.0.1");
  EXPECT_EQ(seen->owner, "ann");
  EXPECT_EQ(seen->token, leading->token());
  EXPECT_EQ(second.TryCampaign().refusal().reason, RefusalReason::kLockHeld);
  EXPECT_EQ(second.CampaignFor(std::chrono::milliseconds(10)).refusal().reason, RefusalReason::kWaitTimeout);

  const std::stop_token stop = leading->stop_token();
  EXPECT_EQ(leading->Resign(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(stop.stop_requested());
  Result<Leadership> next = second.CampaignFor(kPatience);
  ASSERT_TRUE(next.ok());
  EXPECT_GT(next->token(), seen->token);
  EXPECT_EQ(first.Look().value()->value, "10.0.0.2");
}

TEST_F(DaemonTest, ObserversAreToldWhoLeads) {
  Election election = one_.MakeElection("boss", "first");
  Seen seen;
  Refusal end;
  {
    std::jthread observer([&](const std::stop_token& stop) {
      end = two_.MakeElection("boss").Observe([&](const std::optional<Leader>& leader) { seen.Add(leader); }, stop);
    });
    ASSERT_TRUE(seen.WaitForLast("nobody"));
    Result<Leadership> leading = election.Campaign();
    ASSERT_TRUE(seen.WaitForLast("first"));
    EXPECT_EQ(leading->Proclaim(std::string(2000, 'v'))->reason, RefusalReason::kInvalidArgument);
    EXPECT_EQ(leading->Proclaim("second"), std::nullopt);
    ASSERT_TRUE(seen.WaitForLast("second"));
    EXPECT_EQ(leading->state(), LockState::kHeld);
    EXPECT_EQ(election.Look().value()->token, leading->token());
    EXPECT_EQ(leading->Resign(), ReleaseOutcome::kReleased);
    ASSERT_TRUE(seen.WaitForLast("nobody"));
  }
  EXPECT_EQ(end.reason, RefusalReason::kCancelled);
  EXPECT_EQ(seen.All(), (std::vector<std::string>{"nobody", "first", "second", "nobody"}));
}

TEST_F(DaemonTest, ALookThatIsRefusedNamesTheField) {
  const Result<std::optional<Leader>> leader = one_.MakeElection(std::string(600, 'k')).Look();
  ASSERT_FALSE(leader.ok());
  EXPECT_EQ(leader.refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_FALSE(leader.refusal().field_problems.empty());
}

TEST_F(DaemonTest, LookingFromACallbackIsRefused) {
  Election election = one_.MakeElection("boss");
  std::promise<RefusalReason> promise;
  election.CampaignAsync([&](Result<Leadership>) { promise.set_value(election.Look().refusal().reason); });
  EXPECT_EQ(promise.get_future().get(), RefusalReason::kWouldDeadlock);
}

}  // namespace
}  // namespace distlock
