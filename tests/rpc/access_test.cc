// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <chrono>

#include "absl/strings/escaping.h"
#include "access/identify.h"
#include "contract/page_token.h"
#include "rpc/call/one_call.h"
#include "rpc/guarded.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

v1::SessionEvent Try(TestSession& session, uint64_t id, const v1::LockSpec& lock) {
  *session.Add(id).mutable_acquire()->add_locks() = lock;
  session.Send();
  for (v1::SessionEvent event = session.Next();; event = session.Next()) {
    if (event.id() == static_cast<int64_t>(id) || event.event_case() == v1::SessionEvent::EVENT_NOT_SET) return event;
  }
}

// When a stream that must end and goes on all the same fails its test; late enough for any machine.
std::chrono::system_clock::time_point InAMinute() { return std::chrono::system_clock::now() + std::chrono::minutes(1); }

TEST(Access, EachModeIsAVerbOfItsOwn) {
  const std::pair<v1::LockMode, const char*> modes[] = {{v1::LOCK_MODE_UNSPECIFIED, "exclusive"},
                                                        {v1::LOCK_MODE_EXCLUSIVE, "exclusive"},
                                                        {v1::LOCK_MODE_SHARED, "shared"},
                                                        {v1::LOCK_MODE_PERMIT, "permit"}};
  for (const char* allowed : {"exclusive", "shared", "permit"}) {
    const Guarded guarded("rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [" + std::string(allowed) + "]}\n");
    TestSession session(guarded.broker->locks());
    session.Open();
    uint64_t id = 2;
    for (const auto& [mode, verb] : modes) {
      const std::string key = "k" + std::to_string(++id);
      const v1::SessionEvent event = Try(session, id, Spec(key, mode));
      const bool denied = event.refused().reason() == v1::REFUSAL_REASON_PERMISSION_DENIED;
      EXPECT_EQ(denied, std::string(verb) != allowed) << verb << " under " << allowed;
    }
  }
}

TEST(Access, ADenialSaysWhoWhatAndWhichRule) {
  const Guarded guarded(
      "rules:\n- {name: all, who: ['uid:7'], locks: ['shop:*'], may: [acquire, list]}\n"
      "- {name: not-the-vault, who: [authenticated], locks: ['shop:vault*'], deny: [acquire]}\n");
  v1::AcquireRequest request;
  *request.add_locks() = Spec("vault/1");
  request.mutable_locks(0)->set_namespace_("shop");
  const grpc::Status status = Unary(guarded.broker->locks(), &v1::LockService::Stub::Acquire, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(), "uid:7 may not take shop:vault/1 exclusive: rule not-the-vault denies it");
  const Details details(status);
  EXPECT_EQ(details.reason, "PERMISSION_DENIED");
  const auto& facts = details.facts;
  EXPECT_EQ(facts.at("identity"), "uid:7");
  EXPECT_EQ(facts.at("verb"), "exclusive");
  EXPECT_EQ(facts.at("namespace"), "shop");
  EXPECT_EQ(facts.at("key"), "vault/1");
  EXPECT_EQ(facts.at("rule"), "not-the-vault");
  v1::ListLocksRequest list;
  const grpc::Status listed = Unary(guarded.broker->locks(), &v1::LockService::Stub::ListLocks, list);
  EXPECT_EQ(listed.error_message(), "uid:7 may not list default:*: no rule allows it; allowed are shop:*");
}

