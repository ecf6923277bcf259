// SPDX-License-Identifier: Apache-2.0
//
// The broker does not believe the ids and tokens that callers send back: they may be somebody else's, or made up.
// tests/security/sent_back.txt has the table.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contract/lease_id.h"
#include "rpc/call/one_call.h"
#include "rpc/guarded.h"

namespace distlock::rpc {
namespace {

constexpr char kRequestId[] = "0123456789abcdef";
// uid 7 has the lock "mine"; uid 8 may take others only. "shared/..." is for both.
constexpr char kRules[] =
    "rules:\n"
    "- {name: holder, who: ['uid:7'], locks: ['default:mine', 'default:shared/*'], may: [acquire, look],\n"
    "   broker: [sessions]}\n"
    "- {name: other, who: ['uid:8'], locks: ['default:yours', 'default:shared/*'], may: [acquire, look]}\n";

using L = v1::LockService::Stub;

v1::SessionEvent NextAbout(TestSession& session, int64_t id) {
  v1::SessionEvent event = session.Next();
  while (event.id() != id && event.event_case() != v1::SessionEvent::EVENT_NOT_SET) event = session.Next();
  return event;
}

v1::SessionEvent Answer(TestBroker& broker, const std::function<void(v1::SessionCommand&)>& fill) {
  TestSession session(broker.locks());
  fill(session.Open().Add(2));
  session.Send();
  return NextAbout(session, 2);
}

void FillAdopt(v1::SessionCommand& command, const std::string& lease_id, const std::string& key) {
  command.mutable_adopt()->set_lease_id(lease_id);
  command.mutable_adopt()->set_request_id(kRequestId);
  *command.mutable_adopt()->mutable_lock() = Spec(key);
}

// Each way to use a lease id, and what it gets: the reason, or the outcome of a release.
using Uses = std::map<std::string, std::string>;

Uses UsesOf(TestBroker& broker, const std::string& lease_id, const std::string& key) {
  Uses got;
  const auto unary = [&](const char* name, auto method, auto request) {
    request.set_lease_id(lease_id);
    const grpc::Status status = Unary(broker.locks(), method, request);
    got[name] = status.ok() ? "done" : Details(status).reason;
  };
  unary("Renew", &L::Renew, v1::RenewRequest());
  unary("Downgrade", &L::Downgrade, v1::DowngradeRequest());
  v1::ReleaseRequest release;
  release.set_lease_id(lease_id);
  const auto [status, released] = Call<v1::ReleaseResponse>(broker.locks(), &L::Release, release);
  got["Release"] = status.ok() ? v1::ReleaseOutcome_Name(released.outcome()) : Details(status).reason;
  const auto command = [&](const char* name, const std::function<void(v1::SessionCommand&)>& fill) {
    const v1::SessionEvent event = Answer(broker, fill);
    got[name] = event.has_released() ? v1::ReleaseOutcome_Name(event.released().outcome())
                : event.has_refused()
                    ? v1::RefusalReason_Name(event.refused().reason()).substr(sizeof("REFUSAL_REASON_") - 1)
                    : "done";
  };
  command("release", [&](auto& to) { to.mutable_release()->set_lease_id(lease_id); });
  command("downgrade", [&](auto& to) { to.mutable_downgrade()->set_lease_id(lease_id); });
  command("adopt", [&](auto& to) { FillAdopt(to, lease_id, key); });
  return got;
}

TEST(SentBack, ALeaseIdIsOfNoUseToWhoMayNotTakeItsLock) {
  Guarded guarded(kRules);
  const v1::Grant held = guarded.broker->Take("mine");
  guarded.uid = 8;
  for (const auto& [use, got] : UsesOf(*guarded.broker, held.lease_id(), "mine")) {
    EXPECT_EQ(got, "PERMISSION_DENIED") << use;
  }
  guarded.uid = 7;
  EXPECT_TRUE(guarded.broker->IsHeld("mine"));
}

// Its check is none that keeps anybody from making one: what the id has to have is the owner, which is secret.
TEST(SentBack, ALeaseIdThatWasMadeUpIsOfNoLease) {
  Guarded guarded(kRules);
  const v1::Grant held = guarded.broker->Take("shared/a");
  const auto real = contract::DecodeLeaseId(held.lease_id());
  ASSERT_TRUE(real);
  guarded.uid = 8;
  std::vector<contract::LeaseId> forged(4, *real);
  forged[0].owner[5] ^= 1;
  ++forged[1].token;
  forged[2].name = core::LockName::Encode("default", "yours");
  forged[3].owner = {};  // stands for nobody
  for (size_t i = 0; i < forged.size(); ++i) {
    const std::string key = i == 2 ? "yours" : "shared/a";
    for (const auto& [use, got] : UsesOf(*guarded.broker, contract::EncodeLeaseId(forged[i]), key)) {
      const bool is_release = use == "Release" || use == "release";
      const char* expected = i == 3 ? "INVALID_ARGUMENT" : is_release ? "RELEASE_OUTCOME_ALREADY_GONE" : "NOT_HOLDER";
      EXPECT_EQ(got, expected) << use << " " << i;
    }
    EXPECT_TRUE(guarded.broker->IsHeld("shared/a")) << i;
  }
}

// As OneCallersRequestIdIsOfNoUseToAnother, on streams: the place in the queue.
TEST(SentBack, ARequestIdTakesNobodyElsesPlace) {
  Guarded guarded(kRules);
  const v1::Grant held = guarded.broker->Take("shared/a");
  const auto wait = [&](TestSession& session, int generation) {
    session.Add(1).mutable_open()->set_generation(generation);
    v1::AcquireLocks& acquire = *session.Add(2).mutable_acquire();
    acquire.set_request_id(kRequestId);
    *acquire.add_locks() = Spec("shared/a");
    acquire.mutable_locks(0)->clear_max_wait();
    session.Send();
    EXPECT_TRUE(NextAbout(session, 2).has_queued());
  };
  TestSession first(guarded.broker->locks());
  wait(first, 1);
  guarded.uid = 8;
  TestSession thief(guarded.broker->locks());
  wait(thief, 99);
  guarded.broker->Release(held.lease_id());
  EXPECT_TRUE(NextAbout(first, 2).has_granted());
}

TEST(SentBack, AHoldsRequestIdTakesNobodyElsesPlace) {
  Guarded guarded(kRules);
  const v1::Grant held = guarded.broker->Take("shared/a");
  struct Waiter {
    Waiter(TestBroker& broker, int generation) {
      v1::HoldRequest request;
      request.mutable_lock()->set_key("shared/a");
      request.set_request_id(kRequestId);
      request.set_generation(generation);
      stream = broker.locks().Hold(&context, request);
      EXPECT_TRUE(Next().has_queued());
    }
    v1::HoldResponse Next() {
      v1::HoldResponse response;
      stream->Read(&response);
      return response;
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::HoldResponse>> stream;
  };
  Waiter first(*guarded.broker, 1);
  guarded.uid = 8;
  Waiter thief(*guarded.broker, 99);
  guarded.broker->Release(held.lease_id());
  EXPECT_TRUE(first.Next().has_granted());
  first.context.TryCancel();
  thief.context.TryCancel();
}

// As TakesADetachedLeaseAndRepeatsDoNoHarm, but the repeat is somebody else's.
TEST(SentBack, AnAdoptionsRequestIdIsOfNoUseToAnother) {
  Guarded guarded(kRules);
  const v1::Grant held = guarded.broker->Take("shared/a");
  const auto adopt = [&](TestSession& session) {
    FillAdopt(session.Open().Add(2), held.lease_id(), "shared/a");
    session.Send();
    return NextAbout(session, 2);
  };
  TestSession first(guarded.broker->locks());
  ASSERT_TRUE(adopt(first).has_granted());
  guarded.uid = 8;
  TestSession thief(guarded.broker->locks());
  EXPECT_EQ(adopt(thief).refused().reason(), v1::REFUSAL_REASON_NOT_HOLDER);
  EXPECT_TRUE(guarded.broker->IsHeld("shared/a"));
}

TEST(SentBack, AnAcquireIdIsOfItsSession) {
  Guarded guarded(kRules);
  TestSession holder(guarded.broker->locks());
  holder.Open().Acquire(2, "shared/a").Acquire(3, "shared/b").Send();
  const v1::Grant held = NextAbout(holder, 2).granted();
  guarded.uid = 8;
  TestSession other(guarded.broker->locks());
  other.Open().Acquire(7, "yours").Release(8, 2).Cancel(3);
  other.Add(9).mutable_downgrade()->set_acquire_id(2);
  other.Send();
  EXPECT_EQ(NextAbout(other, 8).released().outcome(), v1::RELEASE_OUTCOME_ALREADY_GONE);
  EXPECT_EQ(NextAbout(other, 9).refused().reason(), v1::REFUSAL_REASON_NOT_HOLDER);
  EXPECT_TRUE(guarded.broker->IsHeld("shared/a"));
  EXPECT_TRUE(guarded.broker->IsHeld("shared/b"));
  guarded.uid = 7;
  v1::ReleaseRequest release;
  release.set_lease_id(held.lease_id());
  EXPECT_TRUE(Unary(guarded.broker->locks(), &L::Release, release).ok());
}

// A label that a caller gives itself never stands in the place of a proven name.
TEST(SentBack, NoLabelPassesForWhatIsProven) {
  const Guarded guarded(kRules);
  v1::AcquireRequest request;
  v1::LockSpec& lock = *request.add_locks() = Spec("mine");
  lock.set_owner("uid:0");
  const std::map<std::string, std::string> said = {{"distlock.identity", "uid:0"},
                                                   {"distlock.broker_id", "ffffffffffffffff"},
                                                   {"distlock.mode", "LOCK_MODE_SHARED"},
                                                   {"distlock.election", "10.0.0.1:1"}};
  lock.mutable_metadata()->insert(said.begin(), said.end());
  const auto [status, taken] = Call<v1::AcquireResponse>(guarded.broker->locks(), &L::Acquire, request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::GetLockRequest look;
  look.set_key("mine");
  const auto shown = Call<v1::GetLockResponse>(guarded.broker->locks(), &L::GetLock, look).second;
  ASSERT_EQ(shown.lock().holders_size(), 1);
  const v1::Holder& holder = shown.lock().holders(0);
  EXPECT_EQ(holder.identity(), "uid:7");
  EXPECT_EQ(holder.mode(), v1::LOCK_MODE_EXCLUSIVE);
  EXPECT_NE(holder.broker_id(), "ffffffffffffffff");
  EXPECT_EQ(holder.holder_id(), taken.grants(0).holder_id());
  EXPECT_EQ(holder.metadata_size(), static_cast<int>(said.size()));
}

TEST(SentBack, HeadersNameNobody) {
  const Guarded guarded(kRules);
  TestSession session(guarded.broker->locks());
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"x-forwarded-for", "203.0.113.9"},
           {"x-real-ip", "203.0.113.9"},
           {"forwarded", "for=203.0.113.9;host=evil.example"},
           {"x-forwarded-host", "evil.example"},
           {"x-forwarded-client-cert", "URI=spiffe://example.org/ns/shop/sa/admin"},
           {"x-forwarded-user", "uid:8"},
           {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
           {"distlock-inside-peer", "ipv4:203.0.113.9:1"},
           {"distlock-inside-unix-ids", "8 8"},
           {"distlock-inside-secret", ""}}) {
    session.context().AddMetadata(name, value);
  }
  session.context().set_authority("evil.example");
  session.Open().Acquire(2, "yours", /*one_try=*/true).Send();
  EXPECT_EQ(session.Next().opened().identity(), "uid:7");
  EXPECT_EQ(NextAbout(session, 2).refused().reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  const auto shown = Call<v1::ListSessionsResponse>(guarded.broker->admin(), &v1::AdminService::Stub::ListSessions,
                                                    v1::ListSessionsRequest())
                         .second;
  ASSERT_EQ(shown.sessions_size(), 1);
  EXPECT_EQ(shown.sessions(0).identity(), "uid:7");
  EXPECT_THAT(shown.sessions(0).peer(), testing::StartsWith("unix:"));
  EXPECT_THAT(shown.ShortDebugString(), testing::Not(testing::HasSubstr("203.0.113.9")));
}

TEST(SentBack, AFencingTokenIsComparedAndNothingElse) {
  const Guarded guarded(kRules);
  const v1::Grant held = guarded.broker->Take("mine");
  const auto ask = [&](int64_t token) {
    v1::CheckTokenRequest request;
    request.set_key("mine");
    request.set_fencing_token(token);
    return Call<v1::CheckTokenResponse>(guarded.broker->locks(), &L::CheckToken, request);
  };
  for (const int64_t forged : {held.fencing_token() + 1, int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_FALSE(ask(forged).second.newest()) << forged;
    EXPECT_EQ(ask(forged).second.newest_token(), held.fencing_token());
  }
  EXPECT_EQ(ask(-1).first.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(ask(held.fencing_token()).second.newest());
}

// A heartbeat covers the promises that were made to its own session, whatever number it has.
TEST(SentBack, AHeartbeatsNumberIsOfItsSession) {
  Guarded guarded(kRules);
  TestSession session(guarded.broker->locks());
  session.Open().Heartbeat(1'000'000).Heartbeat(5).Acquire(2, "shared/a").Send();
  std::vector<int64_t> acked;
  v1::Grant granted;
  while (!granted.IsInitialized() || granted.key().empty() || acked.empty()) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_heartbeat_ack()) acked.push_back(event.heartbeat_ack().seq());
    if (event.has_granted()) granted = event.granted();
  }
  for (const int64_t seq : acked) EXPECT_TRUE(seq == 1'000'000 || seq == 5) << seq << " was not sent";
  EXPECT_TRUE(granted.echo_seq() == 0 || granted.echo_seq() == 5 || granted.echo_seq() == 1'000'000);
}

}  // namespace
}  // namespace distlock::rpc
