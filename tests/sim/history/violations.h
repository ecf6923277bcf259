// SPDX-License-Identifier: Apache-2.0
//
// EXPECT_VIOLATED(history, "I1 I3"): exactly these invariants are violated; "" for none. A failure shows the stories.
#pragma once

#include <gtest/gtest.h>

#include "history/history_builder.h"

namespace distlock::sim {

inline ::testing::AssertionResult ViolatesExactly(const HistoryBuilder& builder, const std::string& wanted) {
  std::string stories;
  const std::string violated = builder.Violated(&stories);
  if (violated == wanted) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "violated: \"" << violated << "\", expected: \"" << wanted << "\"\n"
                                       << stories;
}

}  // namespace distlock::sim

#define EXPECT_VIOLATED(builder, wanted) EXPECT_TRUE(::distlock::sim::ViolatesExactly(builder, wanted))
