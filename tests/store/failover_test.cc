// SPDX-License-Identifier: Apache-2.0
//
// One address that leads to another server after a failover: the hand-off channel follows the commands.
#include "proxy.h"
#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

class FailoverTest : public StoreTest {
 protected:
  ~FailoverTest() override {
    if (other_) other_->Stop();
    if (store_) store_->Stop();
    other_.reset();
    store_.reset();
  }

  // As an operator does it: the address leads to the new primary, the old one becomes a replica and hangs nobody up.
  // The next command is refused as READONLY, so that the command connection moves; nothing tells the channel.
  void FailOver() {
    proxy_.LeadTo(new_primary_->Url().address.path);
    admin_.Do({"REPLICAOF", "127.0.0.1", "1"});
    Ask(1000, MakeAcquire(1000, Lock("any"), Owner(9)));
    ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreUp>() == 2; }));
  }

  // Another broker, connected to the new primary.
  void StartOther() {
    other_ = OpenStore(loop_.get(), OptionsFor(new_primary_->Url(), "00000000000000b2"));
    other_->Start(&other_seen_);
    ASSERT_TRUE(loop_.RunUntil([&] { return other_seen_.Up(); }));
  }
  core::StoreReply AskOther(core::OpId op, core::StoreCommand command) {
    other_->Submit(std::move(command));
    other_->Flush();
    EXPECT_TRUE(loop_.RunUntil([&] { return other_seen_.Replies(op) > 0; }));
    return *other_seen_.Reply(op);
  }

  std::unique_ptr<EmbeddedServer> new_primary_ = StartServer();
  Proxy proxy_{server_->Url().address.path};
  Recorder other_seen_;
  std::unique_ptr<Store> other_;
};

TEST_F(FailoverTest, AWaiterIsToldOfItsLockByTheNewPrimary) {
  StartAndAwaitUp(OptionsFor(proxy_.Url()));
  FailOver();
  // The channel has followed: the core is told to look again.
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::ChannelUp>() == 2; }));
  StartOther();
  AskOther(1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(2, MakeAcquire(2, Lock("k"), Owner(2), true));
  AskOther(2, core::StoreRelease{2, Lock("k"), Owner(1), {}});
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::GrantNotice>() > 0; }));
  EXPECT_EQ(seen_.Last<core::GrantNotice>()->owner, Owner(2));
}

// A subscription that the server has lost, while the client's end looks alive: only the count of PUBLISH shows it.
TEST_F(FailoverTest, AChannelThatTheServerDoesNotKnowIsMadeAnew) {
  StartAndAwaitUp(OptionsFor(proxy_.Url()));
  proxy_.HideCloses(true);
  admin_.Do({"CLIENT", "KILL", "TYPE", "pubsub"});
  admin_.Do({"CLIENT", "KILL", "TYPE", "normal"});
  // Silence ends the link's connection, which looks alive as well.
  Ask(1, MakeAcquire(1, Lock("k"), Owner(1)));
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreUp>() == 2; }));
  EXPECT_TRUE(loop_.RunUntil([&] { return admin_.Str({"PUBLISH", "dl:grant:00000000000000b1", ""}) == "1"; }));
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::ChannelUp>() == 2; }));
}

}  // namespace
}  // namespace distlock::store
