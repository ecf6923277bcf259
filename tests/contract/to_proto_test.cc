// SPDX-License-Identifier: Apache-2.0
#include "contract/to_proto.h"

#include <gmock/gmock.h>

#include "contract/holder.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/show.h"

namespace distlock::contract {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const core::LockName kName = core::LockName::Encode("ns", "key");

TEST(ToProto, Durations) {
  EXPECT_EQ(ToProto(milliseconds(1500)).seconds(), 1);
  EXPECT_EQ(ToProto(milliseconds(1500)).nanos(), 500'000'000);
  EXPECT_EQ(ToProto(core::Duration(-1)).nanos(), -1);
  EXPECT_EQ(ToProto(core::StoreTime{1'795'233'428'398'271}).nanos(), 398'271'000);
  EXPECT_EQ(Show(core::Duration(1'499'600'000)), "1.5s");
}

TEST(ToProto, ABlockedLockHasNoHolder) {
  core::HolderView view = Holder("gone");
  view.owner = {};
  view.since = {1'000'000'000'000};
  view.held_for = seconds(10);
  view.lock_delay = seconds(3);
  core::HolderView ends_sooner = view;
  ends_sooner.time_left = milliseconds(100);
  const core::LockView lock{
      .name = kName, .holders = {ends_sooner, view, Holder("ann")}, .holder_count = 1, .waiters = {}};
  const v1::LockInfo shown = LockOf(lock);
  ASSERT_EQ(shown.holders_size(), 1);
  EXPECT_EQ(shown.holders(0).owner(), "ann");
  EXPECT_EQ(shown.holder_count(), 1);
  EXPECT_EQ(shown.block().owner(), "gone");
  EXPECT_EQ(shown.block().time_left().nanos(), 500'000'000) << "the one that lasts longest";
  EXPECT_EQ(shown.block().start_time().seconds(), 1'000'009) << "10 s after the grant, and 0.5 of 3 s ago";
  EXPECT_EQ(shown.block().acquire_time().seconds(), 1'000'000);
  EXPECT_FALSE(shown.block().has_min_hold());
  view.min_hold = seconds(12);
  EXPECT_EQ(LockOf({.name = kName, .holders = {view}, .waiters = {}}).block().min_hold().seconds(), 12);
  EXPECT_FALSE(LockOf({.name = kName, .holders = {Holder("ann")}, .waiters = {}}).has_block());
}

TEST(ToProto, MaxHoldOfADetachedLeaseIsInItsId) {
  const core::Granted granted{.name = kName, .owner = {7}, .token = 5, .since = {1'000'000}, .ttl = seconds(15)};
  EXPECT_EQ(DecodeLeaseId(GrantOf(granted, seconds(60)).lease_id())->hold_until.us, 61'000'000);
  EXPECT_EQ(DecodeLeaseId(GrantOf(granted, {}).lease_id())->hold_until.us, 0);
}

TEST(ToProto, NamesFromTheStoreNeedNotBeUtf8) {
  core::LockView view{.name = core::LockName::Encode("n", "k\xff"), .waiters = {}};
  view.waiters.push_back({.owner = {9}, .broker_id = "b", .info = "\xff\xff"});
  const v1::LockInfo lock = LockOf(view);
  EXPECT_EQ(lock.key(), "k?");
  v1::LockInfo read;
  EXPECT_TRUE(read.ParseFromString(lock.SerializeAsString()));
  EXPECT_EQ(read.waiters(0).waiter_id(), HolderIdOf({9}));
}

TEST(ToProto, ALockIsShownInAMessageThatClientsTake) {
  v1::LockSpec spec;
  (*spec.mutable_metadata())["m"] = std::string(16'000, 'x');
  const std::string info = MakeInfo(spec, "0011223344556677", 0);
  core::LockView view;
  view.name = kName;
  view.holder_count = view.queue_length = 1000;
  view.holders.assign(1000, {.owner = {7}, .token = 5, .info = info});
  view.waiters.assign(1000, {.owner = {9}, .broker_id = "0011223344556677", .info = info});
  const v1::LockInfo lock = LockOf(view);
  EXPECT_LT(lock.ByteSizeLong(), size_t{3} << 20);
  EXPECT_GT(lock.holders_size(), 16);
  EXPECT_GT(lock.waiters_size(), 16);
  EXPECT_EQ(lock.holder_count(), 1000u);
  EXPECT_EQ(lock.queue_length(), 1000u);

  const v1::LockInfo listed = ListedLockOf(view);
  EXPECT_EQ(listed.holders_size(), 16);
  EXPECT_EQ(listed.waiters_size(), 0);
  EXPECT_EQ(listed.holder_count(), 1000u);
}

}  // namespace
}  // namespace distlock::contract
