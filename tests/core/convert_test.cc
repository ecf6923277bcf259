// SPDX-License-Identifier: Apache-2.0
//
// Convert: asked of the store until the outcome is known.
#include "table.h"

namespace distlock::core {
namespace {

using Result = ConvertDone::Result;

Convert ByName(const Granted& granted, SessionId session = 9) {
  return {.session = session, .request = 1, .name = granted.name, .owner = granted.owner, .token = granted.token, .info = "+"};
}

TEST(Convert, OfASessionsLeaseByItsAcquire) {
  Table t;
  t.StoreComesUp();
  t.Open(1);
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Do(Convert{.session = 1, .request = 8, .acquire = 7, .name = {}, .info = "+"});
  const auto ask = t.Take<StoreConvert>();
  EXPECT_EQ(ask.name, granted.name);
  EXPECT_EQ(ask.owner, granted.owner);
  EXPECT_EQ(ask.token, granted.token);
  EXPECT_EQ(ask.info, "+");
  EXPECT_EQ(t.Events<Converted>(), 0u);
  t.Reply(ask.op, ConvertDone{.result = Result::kConverted, .next = {}});
  EXPECT_EQ(t.Event<Converted>(1, 8).token, granted.token);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Convert, WhatIsNotHeldIsRefused) {
  Table t;
  t.StoreComesUp();
  t.Open(1);
  t.Do(Convert{.session = 1, .request = 8, .acquire = 7, .name = {}, .info = {}});
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kNotHolder);
  t.Do(Convert{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.Reply(t.Take<StoreConvert>().op, ConvertDone{.next = {}});
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kNotHolder);
  t.Do(Convert{.session = 10, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.Reply(t.Take<StoreConvert>().op, ConvertDone{.result = Result::kAnotherMode, .next = {}});
  EXPECT_EQ(t.Event<Refused>(10, 1).reason, RefusalReason::kNotSupported);
}

TEST(Convert, AnUnknownOutcomeIsAskedAgain) {
  Table t;
  t.StoreComesUp();
  t.Open(1, SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  t.Do(ByName(granted));
  t.Reply(t.Take<StoreConvert>().op, StoreUnknown{"reset"});
  EXPECT_EQ(t.Events<Converted>() + t.Events<Refused>(), 0u);
  t.Pass(milliseconds(100));
  t.Reply(t.Take<StoreConvert>().op, ConvertDone{.result = Result::kConverted, .next = {}});
  t.Event<Converted>(9, 1);
}

TEST(Convert, WithoutTheStoreItIsSaidThatItIsNotKnown) {
  Table t;
  t.StoreComesUp();
  t.Open(1, SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  t.Do(StoreDown{"gone"});
  t.Do(ByName(granted));
  EXPECT_EQ(t.Count<StoreConvert>(), 0u);
  t.Pass(milliseconds(4900));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(milliseconds(200));
  const auto refused = t.Event<Refused>(9, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable);
  EXPECT_NE(refused.cause.find("not known"), std::string::npos);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreConvert>(), 0u);
}

TEST(Convert, AStoreThatComesBackIsAskedAtOnce) {
  Table t;
  t.Do(Convert{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.StoreComesUp();
  EXPECT_EQ(t.Take<StoreConvert>().token, 5u);
}

TEST(Convert, WhatIsGivenBackIsNotConverted) {
  Table t;
  t.StoreComesUp();
  t.Open(1);
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Do(StreamEnded{1});  // its client may still believe
  t.Do(ByName(granted));
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kNotHolder);
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
  t.Do(ByName(granted, 10));
  EXPECT_EQ(t.Event<Refused>(10, 1).reason, RefusalReason::kNotHolder);
  EXPECT_EQ(t.Count<StoreConvert>(), 0u);
}

TEST(Convert, LetsOwnReadersIn) {
  Table t;
  t.StoreComesUp();
  t.Open(1);
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Open(2);
  auto want = t.Want(2, 3, "a", 2);
  want.want.mode = Mode::kShared;
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{.holders = {}, .queue_length = 1, .left = kT});
  t.Do(ByName(granted));
  const HolderView next{.owner = Owner(2), .token = granted.token + 1, .since = t.StoreNow(), .ttl = kT, .info = {}};
  t.Reply(t.Take<StoreConvert>().op, ConvertDone{.result = Result::kConverted, .next = {next}});
  EXPECT_EQ(t.Event<Granted>(2, 3).token, granted.token + 1);
  t.Event<Converted>(9, 1);
}

TEST(Convert, NobodyIsAnsweredWhoseStreamIsOver) {
  Table t;
  t.StoreComesUp();
  t.Do(Convert{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  const auto ask = t.Take<StoreConvert>();
  t.Do(StreamEnded{9});
  t.Reply(ask.op, StoreUnknown{"reset"});
  t.Pass(seconds(10));
  EXPECT_EQ(t.Count<StoreConvert>(), 0u);
  EXPECT_EQ(t.notes.size(), 0u);
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

}  // namespace
}  // namespace distlock::core
