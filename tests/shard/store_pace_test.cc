// SPDX-License-Identifier: Apache-2.0
#include "shard/store_pace.h"

#include <gtest/gtest.h>

namespace distlock::shard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How many commands may be unanswered.
size_t Window(const StorePace& pace) {
  size_t unanswered = 0;
  while (!pace.IsBusy(unanswered)) ++unanswered;
  return unanswered;
}

TEST(StorePace, AFastStoreMayHaveMoreAndMore) {
  StorePace pace;
  core::Instant now{seconds(100)};
  EXPECT_EQ(Window(pace), StorePace::kFew);
  for (int i = 0; i < 100; ++i) pace.Answered(now += milliseconds(1), milliseconds(80));
  EXPECT_EQ(Window(pace), StorePace::kFew + 100) << "far away is not slow";
  for (int i = 0; i < 10'000; ++i) pace.Answered(now += milliseconds(1), milliseconds(85));
  EXPECT_EQ(Window(pace), StorePace::kMost);
}

TEST(StorePace, WhoseAnswersHaveWaitedGetsFewer) {
  StorePace pace;
  core::Instant now{seconds(100)};
  for (int i = 0; i < 10'000; ++i) pace.Answered(now += milliseconds(1), milliseconds(1));
  for (int i = 0; i < 200; ++i) pace.Answered(now += milliseconds(1), milliseconds(30));
  EXPECT_EQ(Window(pace), StorePace::kFew);
}

// Else a store that has moved further away would count as slow for ever.
TEST(StorePace, WhatWasFastLongAgoIsForgotten) {
  StorePace pace;
  core::Instant now{seconds(100)};
  for (int i = 0; i < 100; ++i) pace.Answered(now += milliseconds(1), milliseconds(1));
  for (int i = 0; i < 3000; ++i) pace.Answered(now += milliseconds(10), milliseconds(50));
  EXPECT_GT(Window(pace), StorePace::kFew + 500);
}

}  // namespace
}  // namespace distlock::shard
