// SPDX-License-Identifier: Apache-2.0
//
// Two clients on one lock, exhaustively. Flags, after GoogleTest's own:
//   --depth=N        follow all paths of N actions in each setting, instead of its own number
//   --seconds=N      give up a setting after so long, and say how deep it got
//   --replay=PATH    play one path in the setting that --gtest_filter leaves, such as "acquire 0, run 0, pass"
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "exhaustive/explorer.h"
#include "gtest/gtest.h"

namespace distlock::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int kShallower = 2;
#else
constexpr int kShallower = 0;
#endif

int depth_asked = 0;
double seconds_max = 0;
std::string replay;

void Check(const Setting& setting, int depth) {
  if (!replay.empty()) {
    const auto path = ReadPath(replay);
    ASSERT_TRUE(path) << replay;
    const std::string fault = Replay(setting, *path, [](const std::string& line) { std::cout << line << "\n"; });
    EXPECT_EQ(fault, "");
    return;
  }
  const Exploration found = Explore(setting, depth_asked > 0 ? depth_asked : depth - kShallower, seconds_max);
  std::printf("%s: depth %d, %llu states, %llu steps, %.3g paths, %.1f s; everybody served within %lld ms\n",
              setting.name.c_str(), found.depth, static_cast<unsigned long long>(found.states),
              static_cast<unsigned long long>(found.steps), found.paths, found.seconds,
              static_cast<long long>(found.served_after / std::chrono::milliseconds(1)));
  EXPECT_EQ(found.fault, "") << "after " << found.fault_path.size() << " actions; again with --replay=\""
                             << PathText(found.fault_path) << "\"";
  EXPECT_GT(found.states, 100u);
}

// Client 0 has it, client 1 waits, and both know.
Path Contended() { return *ReadPath("acquire 0, run 0, reply 0, acquire 1, run 1, reply 1"); }
Path ContendedAtOne() { return *ReadPath("acquire 0, run 0, reply 0, acquire 1, run 0, reply 0"); }

TEST(SmallSystem, OneBroker) { Check({.name = "one broker"}, 7); }

TEST(SmallSystem, TwoBrokers) { Check({.name = "two brokers", .brokers = 2}, 6); }

TEST(SmallSystem, OneBrokerContended) { Check({.name = "one broker, contended", .start = ContendedAtOne()}, 6); }

TEST(SmallSystem, TwoBrokersContended) {
  Check({.name = "two brokers, contended", .brokers = 2, .start = Contended()}, 6);
}

TEST(SmallSystem, OneTryBesideAHolder) {
  Check({.name = "one try beside a holder",
         .brokers = 2,
         .max_wait = {std::nullopt, core::Duration::zero()},
         .start = *ReadPath("acquire 0, run 0, reply 0")},
        5);
}

TEST(SmallSystem, BoundedWaitBehindAHolder) {
  Check({.name = "a bounded wait behind a holder",
         .max_wait = {std::nullopt, std::chrono::seconds(1)},
         .start = ContendedAtOne()},
        5);
}

TEST(SmallSystem, LockDelayBeforeAWaiter) {
  Check(
      {.name = "lock_delay before a waiter", .brokers = 2, .lock_delay = std::chrono::seconds(1), .start = Contended()},
      5);
}

}  // namespace

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const size_t equals = flag.find('=');
    const std::string name = flag.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : flag.substr(equals + 1);
    if (name == "--depth" && absl::SimpleAtoi(value, &depth_asked) && depth_asked > 0) continue;
    if (name == "--seconds" && absl::SimpleAtod(value, &seconds_max) && seconds_max > 0) continue;
    if (name == "--replay" && !value.empty()) {
      replay = value;
    } else {
      std::fprintf(stderr, "unknown flag %s; there are --depth=N, --seconds=N and --replay=PATH\n", flag.c_str());
      return 64;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace distlock::sim

int main(int argc, char** argv) { return distlock::sim::Main(argc, argv); }
