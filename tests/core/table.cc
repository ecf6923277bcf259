// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <variant>

#include "core/limits.h"

namespace distlock::core {
namespace {

// A copy of a command may come late, when the owner has its next grant or place. So each command says what it means, by
// a token or by the time until which it may run; those that end nothing need neither.
struct ExpectBound {
  Instant now;
  bool is_any_meant;

  void Until(Instant run_before) const {
    EXPECT_GT(run_before, now);
    EXPECT_LE(run_before, now + kAttemptMax);
  }

  void Names(uint64_t token) const { EXPECT_TRUE(token != 0 || is_any_meant); }

  void operator()(const StoreAcquire& in) const { Until(in.run_before); }
  void operator()(const StoreAcquireAll& in) const { Until(in.run_before); }
  void operator()(const StoreWithdraw& in) const { Until(in.run_before); }
  void operator()(const StoreRenew& in) const {
    for (const RenewItem& item : in.items) Names(item.token);
  }
  void operator()(const StoreRelease& in) const { Names(in.token); }
  void operator()(const StoreDowngrade& in) const { Names(in.token); }
  void operator()(const StoreForce& in) const { Names(in.token); }
  void operator()(const StoreWanted& in) const { Names(in.token); }
  void operator()(const StoreAdopt& in) const {
    Names(in.token);
    Until(in.run_before);
  }
  void operator()(const StoreTend&) const {}
  void operator()(const StoreWatch&) const {}
};

}  // namespace

OwnerId Owner(int n) {
  OwnerId owner{};
  owner[0] = 0xAA;
  owner[14] = static_cast<uint8_t>(n >> 8);
  owner[15] = static_cast<uint8_t>(n);
  return owner;
}

LockName Name(const std::string& key) { return LockName::Encode("default", key); }

Table::Table(BrokerConfig config, Instant start) : now(start), broker(config) {}

void Table::Do(Input input) {
  std::vector<Effect> effects;
  broker.Step(now, std::move(input), effects);
  broker.Check();
  for (Effect& effect : effects) {
    if (auto* command = std::get_if<StoreCommand>(&effect)) {
      std::visit(ExpectBound{now, is_any_meant}, *command);
      commands.push_back(std::move(*command));
    }
    if (auto* note = std::get_if<Notify>(&effect)) notes.push_back(std::move(*note));
    if (auto* fact = std::get_if<Fact>(&effect)) facts.push_back(std::move(*fact));
    if (std::holds_alternative<DrainComplete>(effect)) ++drains;
  }
}

void Table::Pass(Duration time) {
  const Instant end = now + time;
  while (broker.NextDeadline() <= end) {
    now = std::max(now, broker.NextDeadline());
    const Instant before = broker.NextDeadline();
    Do(Tick{});
    ASSERT_GT(broker.NextDeadline(), before) << "the core asks for the same instant again";
  }
  now = end;
}

void Table::StoreComesUp() { Do(StoreUp{}); }

StoreTime Table::StoreNow() const {
  return StoreTime{std::chrono::duration_cast<microseconds>(now.time_since_epoch() + kStoreOffset).count()};
}

void Table::Reply(OpId op, decltype(StoreReply::outcome) outcome) { Do(StoreReply{op, std::move(outcome)}); }

StoreAcquire Table::GrantNext(uint64_t token) {
  auto ask = Take<StoreAcquire>();
  Reply(ask.op, AcquireGranted{token, StoreNow()});
  return ask;
}

StoreAcquire Table::QueueNext(Duration left) {
  auto ask = Take<StoreAcquire>();
  Reply(ask.op, AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = left, .info = "who"}}, 1});
  return ask;
}

Acquire Table::Want(SessionId session, RequestId request, const std::string& key, int owner) {
  Acquire acquire;
  acquire.session = session;
  acquire.request = request;
  acquire.name = Name(key);
  acquire.owner = Owner(owner);
  acquire.ttl = kT;
  return acquire;
}

Acquire Table::WantDetached(SessionId session, RequestId request, const std::string& key, int owner) {
  Acquire acquire = Want(session, request, key, owner);
  acquire.detached = true;
  return acquire;
}

void Table::Open(SessionId session, SessionKind kind) { Do(OpenSession{session, kind}); }

Granted Table::Hold(SessionId session, RequestId request, const std::string& key, int owner) {
  Do(Want(session, request, key, owner));
  GrantNext(++next_token);
  return Event<Granted>(session, request);
}

}  // namespace distlock::core
