// SPDX-License-Identifier: Apache-2.0
//
// One server after the other is restarted without its data, each once the one before counts again: whoever holds a lock
// keeps it, although no server has it from its first grant in the end.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "quorum/broker.h"

namespace distlock::sim::quorum {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kShortTtl = seconds(3);
constexpr Duration kHoldOff = kShortTtl + milliseconds(10);
// Until it counts again, and the next renewal has repaired what it lost.
constexpr Duration kPause = kHoldOff + kShortTtl;

class RollingRestart : public testing::TestWithParam<size_t>, public Judge {
 protected:
  RollingRestart() {
    for (size_t node = 0; node < GetParam(); ++node) servers_.push_back(std::make_unique<Server>(course_, node + 1));
    const Broker::Setting setting{.number = 0, .config = {.nodes = GetParam(), .longest_ttl = kShortTtl}, .clock = {}};
    broker_ = std::make_unique<Broker>(course_, dice_, weather_, servers_, setting, this);
  }

  std::unique_ptr<Request> MakeRequest(Duration hold) const {
    auto request = std::make_unique<Request>();
    request->name = core::LockName::Encode("default", "k");
    request->owner[0] = 1;
    request->want.mode = core::Mode::kExclusive;
    request->ttl = kShortTtl;
    request->hold = hold;
    return request;
  }

  void Restart(size_t node) {
    servers_[node]->Forget();
    servers_[node]->held_off_until_us =
        servers_[node]->NowUs() + std::chrono::duration_cast<microseconds>(kHoldOff).count();
    broker_->wire(node).Break(milliseconds(20));
  }

  void OnGranted(Request&) override { ++granted_; }
  void OnEnded(Request&) override { ended_ = course_.now(); }
  void OnDone(Request&, const std::string& how) override { done_ = how; }
  void Log(const std::string&) override {}

  Dice dice_{1};
  Course course_;
  Weather weather_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::unique_ptr<Broker> broker_;
  int granted_ = 0;
  Instant ended_{};
  std::string done_;
};

TEST_P(RollingRestart, TheHolderKeepsItsGrant) {
  const Duration hold = kPause * static_cast<int>(2 * GetParam() + 1);
  broker_->Start();
  course_.After(milliseconds(500), [&] { broker_->Begin(MakeRequest(hold)); });
  for (size_t i = 0; i < 2 * GetParam(); ++i) {
    course_.After(seconds(1) + kPause * static_cast<int>(i), [this, i] { Restart(i % GetParam()); });
  }
  const Instant start = course_.now();
  while (done_.empty() && course_.Next(start + hold + seconds(60))) {
  }
  EXPECT_EQ(granted_, 1);
  EXPECT_EQ(done_, "released");
  EXPECT_GE(ended_ - start, hold) << "it was lost";
}

INSTANTIATE_TEST_SUITE_P(Of, RollingRestart, testing::Values(3, 5),
                         [](const auto& servers) { return std::to_string(servers.param) + "Servers"; });

}  // namespace
}  // namespace distlock::sim::quorum
