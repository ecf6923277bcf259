// SPDX-License-Identifier: Apache-2.0
//
// A client that repeats an adoption in the same session: the core has both tries in flight, in any order.
#include "table.h"

namespace distlock::core {
namespace {

constexpr uint64_t kAdoptedToken = 77;

// Session 1 takes over owner 5's lease of "a".
Adopt Try(RequestId request, uint8_t owner) {
  return {.session = 1,
          .request = request,
          .name = Name("a"),
          .from = Owner(5),
          .token = kAdoptedToken,
          .owner = Owner(owner),
          .ttl = kT,
          .info = "info"};
}

// The outcome of the first is not known, so it is asked again, and comes to the store behind the second.
TEST(AdoptionTries, OfTwoInOneSessionTheLaterOneCounts) {
  OneSession t;
  t.Do(Try(7, 6));
  t.Reply(t.Take<StoreAdopt>().op, StoreUnknown{"reset"});
  t.Do(Try(8, 16));
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
  EXPECT_EQ(t.Event<Granted>(1, 8).token, kAdoptedToken);
  t.Pass(milliseconds(100));
  const auto late = t.Take<StoreAdopt>();
  EXPECT_EQ(late.owner, Owner(6)) << "the core sends it all the same";
  t.Reply(late.op, AdoptDone{.result = AdoptDone::Result::kLater});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
}

}  // namespace
}  // namespace distlock::core
