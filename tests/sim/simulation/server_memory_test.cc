// SPDX-License-Identifier: Apache-2.0
//
// The data of a simulation's server after a restart, and its clock's run after its rate was changed.
#include <gtest/gtest.h>

#include "simulation/store_process.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

class ServerMemoryTest : public testing::Test {
 protected:
  ServerMemoryTest() {
    env_.temper.calm = false;
    env_.temper.ttls = {seconds(2)};
    server_ = std::make_unique<StoreProcess>(env_, 0);
    for (; written_ < 100; ++written_) {
      server_->Run(1, store::MakeCommand({"SET", store::Cat("k", written_), "v"}), [](const store::ReplyPtr&) {});
      Pass(milliseconds(100));
    }
  }

  void Pass(Duration time) {
    env_.time.Run(env_.now() + time, [] { return false; });
  }
  // How many of the keys it still has, of which it must have the first ones.
  int Kept() {
    int kept = 0;
    while (kept < written_ && server_->model().Type(store::Cat("k", kept)) != KeyType::kNone) ++kept;
    EXPECT_EQ(server_->model().Keys().size(), static_cast<size_t>(kept));
    return kept;
  }
  int KeptAfter(Memory memory) {
    server_->Restart(milliseconds(10), memory);
    Pass(seconds(1));
    EXPECT_TRUE(server_->alive());
    return Kept();
  }

  Env env_{1, false};
  std::unique_ptr<StoreProcess> server_;
  int written_ = 0;  // a key each 100 ms
};

TEST_F(ServerMemoryTest, KeepsAll) { EXPECT_EQ(KeptAfter(Memory::kAll), 100); }

TEST_F(ServerMemoryTest, LosesWritesOfTheLastSecond) {
  const int kept = KeptAfter(Memory::kNotItsLastSecond);
  EXPECT_GE(kept, 90);
  EXPECT_LT(kept, 100);
}

TEST_F(ServerMemoryTest, HasACopyThatIsOldEnough) {
  const int kept = KeptAfter(Memory::kOldCopy);
  EXPECT_GE(kept, 45);
  EXPECT_LE(kept, 50);
  EXPECT_EQ(KeptAfter(Memory::kNotItsLastSecond), kept) << "what is lost does not come back";
}

TEST_F(ServerMemoryTest, IsEmpty) {
  EXPECT_EQ(KeptAfter(Memory::kNothing), 0);
  EXPECT_EQ(KeptAfter(Memory::kOldCopy), 0);
}

TEST_F(ServerMemoryTest, LosesNothingWhileNobodyCouldKnow) {
  env_.temper.persistence = Persistence::kNone;
  env_.remembers_until = env_.now() + seconds(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server_->AnyMemory(), Memory::kAll);
}

TEST_F(ServerMemoryTest, AlwaysMeansNoLastSecond) {
  env_.temper.persistence = Persistence::kAlways;
  for (int i = 0; i < 100; ++i) EXPECT_NE(server_->AnyMemory(), Memory::kNotItsLastSecond);
}

TEST_F(ServerMemoryTest, AnOperatorsSettingLastsUntilTheRestart) {
  env_.temper.persistence = Persistence::kAlways;
  KeptAfter(Memory::kAll);  // it reads its file
  const auto appends = [&] {
    std::string text;
    server_->Run(1, store::MakeCommand({"CONFIG", "GET", "*append*"}), [&](const store::ReplyPtr& reply) {
      text = std::string(reply->element[0]->str) + " " + reply->element[1]->str;
    });
    return text;
  };
  EXPECT_EQ(appends(), "appendfsync always");
  server_->AppendEachSecond();
  EXPECT_EQ(appends(), "appendfsync everysec");
  EXPECT_TRUE(server_->appends_each_second());
  KeptAfter(Memory::kNotItsLastSecond);
  EXPECT_EQ(appends(), "appendfsync always");
  EXPECT_FALSE(server_->appends_each_second());
}

TEST_F(ServerMemoryTest, ASlewIsNoStep) {
  const int64_t before = server_->model().now_us();
  server_->SlewWallClock(500);
  EXPECT_EQ(server_->model().now_us() - before, 100'000);  // since its last command
  const int64_t then = server_->model().now_us();
  Pass(seconds(10));
  server_->Sync();
  EXPECT_EQ(server_->model().now_us() - then, 10'005'000);
}

// A timer of a clock whose rate changes fires when the clock shows its time, not before and hardly after.
TEST_F(ServerMemoryTest, TimersFollowAClockThatSlews) {
  env_.temper.slews = true;
  env_.temper.drift_ppm = 500;
  for (const int rate : {-500, 500}) {
    server_->SlewClock(-rate);
    const Duration due = server_->LocalTime() + seconds(10);
    Duration fired{};
    server_->PostAt(due, [&] { fired = server_->LocalTime(); });
    Pass(seconds(5));
    server_->SlewClock(rate);
    Pass(seconds(10));
    EXPECT_GE(fired, due);
    EXPECT_LT(fired, due + microseconds(10));
  }
}

}  // namespace
}  // namespace distlock::sim