// A caller may keep others from a lock while he renews it; a min_hold keeps them from it without him.
TEST(Access, AMinHoldNeedsItsOwnRightBesides) {
  Guarded guarded("rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [acquire]}\n");
  v1::LockSpec nightly = Spec("nightly");
  nightly.mutable_min_hold()->set_seconds(60);
  v1::AcquireRequest call;
  *call.add_locks() = nightly;
  const grpc::Status status = Unary(guarded.broker->locks(), &v1::LockService::Stub::Acquire, call);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Details(status).facts.at("verb"), "min-hold");
  EXPECT_THAT(status.error_message(), HasSubstr("uid:7 may not take default:nightly with a min_hold (min-hold): no"));
  TestSession session(guarded.broker->locks());
  session.Open();
  const v1::SessionEvent refused = Try(session, 2, nightly);
  EXPECT_EQ(refused.refused().reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  EXPECT_EQ(refused.refused().denial().verb(), "min-hold");
  EXPECT_TRUE(Try(session, 3, Spec("other")).has_granted());

  guarded.Use("rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [shared, min-hold]}\n");
  EXPECT_EQ(Try(session, 4, nightly).refused().denial().verb(), "exclusive");
  guarded.Use("rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [exclusive, min-hold]}\n");
  EXPECT_TRUE(Try(session, 5, nightly).has_granted());
}

// A caller can make a page token as the broker does, and name any lock in it.
TEST(Access, APageTokenShowsNothingOutsideOfItsSearch) {
  Guarded guarded(
      "rules:\n"
      "- {name: hr, who: ['uid:8'], locks: ['hr:*'], may: [acquire, list]}\n"
      "- {name: team, who: ['uid:7'], locks: ['team:a*'], may: [acquire, list]}\n");
  const auto acquire = [&](uint32_t uid, const std::string& ns, const std::string& key) {
    guarded.uid = uid;
    v1::AcquireRequest request;
    *request.add_locks() = Spec(key);
    request.mutable_locks(0)->set_namespace_(ns);
    EXPECT_TRUE(Unary(guarded.broker->locks(), &v1::LockService::Stub::Acquire, request).ok());
  };
  acquire(8, "hr", "payroll");
  acquire(7, "team", "a1");
  const auto list = [&](const std::string& prefix, const std::string& token) {
    v1::ListLocksRequest request;
    request.set_namespace_("team");
    request.set_key_prefix(prefix);
    request.set_page_token(token);
    return Call<v1::ListLocksResponse>(guarded.broker->locks(), &v1::LockService::Stub::ListLocks, request);
  };
  const std::string names = absl::WebSafeBase64Escape("all\nhr/payroll\nteam/b\nteam/a1");
  const auto [status, page] = list("a", contract::BindPageToken(names, "uid:7", {"team", "a"}));
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(page.locks_size(), 1) << page.ShortDebugString();
  EXPECT_EQ(page.locks(0).key(), "a1");
  for (const std::string& of_another :
       {names, contract::BindPageToken(names, "uid:8", {"team", "a"}),
        contract::BindPageToken(names, "uid:7", {"", ""}), contract::BindPageToken(names, "uid:7", {"team", "a1"})}) {
    const grpc::Status refused = list("a", of_another).first;
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << of_another;
    EXPECT_THAT(refused.error_message(), HasSubstr("start without it"));
  }
}

