// SPDX-License-Identifier: Apache-2.0
//
// The Core with many threads and a transport that the test plays, so that ThreadSanitizer sees all of it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "acquirer.h"
#include "core.h"
#include "played_transport.h"

namespace distlock::internal {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 150;

class CoreThreadsTest : public testing::Test {
 protected:
  CoreThreadsTest() {
    ClientOptions options{.address = "played"};
    options.reconnect_initial = std::chrono::milliseconds(1);
    options.reconnect_max = std::chrono::milliseconds(2);
    options.unreachable_timeout = Duration::max();
    options.log = [this](LogLevel, std::string_view line) { logged_ += line.size(); };
    options.executor = [this](Callback<void()> callback) {
      callback();  // on the library's thread: this test only counts
      ++by_executor_;
    };
    core_ = std::make_shared<Core>(std::move(options), [this](const ClientOptions&, const std::vector<std::string>&) {
      auto transport = std::make_unique<PlayedTransport>();
      transport_ = transport.get();
      return transport;
    });
    core_->Start();
  }
  ~CoreThreadsTest() override { core_->Close(); }

  void LockOnce(const std::shared_ptr<const Spec>& spec, int round) {
    Result<Guard> got = Acquirer(core_, spec).Acquire({});
    ASSERT_TRUE(got.ok()) << got.refusal().message;
    Guard& guard = *got;
    std::atomic<bool> ended = false;
    {
      const std::stop_callback on_end(guard.stop_token(), [&] { ended = true; });
      EXPECT_GT(guard.token(), 0);
      EXPECT_FALSE(guard.lease_id().empty());
      static_cast<void>(guard.state());
      static_cast<void>(guard.time_left());
      if (round % 3 == 0) static_cast<void>(guard.Downgrade());
      static_cast<void>(guard.mode());
      if (round % 2 == 0) {
        guard.Release();
      } else {
        guard.ReleaseAsync([this](ReleaseOutcome) { ++answered_; });
        ++asked_;
      }
    }
    EXPECT_TRUE(ended || round % 2 == 1);
  }

  void AskAndCancel(const std::shared_ptr<const Spec>& spec, bool cancel) {
    ++asked_;
    PendingLock pending = Acquirer(core_, spec)
                              .AcquireAsync([this, none = std::make_unique<int>(0)](
                                                Result<Guard> result) {  // the guard gives the lock back
                                static_cast<void>(result.ok());
                                ++answered_;
                              });
    if (cancel) pending.Cancel();
  }

  std::shared_ptr<Core> core_;
  PlayedTransport* transport_ = nullptr;
  std::atomic<int> asked_ = 0;
  std::atomic<int> answered_ = 0;
  std::atomic<int> by_executor_ = 0;
  std::atomic<size_t> logged_ = 0;
};

TEST_F(CoreThreadsTest, ThreadsShareAClientWhoseStreamsBreak) {
  std::vector<std::thread> threads;
  std::atomic<int> running = kThreads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const auto spec = MakeSpec("k" + std::to_string((t + round) % 3), {});
        LockOnce(spec, round);
        AskAndCancel(spec, round % 2 == 0);
        static_cast<void>(core_->connected());
        if (round % 10 == 0) static_cast<void>(core_->draining());
      }
      --running;
    });
  }
  while (running > 0) {
    transport_->BreakAll();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  for (std::thread& thread : threads) thread.join();
  core_->Close();
  EXPECT_EQ(answered_, asked_) << "each callback is called once, at the latest by Close";
  EXPECT_EQ(by_executor_, asked_);
  EXPECT_GT(logged_, 0u);
}

}  // namespace
}  // namespace distlock::internal
