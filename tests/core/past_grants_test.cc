// SPDX-License-Identifier: Apache-2.0
#include "core/past_grants.h"

#include "alone.h"

namespace distlock::core {
namespace {

struct Memory : Alone {
  PastGrants grants{core};
};

TEST(PastGrants, AreKnownForAsLongAsTheyMayLast) {
  Memory t;
  t.grants.Remember(Owner(1), t.now + seconds(2));
  t.grants.Remember(Owner(2), t.now + seconds(4));
  EXPECT_TRUE(t.grants.Contains(Owner(1)));
  t.Pass(seconds(2));
  EXPECT_FALSE(t.grants.Contains(Owner(1)));
  EXPECT_TRUE(t.grants.Contains(Owner(2)));
}

TEST(PastGrants, ALaterGrantReplacesAnEarlierOne) {
  Memory t;
  t.grants.Remember(Owner(1), t.now + seconds(9), t.now + seconds(9));
  t.grants.Remember(Owner(1), t.now + seconds(2));
  EXPECT_FALSE(t.grants.IsPromised(Owner(1)));
  t.Pass(seconds(3));
  EXPECT_FALSE(t.grants.Contains(Owner(1)));
}

TEST(PastGrants, AreForgotten) {
  Memory t;
  t.grants.Remember(Owner(1), t.now + seconds(2));
  t.grants.Forget(Owner(1));
  t.grants.Forget(Owner(2));
  EXPECT_FALSE(t.grants.Contains(Owner(1)));
}

TEST(PastGrants, APromiseMayEndBeforeTheGrant) {
  Memory t;
  t.grants.Remember(Owner(1), t.now + seconds(9), t.now + seconds(3));
  EXPECT_TRUE(t.grants.IsPromised(Owner(1)));
  EXPECT_FALSE(t.grants.IsPromised(Owner(2)));
  t.Pass(seconds(3));
  EXPECT_FALSE(t.grants.IsPromised(Owner(1)));
  EXPECT_TRUE(t.grants.Contains(Owner(1)));
}

}  // namespace
}  // namespace distlock::core
