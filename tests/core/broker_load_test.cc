// SPDX-License-Identifier: Apache-2.0
#include "core/broker_load.h"

#include "table.h"

namespace distlock::core {
namespace {

TEST(BrokerLoad, IsThatOfTheOldestLeaseAndTheLongestQueue) {
  OneSession t;
  EXPECT_EQ(t.broker.Load({}).all.oldest_grant, kNever);
  const Instant began = t.now;
  t.Hold(1, 1, "a", 1);
  t.Pass(seconds(1));
  t.Hold(1, 2, "b", 2);
  for (int n = 3; n < 6; ++n) {
    t.Do(t.Want(1, static_cast<RequestId>(n), n == 5 ? "c" : "d", n));
    t.QueueNext();
  }
  const BrokerLoad load = t.broker.Load({});
  EXPECT_EQ(load.all.oldest_grant, began);
  EXPECT_EQ(load.all.longest_queue, 2u);
}

TEST(BrokerLoad, NamespacesAreToldApartByTheirWholeName) {
  OneSession t;
  t.Hold(1, 1, "a", 1);  // in the namespace "default"
  const BrokerLoad load = t.broker.Load({"def", "default", "other"});
  ASSERT_EQ(load.of_namespace.size(), 3u);
  EXPECT_EQ(load.of_namespace[0].oldest_grant, kNever);
  EXPECT_EQ(load.of_namespace[1].oldest_grant, t.now);
  EXPECT_EQ(load.of_namespace[2].oldest_grant, kNever);
}

}  // namespace
}  // namespace distlock::core
