// SPDX-License-Identifier: Apache-2.0
//
// The common base of Renew, Downgrade, Adopt and ForceRelease calls, without any of them.
#include "core/retrying_calls.h"

#include "alone.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

struct ProbeCall : RetryingCall {
  explicit ProbeCall(Part& of) : RetryingCall(of) {}
  Downgrade request;
};

Downgrade From(SessionId session, RequestId request) {
  return {.session = session, .request = request, .name = Name("a"), .owner = Owner(1), .info = {}};
}

struct ProbeCalls final : RetryingCalls<ProbeCall> {
  explicit ProbeCalls(CoreContext& core) : RetryingCalls(core) {}
  void OnReply(const Op&, OpId, StoreReply&) override {}
  void Send(ProbeCall&) override { ++sent; }
  const char* Doubt() const override { return "; perhaps"; }
  void OnEnd(const ProbeCall&, bool is_answered) override { ++(is_answered ? answered : dropped); }
  int sent = 0;
  int answered = 0;
  int dropped = 0;

  using RetryingCalls::Answer, RetryingCalls::AwaitStore, RetryingCalls::Begin, RetryingCalls::BeginAttempt;
  using RetryingCalls::Find, RetryingCalls::HasAnyOf, RetryingCalls::Refuse, RetryingCalls::RetryAfter;
};

struct Calls : Alone {
  ProbeCalls calls{core};
};

TEST(RetryingCalls, OneRequestIsOneCall) {
  Calls t;
  ProbeCall* const call = t.calls.Begin(From(1, 2), seconds(5));
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(t.calls.Begin(From(1, 2), seconds(5)), nullptr);
  EXPECT_NE(t.calls.Begin(From(1, 3), seconds(5)), nullptr);
  EXPECT_EQ(t.calls.Find({1, 2}), call);
  EXPECT_TRUE(t.calls.HasAnyOf(1));
  EXPECT_FALSE(t.calls.HasAnyOf(2));
}

TEST(RetryingCalls, AnAttemptIsRepeatedAfterItsTimeoutAndNotAfterTheCallersPatience) {
  Calls t;
  ProbeCall& call = *t.calls.Begin(From(1, 2), seconds(5));
  const OpId op = t.calls.BeginAttempt(call, seconds(2));
  EXPECT_EQ(t.core.FindOp(op)->recipient.request, 2u);
  EXPECT_EQ(call.at, t.now + seconds(2));
  t.Pass(seconds(4));
  t.calls.BeginAttempt(call, seconds(2));
  EXPECT_EQ(call.at, t.now + seconds(1)) << "the end of the caller's patience";
}

TEST(RetryingCalls, AFailureIsRetriedAfterABackOff) {
  Calls t;
  ProbeCall& call = *t.calls.Begin(From(1, 2), seconds(5));
  call.op = 7;
  t.calls.RetryAfter(call, StoreReply{7, StoreFailed{FailureKind::kUnavailable, "loading"}}, 1, milliseconds(100));
  EXPECT_EQ(call.op, 0u);
  EXPECT_GE(call.at, t.now + milliseconds(100) + kRetryMin / 2);
  EXPECT_LE(call.at, t.now + milliseconds(100) + kRetryMin / 2 + 2 * kRetryMin);
  EXPECT_EQ(t.core.WhyNoAnswer(call.trouble), "loading");
}

TEST(RetryingCalls, AnEndOfPatienceIsToldWithItsDoubt) {
  Calls t;
  ProbeCall& call = *t.calls.Begin(From(1, 2), seconds(5));
  t.Pass(seconds(4));
  t.calls.OnTimer(call);
  EXPECT_EQ(t.calls.sent, 1);
  EXPECT_TRUE(t.Take<Notify>().empty());
  t.Pass(seconds(1));
  t.calls.OnTimer(call);
  EXPECT_EQ(t.calls.sent, 1);
  const auto told = t.Take<Notify>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(std::get<Refused>(told[0].event).reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(std::get<Refused>(told[0].event).cause, "no answer; perhaps");
  EXPECT_TRUE(t.calls.IsIdle());
  EXPECT_EQ(t.calls.answered, 1);
}

TEST(RetryingCalls, WhileTheStoreIsDownOnlyThePatienceCounts) {
  Calls t;
  ProbeCall& call = *t.calls.Begin(From(1, 2), seconds(5));
  EXPECT_EQ(t.core.WhyNoAnswer(call.trouble), "no answer");
  t.core.store_up = false;
  t.core.store_trouble = "refused";
  t.calls.RetryAfter(call, StoreReply{7, StoreUnknown{"reset"}}, 1);
  EXPECT_EQ(call.at, t.now + seconds(5));
  EXPECT_EQ(t.core.WhyNoAnswer(call.trouble), "refused");
  t.calls.BeginAttempt(*t.calls.Begin(From(1, 3), seconds(5)), seconds(2));
  t.calls.OnStoreUp();
  EXPECT_EQ(t.calls.sent, 1) << "an attempt in flight is not sent again";
}

TEST(RetryingCalls, AnAnswerEndsTheCallAndARefusalGoesOnRecord) {
  Calls t;
  t.calls.AwaitStore(*t.calls.Begin(From(1, 2), seconds(5)));
  t.calls.AwaitStore(*t.calls.Begin(From(1, 3), seconds(5)));
  t.calls.Answer(*t.calls.Find({1, 2}), Downgraded{Name("a"), Owner(1), 5});
  EXPECT_TRUE(t.Take<Fact>().empty());
  t.calls.Refuse(*t.calls.Find({1, 3}), RefusalReason::kNotHolder, "gone");
  const auto facts = t.Take<Fact>();
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0].refusal, RefusalReason::kNotHolder);
  const auto told = t.Take<Notify>();
  ASSERT_EQ(told.size(), 2u);
  const size_t of_refused = told[0].request == 3 ? 0 : 1;
  EXPECT_EQ(told[of_refused].request, 3u);
  EXPECT_EQ(std::get<Refused>(told[of_refused].event).cause, "gone");
  EXPECT_TRUE(std::holds_alternative<Downgraded>(told[1 - of_refused].event));
  EXPECT_TRUE(t.calls.IsIdle());
  EXPECT_EQ(t.calls.answered, 2);
  EXPECT_EQ(t.core.timers.size(), 0u);
}

TEST(RetryingCalls, AStreamThatEndsTakesItsOwnCallsOnly) {
  Calls t;
  for (const SessionId session : {1, 2, 3}) {
    for (const RequestId request : {1, 2}) t.calls.AwaitStore(*t.calls.Begin(From(session, request), seconds(5)));
  }
  t.calls.OnStreamEnd(2);
  EXPECT_FALSE(t.calls.HasAnyOf(2));
  EXPECT_NE(t.calls.Find({1, 2}), nullptr);
  EXPECT_NE(t.calls.Find({3, 1}), nullptr);
  EXPECT_EQ(t.calls.dropped, 2);
  EXPECT_EQ(t.calls.answered, 0);
  EXPECT_EQ(t.core.timers.size(), 4u);
  EXPECT_TRUE(t.Take<Notify>().empty());
}

}  // namespace
}  // namespace distlock::core
