// SPDX-License-Identifier: Apache-2.0
//
// The use of min_hold: a job that several hosts start at about the same time runs once a period. Hosts ask, run and
// release through two brokers, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <variant>

#include "redis/known_clock.h"
#include "redis/redis_model.h"
#include "store/redis/codec.h"
#include "store/redis/resp.h"
#include "store/redis/script_caller.h"

namespace distlock::store {
namespace {

using core::Duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kFirstCron = 1'700'000'000'000'000;
constexpr int kPeriods = 10'000;
constexpr size_t kHosts = 3;

struct Try {
  int64_t at = 0;  // when its cron starts it, by the store's clock
  size_t host = 0;
};

struct Job {
  core::OwnerId owner{};
  uint64_t token = 0;
  size_t host = 0;
  int64_t ends = 0;
};

class OncePer : public testing::Test {
 protected:
  OncePer() {
    for (const lua::ScriptSource* script : AllScripts()) Run(LoadCommand(*script));
  }

  ReplyPtr Run(std::string_view bytes) { return model_.Execute(1, sim::ParseCommand(bytes)); }

  Codec& BrokerOf(size_t host) { return host == 2 ? b_ : a_; }

  template <typename Outcome>
  std::optional<Outcome> Do(size_t host, const core::StoreCommand& command) {
    Codec& codec = BrokerOf(host);
    const Encoded encoded = codec.Encode(command);
    const ReplyPtr reply = Run(encoded.bytes);
    const Decoded decoded = codec.Decode(encoded.sent, *reply);
    EXPECT_FALSE(decoded.malformed) << Text(*reply);
    const auto* outcome = std::get_if<Outcome>(&decoded.reply.outcome);
    return outcome == nullptr ? std::nullopt : std::optional(*outcome);
  }

  core::OwnerId NewOwner() {
    core::OwnerId owner{};
    owner.front() = 0xfd;
    const uint64_t number = ++last_owner_;
    for (size_t i = 0; i < 8; ++i) owner[15 - i] = static_cast<uint8_t>(number >> (8 * i));
    return owner;
  }

  // How many of the hosts ran the job, one try each.
  int RunPeriod(std::array<Try, kHosts> tries, Duration min_hold) {
    std::sort(tries.begin(), tries.end(), [](const Try& x, const Try& y) { return x.at < y.at; });
    int runs = 0;
    for (const Try& one : tries) {
      EndJobBy(one.at);
      model_.Advance(one.at);
      const core::OwnerId owner = NewOwner();
      const auto granted = Do<core::AcquireGranted>(
          one.host,
          core::StoreAcquire{.name = name_, .owner = owner, .ttl = seconds(15), .min_hold = min_hold, .info = "i"});
      if (!granted) continue;
      ++runs;
      const auto lasts = std::uniform_int_distribution<int64_t>(0, 500'000)(random_);
      job_ = {owner, granted->token, one.host, one.at + lasts};
    }
    return runs;
  }

  void EndJobBy(int64_t at) {
    if (!job_ || job_->ends > at) return;
    model_.Advance(job_->ends);
    const auto done = Do<core::GiveBackDone>(
        job_->host, core::StoreRelease{.name = name_, .owner = job_->owner, .token = job_->token});
    EXPECT_TRUE(done && done->was_holder);
    job_.reset();
  }

  sim::RedisModel model_{kFirstCron};
  Codec a_{{.broker_id = "00000000000000a1"}, sim::KnownClock()};
  Codec b_{{.broker_id = "00000000000000b1"}, sim::KnownClock()};
  const core::LockName name_ = core::LockName::Encode("default", "nightly");
  std::optional<Job> job_;
  std::mt19937_64 random_{1};
  uint64_t last_owner_ = 0;
};

// Crons and clocks up to 2 s apart, jobs of at most half a second. The slack is that of `distlockctl run --once-per`.
TEST_F(OncePer, OneOfThreeHostsRunsInEachPeriod) {
  std::uniform_int_distribution<int64_t> skew(-1'000'000, 1'000'000);
  int64_t from = kFirstCron + 10'000'000;
  for (const Duration period : {Duration(minutes(15)), Duration(seconds(30))}) {
    const Duration min_hold = period - std::min<Duration>(period / 10, minutes(1));
    for (int k = 0; k < kPeriods; ++k, from += period / microseconds(1)) {
      std::array<Try, kHosts> tries;
      for (size_t host = 0; host < kHosts; ++host) tries[host] = {from + skew(random_), host};
      ASSERT_EQ(RunPeriod(tries, min_hold), 1) << "period " << k;
    }
    from += 2 * (period / microseconds(1));
  }
}

// Else the test above would show nothing.
TEST_F(OncePer, WithoutAMinHoldItRunsMoreOften) {
  int runs = 0;
  for (int k = 0; k < 100; ++k) {
    const int64_t from = kFirstCron + (k + 1) * 900'000'000LL;
    runs += RunPeriod({Try{from, 0}, Try{from + 700'000, 1}, Try{from + 1'400'000, 2}}, milliseconds(1));
  }
  EXPECT_GT(runs, 250);
}

}  // namespace
}  // namespace distlock::store
