// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about the read-only queries.
#include <set>

#include "conformance.h"

namespace distlock::store {

using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000aa";

TEST_P(StoreConformance, InspectShowsHolderAndWaiters) {
  Broker a = MakeBroker(kBrokerA);
  const auto grant = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  for (core::OpId op = 2; op < 6; ++op) {
    AskFor<core::AcquireQueued>(a, op, MakeAcquire(op, Lock("k"), Owner(static_cast<uint8_t>(op)), true));
  }
  const auto view = Inspect(a, Lock("k"), 3);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->name, Lock("k"));
  EXPECT_EQ(view->last_token, grant.token);
  EXPECT_EQ(view->queue_length, 4u);
  ASSERT_EQ(view->waiters.size(), 3u);
  EXPECT_EQ(view->waiters[0].owner, Owner(2));
  EXPECT_EQ(view->waiters[0].broker_id, kBrokerA);
  EXPECT_EQ(view->waiters[0].ttl, seconds(30));
  EXPECT_EQ(view->waiters[0].info, MakeAcquire(2, Lock("k"), Owner(2)).info);

  const auto free = Inspect(a, Lock("free"));
  ASSERT_TRUE(free.ok());
  EXPECT_TRUE(free->holders.empty());
  EXPECT_EQ(free->queue_length, 0u);
}

TEST_P(StoreConformance, ListPagesThroughEveryLockOfAPrefix) {
  Broker a = MakeBroker(kBrokerA);
  std::set<std::string> wanted;
  core::OpId op = 0;
  const auto take = [&](std::string_view ns, const std::string& key) {
    ++op;
    auto acquire = MakeAcquire(op, core::LockName::Encode(ns, key), Owner(1));
    a.store->Submit(core::StoreAcquire(acquire));
    return acquire.name.escaped();
  };
  for (int i = 0; i < 120; ++i) {
    wanted.insert(take("n*s", "a[b]*{" + std::to_string(i)));
    take("n*s", "other" + std::to_string(i));
    take("nXs", "a[b]*{" + std::to_string(i));
  }
  a.store->Flush();
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::StoreReply>() == op; }));

  std::set<std::string> seen;
  std::string token;
  int pages = 0;
  do {
    std::optional<absl::StatusOr<LockPage>> page;
    a.store->List(core::EscapeNamespace("n*s"), core::EscapeKey("a[b]*{"), 50, token, seconds(10),
                  [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
    ASSERT_TRUE(Await([&] { return page.has_value(); }));
    ASSERT_TRUE(page->ok()) << page->status();
    EXPECT_LE((*page)->locks.size(), 50u);
    for (const auto& lock : (*page)->locks) {
      EXPECT_FALSE(lock.holders.empty());
      seen.insert(lock.name.escaped());
    }
    token = (*page)->next_page_token;
  } while (!token.empty() && ++pages < 1000);
  EXPECT_EQ(seen, wanted);
}

TEST_P(StoreConformance, AListShowsSomeHoldersOfALockAndCountsAll) {
  constexpr uint32_t kReaders = kMaxListedHolders + 4;
  Broker a = MakeBroker(kBrokerA);
  for (uint8_t reader = 1; reader <= kReaders; ++reader) {
    core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(reader));
    acquire.want.mode = core::Mode::kShared;
    Do<core::AcquireGranted>(a, acquire);
  }
  std::optional<absl::StatusOr<LockPage>> page;
  a.store->List(core::EscapeNamespace("default"), core::EscapeKey("k"), 10, "", seconds(10),
                [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
  ASSERT_TRUE(Await([&] { return page.has_value(); }));
  ASSERT_TRUE(page->ok()) << page->status();
  ASSERT_EQ((*page)->locks.size(), 1u);
  const LockView& listed = (*page)->locks.front();
  EXPECT_EQ(listed.holders.size(), kMaxListedHolders);
  EXPECT_EQ(listed.holder_count, kReaders);

  const auto inspected = Inspect(a, Lock("k"));
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->holders.size(), kReaders) << "a question about one lock shows more of them";
  EXPECT_EQ(inspected->holder_count, kReaders);
}

// A token names locks, and its bearer may give it to any search.
TEST_P(StoreConformance, APageTokenShowsNothingOutsideOfItsSearch) {
  Broker a = MakeBroker(kBrokerA);
  core::OpId op = 0;
  const auto take = [&](std::string_view ns, const std::string& key) {
    ++op;
    AskFor<core::AcquireGranted>(a, op, MakeAcquire(op, core::LockName::Encode(ns, key), Owner(1)));
  };
  for (const char* key : {"a1", "a2", "a3", "b1", "b2", "b3"}) take("hr", key);
  for (const char* key : {"a1", "b1"}) take("team", key);
  const auto list = [&](std::string_view ns, std::string_view prefix, const std::string& token) {
    std::optional<absl::StatusOr<LockPage>> page;
    a.store->List(core::EscapeNamespace(ns), core::EscapeKey(prefix), 1, token, seconds(10),
                  [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
    EXPECT_TRUE(Await([&] { return page.has_value(); }));
    return page ? *std::move(page) : absl::StatusOr<LockPage>(absl::UnavailableError("no answer"));
  };
  std::set<std::string> tokens;
  for (std::string token;;) {
    const auto page = list("hr", "", token);
    ASSERT_TRUE(page.ok()) << page.status();
    token = page->next_page_token;
    if (token.empty()) break;
    tokens.insert(token);
  }
  ASSERT_FALSE(tokens.empty());
  for (std::string token : tokens) {
    do {
      const auto page = list("team", "a", token);
      if (absl::IsInvalidArgument(page.status())) break;
      ASSERT_TRUE(page.ok()) << page.status();
      for (const LockView& lock : page->locks) EXPECT_EQ(lock.name, core::LockName::Encode("team", "a1"));
      token = page->next_page_token;
    } while (!token.empty());
  }
}

TEST_P(StoreConformance, AWrongPageTokenIsRefused) {
  Broker a = MakeBroker(kBrokerA);
  std::optional<absl::StatusOr<LockPage>> page;
  a.store->List("ns", "", 10, "no token of ours", seconds(10),
                [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
  EXPECT_FALSE(page);
  ASSERT_TRUE(Await([&] { return page.has_value(); }));
  EXPECT_EQ(page->status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace distlock::store