TEST(Access, ARefusedCommandIsNotTheEndOfTheSession) {
  const Guarded guarded("rules:\n- {name: r, who: ['uid:7'], locks: ['default:mine/*'], may: [acquire]}\n");
  TestSession session(guarded.broker->locks());
  session.Open();
  const v1::SessionEvent refused = Try(session, 2, Spec("yours"));
  EXPECT_EQ(refused.refused().reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  EXPECT_EQ(refused.refused().denial().key(), "yours");
  EXPECT_EQ(refused.refused().denial().identity(), "uid:7");
  EXPECT_TRUE(Try(session, 3, Spec("mine/1")).has_granted());
  *session.Add(4).mutable_acquire()->add_locks() = Spec("mine/2");
  *session.Add(6).mutable_acquire()->add_locks() = Spec("mine/3");
  session.Release(9, 3).Send();
  int good = 0;
  for (int i = 0; i < 3; ++i) {
    const v1::SessionEvent event = session.Next();
    good += event.has_granted() || event.has_released() ? 1 : 0;
  }
  EXPECT_EQ(good, 3);
}

TEST(Access, ALeasesLockIsComparedAsItsOwnBytes) {
  const Guarded guarded(
      "rules:\n- {name: r, who: ['uid:7'], locks: ['default:50%', 'default:\\{x*'], may: [acquire]}\n");
  for (const char* key : {"50%", "{x}"}) {
    v1::ReleaseRequest request;
    request.set_lease_id(LeaseOf(key));
    EXPECT_TRUE(Unary(guarded.broker->locks(), &v1::LockService::Stub::Release, request).ok()) << key;
  }
}

TEST(Access, WhoProvesNothingIsToldSo) {
  Authorizer authorizer({.asks = true,
                         .allow_all = false,
                         .on_access = {},
                         .unix_seconds = [] { return kNow; },
                         .boot_ns = [] { return int64_t{0}; }});
  authorizer.Replace(PolicyOf("rules:\n- {name: r, who: [authenticated], locks: ['*'], may: [look]}\n"), nullptr,
                     nullptr);
  TestOptions options;
  options.server.authorizer = &authorizer;
  options.server.unix_peer_of = [](std::string_view) { return std::optional<access::UnixPeer>(); };
  TestBroker broker(options);
  v1::GetLockRequest request;
  request.set_key("k");
  const grpc::Status status = Unary(broker.locks(), &v1::LockService::Stub::GetLock, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("no proof of identity"));
}

TEST(Access, WithoutAPolicyNothingIsAuthorized) {
  Authorizer authorizer({.asks = true,
                         .allow_all = false,
                         .on_access = {},
                         .unix_seconds = [] { return kNow; },
                         .boot_ns = [] { return int64_t{0}; }});
  auto arrived = authorizer.Arrive({.peer = "unix:", .unix_peer = access::UnixPeer{0, 0, {}}});
  auto& subject = std::get<Subject>(arrived);
  EXPECT_TRUE(authorizer.CheckBroker(subject, access::Verb::kStatus));
  EXPECT_TRUE(authorizer.Check(subject, access::Verb::kLook, "", "k"));
}

TEST(Access, AWrongTokenIsNeverAnonymous) {
  Guarded guarded("rules:\n- {name: r, who: [anyone], locks: ['*'], may: [look]}\n");
  const std::string token = access::TokenOf(access::Sha256("x"));
  const auto tokens = access::Tokens::Parse(access::TokenLine("ops", token), "t");
  guarded.authorizer.Replace(nullptr, std::make_shared<const access::Tokens>(*tokens), nullptr);
  const auto look = [&](const std::string& bearer) {
    v1::GetLockRequest request;
    request.set_key("k");
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + bearer);
    v1::GetLockResponse response;
    return guarded.broker->locks().GetLock(&context, request, &response);
  };
  EXPECT_TRUE(look(token).ok());
  const grpc::Status status = look(token + "x");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), testing::Not(HasSubstr(token)));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer dlt_wrong");
  auto session = guarded.broker->locks().Session(&context);
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(Access, TheIdentityIsShownToOthers) {
  const Guarded guarded(
      "rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [acquire, look], broker: [sessions]}\n");
  TestSession session(guarded.broker->locks());
  session.Open().Acquire(2, "k").Send();
  EXPECT_EQ(session.Next().opened().identity(), "uid:7");
  ASSERT_TRUE(session.Next().has_granted());
  v1::GetLockRequest look;
  look.set_key("k");
  grpc::ClientContext context;
  v1::GetLockResponse lock;
  ASSERT_TRUE(guarded.broker->locks().GetLock(&context, look, &lock).ok());
  EXPECT_EQ(lock.lock().holders(0).identity(), "uid:7");
  grpc::ClientContext again;
  v1::ListSessionsResponse sessions;
  ASSERT_TRUE(guarded.broker->admin().ListSessions(&again, {}, &sessions).ok());
  EXPECT_EQ(sessions.sessions(0).identity(), "uid:7");
}

