// SPDX-License-Identifier: Apache-2.0
#include "store/redis/clock_rate.h"

#include <gtest/gtest.h>

#include <random>

#include "store/redis/server_clock.h"

namespace distlock::store {
namespace {

using core::Duration;
using core::Instant;
using core::StoreTime;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A server whose clock runs so much faster than the broker's, asked again and again.
class ClockRateTest : public testing::Test {
 protected:
  // Replies come `each`, and take up to `longest`.
  void Run(Duration time, double ppm, Duration each, Duration longest) {
    for (const Instant end = now_ + time; now_ < end;) {
      const Duration way = Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(longest.count())));
      const Instant sent = now_;
      Pass(way / 2, ppm);
      const StoreTime shown{std::chrono::floor<microseconds>(server_).count()};
      Pass(way - way / 2, ppm);
      steps_ += clock_.Learn(sent, now_, shown).has_value();
      rate_.Learn(sent, now_, shown);
      Pass(each, ppm);
    }
  }

  ServerClock clock_{500};
  ClockRate rate_{500};
  int steps_ = 0;

 private:
  void Pass(Duration time, double ppm) {
    now_ += time;
    server_ += time + Duration(static_cast<int64_t>(static_cast<double>(time.count()) * ppm / 1e6));
  }

  Instant now_{seconds(1000)};
  Duration server_ = seconds(1'700'000'000);
  std::mt19937_64 random_{7};
};

TEST_F(ClockRateTest, ASlewThatNoReplyShowsIsMeasured) {
  Run(seconds(40), 10'000, milliseconds(20), milliseconds(2));
  EXPECT_EQ(steps_, 0);
  EXPECT_GT(rate_.slew_ppm(), 9'000);
  EXPECT_LE(rate_.slew_ppm(), 10'000) << "at the least";
  Run(seconds(65), 0, milliseconds(20), milliseconds(2));
  EXPECT_EQ(rate_.slew_ppm(), 0) << "it is over";
}

TEST_F(ClockRateTest, SlowerThanItMay) {
  Run(seconds(40), -3'000, milliseconds(20), milliseconds(2));
  EXPECT_LT(rate_.slew_ppm(), -2'500);
  EXPECT_GE(rate_.slew_ppm(), -3'000);
}

TEST_F(ClockRateTest, WithinTheDriftNothingIsSaidWhateverTheDelays) {
  for (const double ppm : {-1000.0, -500.0, 0.0, 500.0, 1000.0}) {
    rate_.Forget();
    for (const Duration longest : {Duration(milliseconds(1)), Duration(milliseconds(400))}) {
      for (int i = 0; i < 20; ++i) {
        Run(seconds(20), ppm, milliseconds(100), longest);
        ASSERT_EQ(rate_.slew_ppm(), 0) << ppm;
      }
    }
  }
}

TEST_F(ClockRateTest, OneReplyASecondIsEnough) {
  Run(seconds(70), 2'000, seconds(1), milliseconds(2));
  EXPECT_GT(rate_.slew_ppm(), 1'500);
}

TEST_F(ClockRateTest, OfAnotherClockNothingIsKnown) {
  Run(seconds(40), 10'000, milliseconds(20), milliseconds(2));
  rate_.Forget();
  EXPECT_EQ(rate_.slew_ppm(), 0);
}

}  // namespace
}  // namespace distlock::store
