// SPDX-License-Identifier: Apache-2.0
#include "store/redis/script_caller.h"

#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

TEST(Scripts, TheBuildsHashesAreTheServers) {
  const auto server = StartServer();
  Admin admin(server->Url());
  for (const auto* script : AllScripts()) EXPECT_EQ(admin.Str({"SCRIPT", "LOAD", script->body}), script->sha1);
}

class ScriptsTest : public StoreTest {
 protected:
  int LoadCalls() {
    const std::string stats = admin_.Str({"INFO", "commandstats"});
    const std::string mark = "cmdstat_script|load:calls=";
    const size_t at = stats.find(mark);
    return at == std::string::npos ? 0 : std::stoi(stats.substr(at + mark.size()));
  }
};

TEST_F(ScriptsTest, AFlushedCacheIsFilledAgainUnnoticedAndOnce) {
  StartAndAwaitUp();
  const int loads = LoadCalls();
  EXPECT_EQ(loads, static_cast<int>(AllScripts().size()));
  admin_.Do({"SCRIPT", "FLUSH"});
  for (core::OpId op = 1; op <= 500; ++op) store_->Submit(MakeAcquire(op, Lock(Cat(op)), Owner(1)));
  store_->Flush();
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreReply>() == 500; }));
  for (core::OpId op = 1; op <= 500; ++op) {
    EXPECT_TRUE(std::holds_alternative<core::AcquireGranted>(seen_.Reply(op)->outcome)) << op;
  }
  EXPECT_EQ(LoadCalls(), loads + 1);
  EXPECT_EQ(seen_.Count<core::StoreDown>(), 0u);
}

TEST_F(ScriptsTest, FlushesInTheMiddleOfWorkGoUnnoticed) {
  StartAndAwaitUp();
  core::OpId op = 0;
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 20; ++i) {
      ++op;
      store_->Submit(MakeAcquire(op, Lock(Cat(op)), Owner(1)));
      ++op;
      store_->Submit(core::StoreRelease{op, Lock(Cat(op - 1)), Owner(1), {}});
    }
    store_->Flush();
    admin_.Do({"SCRIPT", "FLUSH"});
    ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreReply>() == op; }));
  }
  for (core::OpId i = 1; i <= op; ++i) {
    const auto& outcome = seen_.Reply(i)->outcome;
    EXPECT_FALSE(std::holds_alternative<core::StoreFailed>(outcome) ||
                 std::holds_alternative<core::StoreUnknown>(outcome))
        << i;
  }
}

}  // namespace
}  // namespace distlock::store