TEST(Access, OneCallersRequestIdIsOfNoUseToAnother) {
  Guarded guarded("rules:\n- {name: r, who: [anyone], locks: ['*'], may: [acquire]}\n");
  const v1::Grant first = guarded.broker->Take("k", "0123456789abcdef");
  EXPECT_EQ(guarded.broker->Take("k", "0123456789abcdef").fencing_token(), first.fencing_token());
  guarded.uid = 8;
  v1::AcquireRequest request;
  *request.add_locks() = Spec("k");
  request.set_request_id("0123456789abcdef");
  EXPECT_EQ(Unary(guarded.broker->locks(), &v1::LockService::Stub::Acquire, request).error_code(),
            grpc::StatusCode::ABORTED);
}

TEST(Access, OpenStreamsFollowTheNewPolicy) {
  Guarded guarded("rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [acquire, watch]}\n");
  TestSession session(guarded.broker->locks());
  session.Open();
  ASSERT_TRUE(Try(session, 2, Spec("a")).has_granted());
  v1::WatchLockRequest watched;
  watched.set_key("a");
  grpc::ClientContext context;
  context.set_deadline(InAMinute());
  const auto watch = guarded.broker->locks().WatchLock(&context, watched);
  v1::WatchLockResponse seen;
  ASSERT_TRUE(watch->Read(&seen));

  // The held lock stays, and cannot be taken again.
  guarded.Use("rules:\n- {name: r, who: ['uid:7'], locks: ['default:b'], may: [acquire]}\n");
  while (watch->Read(&seen)) {
  }
  ASSERT_EQ(watch->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Try(session, 3, Spec("c")).refused().reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  EXPECT_TRUE(Try(session, 4, Spec("b")).has_granted());

  // A caller that may take nothing has no stream either.
  guarded.Use("rules:\n- {name: r, who: ['uid:7'], locks: ['*'], may: [look]}\n");
  EXPECT_EQ(session.Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(guarded.broker->Await([](const core::BrokerStats& stats) { return stats.leases == 0; }));
}

TEST(Access, AWithdrawnTokenEndsItsStreams) {
  Guarded guarded("rules:\n- {name: r, who: ['token:ops'], locks: ['*'], may: [acquire]}\n");
  const std::string token = access::TokenOf(access::Sha256("x"));
  const auto use = [&](const std::string& lines) {
    guarded.authorizer.Replace(nullptr, std::make_shared<const access::Tokens>(*access::Tokens::Parse(lines, "t")),
                               nullptr);
    guarded.broker->server().Review();
  };
  use(access::TokenLine("ops", token));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + token);
  context.set_deadline(InAMinute());
  v1::HoldRequest request;
  *request.mutable_lock() = Spec("k");
  const auto hold = guarded.broker->locks().Hold(&context, request);
  v1::HoldResponse response;
  ASSERT_TRUE(hold->Read(&response));
  use(access::TokenLine("ops", token + "new"));
  while (hold->Read(&response)) {
  }
  EXPECT_EQ(hold->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST(Access, AllowAllTellsWhatItWouldDenyAndRefusesNothing) {
  Guarded guarded("rules:\n- {name: no, who: [anyone], locks: ['*'], deny: [acquire]}\n", /*allow_all=*/true);
  guarded.broker->Take("k");
  EXPECT_EQ(guarded.Seen().back(), std::pair(AccessOutcome::kWouldDeny, std::string("no")));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer dlt_wrong");
  v1::GetStatusResponse status;
  EXPECT_TRUE(guarded.broker->admin().GetStatus(&context, {}, &status).ok());
}

TEST(Access, TheStatusPageShowsLocksOnlyToWhomEverybodyMayList) {
  Guarded guarded("rules:\n- {name: r, who: [authenticated], locks: ['*'], may: [list]}\n");
  EXPECT_FALSE(guarded.broker->server().MayEverybodyList("default"));
  guarded.Use("rules:\n- {name: r, who: [anyone], locks: ['default:*'], may: [list]}\n");
  EXPECT_TRUE(guarded.broker->server().MayEverybodyList("default"));
}

TEST(Access, CheckAccessAnswersForOneselfAndForOthers) {
  Guarded guarded(
      "rules:\n- {name: mine, who: ['uid:7'], locks: ['default:a*'], may: [look, list], broker: [access]}\n"
      "- {name: yours, who: ['uid:8'], locks: ['default:b'], may: [look]}\n");
  const auto ask = [&](const std::string& verb, const std::string& key, bool prefix, const std::string& who) {
    v1::CheckAccessRequest request;
    request.set_verb(verb);
    request.set_key(key);
    request.set_prefix(prefix);
    request.set_principal(who);
    grpc::ClientContext context;
    v1::CheckAccessResponse response;
    EXPECT_TRUE(guarded.broker->admin().CheckAccess(&context, request, &response).ok());
    return response;
  };
  EXPECT_TRUE(ask("look", "ab", false, "").allowed());
  EXPECT_EQ(ask("look", "ab", false, "").rule(), "mine");
  EXPECT_EQ(ask("look", "ab", false, "").identity(), "uid:7");
  EXPECT_FALSE(ask("look", "b", false, "").allowed());
  EXPECT_TRUE(ask("list", "a", true, "").allowed());
  EXPECT_FALSE(ask("list", "", true, "").allowed());
  EXPECT_TRUE(ask("look", "b", false, "uid:8").allowed());
  EXPECT_FALSE(ask("look", "b", false, "anonymous").allowed());
  const v1::CheckAccessResponse rights = ask("", "", false, "");
  ASSERT_EQ(rights.rights_size(), 3);
  EXPECT_EQ(rights.rights(0).verb(), "look");
  EXPECT_EQ(rights.rights(0).locks(0), "default:a*");
  guarded.uid = 8;
  EXPECT_TRUE(ask("look", "b", false, "").allowed());
}

TEST(Quota, StreamsLeasesWaitersAndRateAreOfTheCaller) {
  Guarded guarded(
      "rules:\n- {name: r, who: [anyone], locks: ['*'], may: [acquire]}\n"
      "limits:\n- {who: ['uid:7'], sessions: 2, leases: 2, waiters: 2}\n"
      "- {who: ['uid:8'], requests_per_second: 3}\n");
  TestBroker& broker = *guarded.broker;
  auto first = std::make_unique<TestSession>(broker.locks());
  auto second = std::make_unique<TestSession>(broker.locks());
  ASSERT_TRUE(Try(first->Open(), 2, Spec("a")).has_granted());
  ASSERT_TRUE(Try(second->Open(), 2, Spec("b")).has_granted());
  // For both sessions together.
  const v1::SessionEvent over = Try(*second, 3, Spec("c"));
  EXPECT_EQ(over.refused().reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
  EXPECT_THAT(over.refused().message(), HasSubstr("uid:7 holds 2 locks of 2"));
  {
    TestSession third(broker.locks());
    third.Open().Send();
    const grpc::Status status = third.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("uid:7 has 2 streams"));
  }
  // Given back: by a release, and by the end of a stream.
  first->Release(5, 2).Send();
  ASSERT_TRUE(first->Next().has_released());
  EXPECT_TRUE(Try(*second, 6, Spec("d")).has_granted());
  first->Goodbye().Send();
  EXPECT_TRUE(first->Finish().ok());
  first.reset();
  // The server learns of the end a moment later than the client.
  bool opened = false;
  for (int i = 0; i < 1000 && !opened; ++i) {
    TestSession fourth(broker.locks());
    opened = fourth.Open().Send() && fourth.Next().has_opened();
  }
  EXPECT_TRUE(opened);

  guarded.uid = 8;
  TestSession fast(broker.locks());
  fast.Open();
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(Try(fast, 2 + i, Spec("f" + std::to_string(i))).has_granted());
  const v1::SessionEvent slow = Try(fast, 9, Spec("f9"));
  EXPECT_EQ(slow.refused().reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
  EXPECT_TRUE(slow.refused().has_retry_after());
}

}  // namespace
}  // namespace distlock::rpc
