// SPDX-License-Identifier: Apache-2.0
//
// The budget that the hardened gRPC keeps of each connection.
#include "frame_budget.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace distlock_grpc {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kNow = 1'000 * kSecondNs;
constexpr uint8_t kData = 0, kHeaders = 1, kPriority = 2, kRstStream = 3, kSettings = 4, kPingType = 6,
                  kWindowUpdate = 8, kContinuationType = 9, kUnknown = 77;

// How many frames of a kind `connection` can afford at `now`, at most `most`.
int Affordable(FrameBudget& budget, const void* connection, Kind kind, int64_t now, int most = 1'000'000) {
  int count = 0;
  while (count < most && budget.Afford(connection, kind, now)) ++count;
  return count;
}

TEST(FrameBudget, OnlyWhatCarriesOrOpensSomethingIsFree) {
  EXPECT_EQ(KindOf(kHeaders, 100, true, 0), Kind::kFree);
  EXPECT_EQ(KindOf(kData, kSmallDataBytes, false, 0), Kind::kFree);
  EXPECT_EQ(KindOf(kHeaders, 100, false, 0), Kind::kControl) << "of a stream that has been before";
  EXPECT_EQ(KindOf(kData, 0, false, 0), Kind::kControl);
  EXPECT_EQ(KindOf(kData, 1, false, 0), Kind::kSmallData);
  EXPECT_EQ(KindOf(kPingType, 8, false, 0), Kind::kPing);
  EXPECT_EQ(KindOf(kContinuationType, 16'000, false, 0), Kind::kContinuation);
  EXPECT_EQ(KindOf(kRstStream, 4, false, kHasty - 1), Kind::kHastyReset);
  EXPECT_EQ(KindOf(kRstStream, 4, false, kHasty), Kind::kReset);
  EXPECT_EQ(KindOf(kWindowUpdate, 4, false, 0), Kind::kWindow);
  for (const uint8_t type : {kPriority, kSettings, kUnknown}) {
    EXPECT_EQ(KindOf(type, 1'000, false, 0), Kind::kControl) << static_cast<int>(type);
  }
}

TEST(FrameBudget, SoManyAtOnceAndSoManyASecond) {
  struct Row {
    Kind kind;
    int at_once;
    int a_second;
  };
  for (const Row& row :
       {Row{Kind::kControl, 20'000, 20'000}, Row{Kind::kSmallData, 160'000, 160'000},
        Row{Kind::kWindow, 200'000, 200'000}, Row{Kind::kPing, 1'000, 20'000}, Row{Kind::kHastyReset, 1'000, 500},
        Row{Kind::kReset, 4'000, 1'000}, Row{Kind::kContinuation, 128, 1'000}}) {
    const auto budget = std::make_unique<FrameBudget>();
    const int connection = 0;
    EXPECT_EQ(Affordable(*budget, &connection, row.kind, kNow), row.at_once) << static_cast<int>(row.kind);
    EXPECT_EQ(Affordable(*budget, &connection, row.kind, kNow + kSecondNs / 10),
              std::min(row.at_once, row.a_second / 10))
        << static_cast<int>(row.kind);
  }
}

// Giving up every open call of a connection is not a flood of hasty resets.
TEST(FrameBudget, AllCallsOfAConnectionMayBeGivenUpAtOnce) {
  const auto budget = std::make_unique<FrameBudget>();
  const int connection = 0;
  for (uint32_t younger = 2'500; younger-- > 0;) {
    ASSERT_TRUE(budget->Afford(&connection, KindOf(kRstStream, 4, false, younger), kNow)) << younger;
  }
}

TEST(FrameBudget, EveryConnectionHasItsOwn) {
  const auto budget = std::make_unique<FrameBudget>();
  static std::array<char[4'096], 1'000> connections;
  for (const auto& connection : connections) {
    EXPECT_EQ(Affordable(*budget, &connection, Kind::kContinuation, kNow), 128);
  }
}

TEST(FrameBudget, ANewConnectionDoesNotPayForTheOneBeforeItAtItsAddress) {
  const auto budget = std::make_unique<FrameBudget>();
  const int connection = 0;
  EXPECT_EQ(Affordable(*budget, &connection, Kind::kControl, kNow), 20'000);
  EXPECT_FALSE(budget->Afford(&connection, Kind::kControl, kNow));
  budget->Forget(&connection);
  EXPECT_TRUE(budget->Afford(&connection, Kind::kControl, kNow));
}

// Many more connections than the table has places, each with a few frames a second.
TEST(FrameBudget, WhoHasPaidLeavesItsPlace) {
  const auto budget = std::make_unique<FrameBudget>();
  struct Connection {
    char bytes[64];
  };
  const std::vector<Connection> connections(50'000);
  int64_t now = kNow;
  for (const Connection& connection : connections) {
    for (int frame = 0; frame < 3; ++frame) ASSERT_TRUE(budget->Afford(&connection, Kind::kControl, now));
    now += kSecondNs / 10'000;
  }
}

TEST(FrameBudget, WhoeverReturnsAnErrorOfExcessIsKnown) {
  Excess() = false;
  EXPECT_EQ(TooMuch(7), 7);
  EXPECT_TRUE(Excess());
  Excess() = false;
}

}  // namespace
}  // namespace distlock_grpc
