// SPDX-License-Identifier: Apache-2.0
#include "core/detached_reentry.h"

#include <gtest/gtest.h>

namespace distlock::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr OwnerId kOwner = {7};
constexpr DetachedLease kLease{.owner = kOwner, .token = 5, .ttl = seconds(15), .hold_count = 1};

LockView View(Duration time_left = seconds(15), Duration lock_delay = {}) {
  LockView view;
  view.name = LockName::Encode("ns", "key");
  view.holders = {{.owner = {3}, .token = 4},
                  {.owner = kOwner, .token = 5, .ttl = seconds(15), .lock_delay = lock_delay, .time_left = time_left}};
  view.holder_count = 2;
  return view;
}

std::variant<Granted, Refused> Take(const LockView& view, Want wants = {}, Want has = {}, uint32_t drift = 500) {
  return TakeDetachedAgain(view, kLease, wants, [&](const HolderView&) { return has; }, drift);
}

RefusalReason WhyNot(const std::variant<Granted, Refused>& decided) { return std::get<Refused>(decided).reason; }

TEST(DetachedReentry, IsAnotherHoldOfTheSameGrant) {
  const auto granted = std::get<Granted>(Take(View()));
  EXPECT_EQ(granted.owner, kOwner);
  EXPECT_EQ(granted.token, 5u);
  EXPECT_EQ(granted.hold_count, 2u);
  EXPECT_TRUE(IsHeld(View(), kLease));
}

TEST(DetachedReentry, IsPromisedForLessThanTheStoreKeepsIt) {
  const auto valid_for = [](const LockView& view, uint32_t drift) {
    return std::get<Granted>(Take(view, {}, {}, drift)).valid_for;
  };
  EXPECT_EQ(valid_for(View(), 500), milliseconds(15'000 - 15 - 2));
  EXPECT_EQ(valid_for(View(), 10'000), milliseconds(15'000 - 300 - 2));
  EXPECT_EQ(valid_for(View(seconds(10), seconds(4)), 500), milliseconds(6'000 - 6 - 2))
      << "the delay comes after the end";
  EXPECT_EQ(valid_for(View(seconds(60)), 500), milliseconds(15'000 - 15 - 2)) << "no longer than the ttl";
  EXPECT_EQ(valid_for(View(milliseconds(1)), 500), Duration::zero());
}

TEST(DetachedReentry, NeedsTheLease) {
  LockView gone = View();
  gone.holders[1].token = 6;
  EXPECT_EQ(WhyNot(Take(gone)), RefusalReason::kNotHolder);
  EXPECT_FALSE(IsHeld(gone, kLease));
  gone.holder_count = 1500;
  EXPECT_EQ(WhyNot(Take(gone)), RefusalReason::kQuotaExceeded) << "it may be one of those that are not shown";
}

TEST(DetachedReentry, KeepsTheModeAndThePermits) {
  const Want shared{.mode = Mode::kShared};
  const Want three{.mode = Mode::kPermit, .permits = 3, .limit = 9};
  const Want two{.mode = Mode::kPermit, .permits = 2, .limit = 9};
  EXPECT_EQ(WhyNot(Take(View(), {}, shared)), RefusalReason::kNotSupported);
  EXPECT_EQ(WhyNot(Take(View(), shared, {})), RefusalReason::kNotSupported);
  EXPECT_EQ(WhyNot(Take(View(), two, three)), RefusalReason::kNotSupported);
  EXPECT_EQ(std::get<Granted>(Take(View(), three, three)).mode, Mode::kPermit);
  EXPECT_EQ(std::get<Granted>(Take(View(), shared, shared)).mode, Mode::kShared);
}

}  // namespace
}  // namespace distlock::core
