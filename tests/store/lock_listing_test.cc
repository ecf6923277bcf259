// SPDX-License-Identifier: Apache-2.0
#include "store/redis/lock_listing.h"

#include <set>

#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

TEST(PageToken, GoesOutAndBack) {
  PageToken token;
  token.cursor = "123456";
  token.names = {Lock("a\nb"), Lock("c")};
  const auto back = PageToken::Decode(token.Encode(), "");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->cursor, "123456");
  EXPECT_FALSE(back->scanned_all);
  EXPECT_EQ(back->names, token.names);

  token.scanned_all = true;
  EXPECT_TRUE(PageToken::Decode(token.Encode(), "")->scanned_all);
  token.names.clear();
  EXPECT_EQ(token.Encode(), "");
}

TEST(PageToken, AnythingElseIsRefused) {
  for (const std::string bad : {"!", "AAAA", "x y", "MTIzCm5vbmFtZQ", "LTE"}) {
    EXPECT_EQ(PageToken::Decode(bad, "").status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(PageToken, NamesOutsideOfTheSearchAreDropped) {
  PageToken token;
  token.names = {Lock("a"), Lock("ab"), Lock("b"), core::LockName::Encode("other", "ab")};
  EXPECT_EQ(PageToken::Decode(token.Encode(), "default/a")->names, (std::deque{Lock("a"), Lock("ab")}));
}

class ListingTest : public StoreTest {
 protected:
  absl::StatusOr<LockPage> List(const std::string& prefix, uint32_t size, std::string token) {
    std::optional<absl::StatusOr<LockPage>> page;
    store_->List("default", core::EscapeKey(prefix), size, std::move(token), std::chrono::seconds(10),
                 [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
    EXPECT_TRUE(loop_.RunUntil([&] { return page.has_value(); }));
    return *page;
  }
};

TEST_F(ListingTest, MissesNoLockThatIsHeldThroughoutWhileOthersComeAndGo) {
  StartAndAwaitUp();
  std::set<std::string> wanted;
  core::OpId op = 0;
  for (int i = 0; i < 2000; ++i) {
    // Long names, so that what has no room on a page does not fit into its token either.
    const auto name = Lock(Cat("kept ", std::string(200, 'x'), i));
    wanted.insert(name.escaped());
    ++op;
    store_->Submit(MakeAcquire(op, name, Owner(1)));
  }
  store_->Flush();
  std::set<std::string> seen;
  std::string token;
  int page_number = 0;
  do {
    const auto page = List("kept ", 37, token);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->locks.size(), 37u);
    EXPECT_LT(page->next_page_token.size(), 16'000u);
    for (const auto& lock : page->locks) seen.insert(lock.name.escaped());
    token = page->next_page_token;
    // The server's table grows and shrinks meanwhile.
    ++page_number;
    for (int i = 0; i < 300; ++i) {
      const std::string passing = Cat("passing ", page_number % 7, " ", i);
      if (page_number % 7 < 4) {
        admin_.Do({"SET", passing, "x"});
      } else {
        admin_.Do({"DEL", Cat("passing ", page_number % 7 - 4, " ", i)});
      }
    }
  } while (!token.empty() && page_number < 5000);
  EXPECT_EQ(seen, wanted);
}

TEST_F(ListingTest, LeavesOutWhatIsNoLock) {
  StartAndAwaitUp();
  admin_.Do({"SET", "dl:{default/shape}:h", "not ours"});
  admin_.Do({"RPUSH", "dl:{default/list}:h", "x"});
  admin_.Do({"SET", "dl:{default/}:h", "x"});
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("real"), Owner(1)));
  const auto page = List("", 10, "");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->locks.size(), 1u);
  EXPECT_EQ(page->locks[0].name, Lock("real"));
  EXPECT_EQ(page->next_page_token, "");
}

TEST_F(ListingTest, ASeaOfOtherKeysDoesNotHoldTheCallerForLong) {
  StartAndAwaitUp();
  admin_.Do({"EVAL", "for i = 1, 70000 do redis.call('SET', 'other' .. i, '') end", "0"});
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("needle"), Owner(1)));
  std::string token;
  size_t found = 0;
  int pages = 0;
  do {
    const auto page = List("", 10, token);
    ASSERT_TRUE(page.ok()) << page.status();
    found += page->locks.size();
    token = page->next_page_token;
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(pages, 2);
}

}  // namespace
}  // namespace distlock::store
