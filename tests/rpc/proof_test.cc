// SPDX-License-Identifier: Apache-2.0
//
// A caller's rights on a stream when what proved its identity has ended.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "access/jwt_sign.h"
#include "rpc/guarded.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

constexpr char kRules[] = "rules:\n- {name: r, who: [authenticated], locks: ['*'], may: [acquire, look]}\n";

struct Clocked {
  Clocked()
      : authorizer({.asks = true,
                    .allow_all = false,
                    .on_access = {},
                    .unix_seconds = [this] { return now_s; },
                    .boot_ns = [] { return int64_t{0}; }}) {
    authorizer.Replace(PolicyOf(kRules), nullptr, nullptr);
  }
  Subject Arrive(const access::PeerFacts& facts) {
    auto arrived = authorizer.Arrive(facts);
    EXPECT_TRUE(std::holds_alternative<Subject>(arrived));
    return std::get<Subject>(std::move(arrived));
  }
  // Why it may take nothing new; "": it may.
  std::string Refused(Subject& subject) {
    const auto refusal = authorizer.CheckAcquire(subject, Spec("k"));
    if (!refusal) return "";
    EXPECT_EQ(refusal->reason(), v1::REFUSAL_REASON_UNAUTHENTICATED) << refusal->message();
    return refusal->message();
  }
  void ExpectKeepsWhatItHas(Subject& subject) {
    EXPECT_FALSE(authorizer.CheckLease(subject, core::LockName::Encode("default", "k")));
    EXPECT_FALSE(authorizer.CheckTakesAny(subject));
  }

  int64_t now_s = kNow;
  Authorizer authorizer;
};

TEST(Proof, ACertificateThatHasExpiredTakesNothingNew) {
  Clocked t;
  Subject subject = t.Arrive({.peer = "p", .tls = access::TlsPeer{.dns = {"a.example"}, .not_after_s = kNow + 10}});
  EXPECT_EQ(t.Refused(subject), "");
  t.now_s = kNow + 10;
  EXPECT_THAT(t.Refused(subject), HasSubstr("has expired; bring it a new proof, or open another one"));
  t.ExpectKeepsWhatItHas(subject);
}

class Token : public testing::Test {
 protected:
  static std::shared_ptr<const access::JwtKeys> Keys(const access::SigningKey& one, const access::SigningKey& other) {
    return *access::JwtKeys::Parse("{\"keys\":[" + one.Json() + "," + other.Json() + "]}", "jwks", "https://issuer",
                                   "distlock");
  }
  static access::PeerFacts Facts(const access::SigningKey& key, const std::string& id, int64_t until = kNow + 10,
                                 const std::string& who = "me") {
    return {.peer = "p", .keeps_secrets = true, .authorization = {Bearer(key, id, until, who)}};
  }
  static std::string Bearer(const access::SigningKey& key, const std::string& id, int64_t until,
                            const std::string& who = "me") {
    const std::string claims =
        R"({"iss":"https://issuer","aud":"distlock","sub":")" + who + R"(","exp":)" + std::to_string(until) + "}";
    return "Bearer " + key.Sign(claims, "ES256", id);
  }
  Subject Shows(const access::SigningKey& key, const std::string& id) { return t_.Arrive(Facts(key, id)); }

  Clocked t_;
  const access::SigningKey old_{access::SigningKey::Type::kEc, "old"};
  const access::SigningKey new_{access::SigningKey::Type::kEc, "new"};
};

TEST_F(Token, ThatHasExpiredTakesNothingNew) {
  t_.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  Subject subject = Shows(old_, "old");
  t_.now_s = kNow + 10 + access::kJwtLeewayS - 1;
  EXPECT_EQ(t_.Refused(subject), "");
  ++t_.now_s;
  EXPECT_THAT(t_.Refused(subject), HasSubstr("has expired"));
  t_.ExpectKeepsWhatItHas(subject);
}

TEST_F(Token, WhoseKeyIsGoneTakesNothingNew) {
  t_.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  Subject subject = Shows(old_, "old");
  t_.authorizer.Replace(nullptr, nullptr, Keys(new_, old_));
  EXPECT_EQ(t_.Refused(subject), "") << "it is still among them";
  t_.authorizer.Replace(nullptr, nullptr, Keys(new_, new_));
  EXPECT_THAT(t_.Refused(subject), HasSubstr("the key of its token counts no more"));
  t_.ExpectKeepsWhatItHas(subject);
  // The same name for another key.
  const access::SigningKey stranger(access::SigningKey::Type::kEc, "old");
  t_.authorizer.Replace(nullptr, nullptr, Keys(new_, stranger));
  EXPECT_THAT(t_.Refused(subject), HasSubstr("counts no more"));
}

TEST_F(Token, ANewOneOfTheSameCallerGoesOn) {
  t_.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  Subject subject = Shows(old_, "old");
  EXPECT_EQ(t_.authorizer.ProofLeft(subject), std::chrono::seconds(10 + access::kJwtLeewayS));
  t_.now_s = kNow + 10 + access::kJwtLeewayS;
  EXPECT_EQ(t_.authorizer.ProofLeft(subject), std::chrono::seconds(0));
  ASSERT_THAT(t_.Refused(subject), HasSubstr("has expired"));
  auto again = t_.authorizer.ArriveAgain(subject, Facts(new_, "new", t_.now_s + 3600));
  ASSERT_TRUE(std::holds_alternative<Subject>(again));
  EXPECT_EQ(t_.Refused(std::get<Subject>(again)), "");
  EXPECT_EQ(t_.authorizer.ProofLeft(std::get<Subject>(again)), std::chrono::seconds(3600 + access::kJwtLeewayS));
}

TEST_F(Token, ANewOneThatIsWrongOrSomebodyElsesIsRefused) {
  t_.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  const Subject subject = Shows(old_, "old");
  const auto refused = [&](const access::PeerFacts& facts) {
    const auto again = t_.authorizer.ArriveAgain(subject, facts);
    const auto* const refusal = std::get_if<v1::Refusal>(&again);
    return refusal == nullptr ? v1::REFUSAL_REASON_UNSPECIFIED : refusal->reason();
  };
  EXPECT_EQ(refused(Facts(new_, "new", kNow + 10, "another")), v1::REFUSAL_REASON_PERMISSION_DENIED);
  EXPECT_EQ(refused(Facts(new_, "old")), v1::REFUSAL_REASON_UNAUTHENTICATED) << "not signed by that key";
  EXPECT_EQ(refused(Facts(new_, "new", kNow - 1000)), v1::REFUSAL_REASON_UNAUTHENTICATED) << "over already";
  EXPECT_EQ(refused({.peer = "p"}), v1::REFUSAL_REASON_PERMISSION_DENIED) << "proves nothing";
}

// A connection keeps the certificate that it began with.
TEST_F(Token, ANewOneCountsBesideACertificateThatHasEnded) {
  t_.authorizer.Replace(PolicyOf(std::string("trust_domains: [td]\n") + kRules), nullptr, Keys(old_, new_));
  access::PeerFacts facts{
      .peer = "p", .tls = access::TlsPeer{.uris = {"spiffe://td/me"}, .not_after_s = kNow + 10}, .keeps_secrets = true};
  Subject subject = t_.Arrive(facts);
  ASSERT_EQ(subject.identity(), "spiffe://td/me");
  t_.now_s = kNow + 10;
  ASSERT_THAT(t_.Refused(subject), HasSubstr("has expired"));
  const auto shows = [&](const std::string& who) {
    facts.authorization = {Bearer(new_, "new", kNow + 3600, who)};
    return t_.authorizer.ArriveAgain(subject, facts);
  };
  auto good = shows("spiffe://td/me");
  ASSERT_TRUE(std::holds_alternative<Subject>(good)) << std::get<v1::Refusal>(good).message();
  EXPECT_EQ(t_.Refused(std::get<Subject>(good)), "");
  EXPECT_EQ(std::get<v1::Refusal>(shows("spiffe://td/you")).reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  facts.authorization.clear();
  EXPECT_EQ(std::get<v1::Refusal>(t_.authorizer.ArriveAgain(subject, facts)).reason(),
            v1::REFUSAL_REASON_UNAUTHENTICATED);
  EXPECT_TRUE(std::holds_alternative<v1::Refusal>(t_.authorizer.Arrive(facts))) << "it opens nothing new";
}

// A signature is verified while others call, and keys that are gone by its end prove nothing afterwards.
TEST_F(Token, KeysMayBeReplacedWhileOneIsVerified) {
  std::function<void()> meanwhile;
  Authorizer authorizer({.asks = true,
                         .allow_all = false,
                         .on_access = {},
                         .unix_seconds =
                             [&] {
                               if (const auto now = std::exchange(meanwhile, nullptr)) now();
                               return kNow;
                             },
                         .boot_ns = [] { return int64_t{0}; }});
  authorizer.Replace(PolicyOf(kRules), nullptr, Keys(old_, old_));
  meanwhile = [&] { authorizer.Replace(nullptr, nullptr, Keys(new_, new_)); };
  const access::PeerFacts facts = Facts(old_, "old");
  auto arrived = authorizer.Arrive(facts);
  if (auto* subject = std::get_if<Subject>(&arrived)) {
    EXPECT_EQ(authorizer.CheckAcquire(*subject, Spec("k"))->reason(), v1::REFUSAL_REASON_UNAUTHENTICATED);
  }
  const auto again = authorizer.Arrive(facts);
  ASSERT_TRUE(std::holds_alternative<v1::Refusal>(again));
  EXPECT_EQ(std::get<v1::Refusal>(again).reason(), v1::REFUSAL_REASON_UNAUTHENTICATED);
}

// With allow_all, too: the session has a proof that counts.
TEST_F(Token, ANewOneThatIsWrongIsNamedWhereNothingElseIsRefused) {
  std::vector<AccessOutcome> told;
  Authorizer authorizer({.asks = true,
                         .allow_all = true,
                         .on_access = [&](const AccessEvent& event) { told.push_back(event.outcome); },
                         .unix_seconds = [] { return kNow; },
                         .boot_ns = [] { return int64_t{0}; }});
  authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  const auto subject = std::get<Subject>(authorizer.Arrive(Facts(old_, "old")));
  const auto refused = [&](const Subject& who, const access::PeerFacts& facts) {
    return std::get<v1::Refusal>(authorizer.ArriveAgain(who, facts));
  };
  const v1::Refusal over = refused(subject, Facts(new_, "new", kNow - 1000));
  EXPECT_EQ(over.reason(), v1::REFUSAL_REASON_UNAUTHENTICATED);
  EXPECT_THAT(over.message(), HasSubstr("expired"));
  EXPECT_THAT(told, testing::ElementsAre(AccessOutcome::kDenied));
  EXPECT_EQ(refused(subject, Facts(new_, "new", kNow + 10, "another")).reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  const auto unproven = std::get<Subject>(authorizer.Arrive(Facts(new_, "old")));
  EXPECT_THAT(told, testing::ElementsAre(AccessOutcome::kDenied, AccessOutcome::kWouldDeny));
  EXPECT_EQ(refused(unproven, Facts(new_, "old")).reason(), v1::REFUSAL_REASON_UNAUTHENTICATED);
}

// Both kinds of watches, by a token.
struct Watches {
  Watches(Guarded& guarded, const std::string& bearer) {
    for (grpc::ClientContext* context : {&one_context, &all_context}) {
      context->AddMetadata("authorization", bearer);
      context->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    }
    v1::WatchLockRequest lock;
    lock.set_key("k");
    one = guarded.broker->locks().WatchLock(&one_context, lock);
    all = guarded.broker->locks().WatchLocks(&all_context, {});
    v1::WatchLockResponse first;
    v1::WatchLocksResponse listed;
    EXPECT_TRUE(one->Read(&first));
    EXPECT_TRUE(all->Read(&listed));
  }
  void ExpectEndOfProof(const std::string& why) {
    v1::WatchLockResponse more;
    v1::WatchLocksResponse listed;
    while (one->Read(&more)) {
    }
    while (all->Read(&listed)) {
    }
    for (const grpc::Status& status : {one->Finish(), all->Finish()}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_THAT(status.error_message(), HasSubstr(why));
    }
  }

  grpc::ClientContext one_context;
  grpc::ClientContext all_context;
  std::unique_ptr<grpc::ClientReader<v1::WatchLockResponse>> one;
  std::unique_ptr<grpc::ClientReader<v1::WatchLocksResponse>> all;
};

constexpr char kWatchRules[] = "rules:\n- {name: r, who: [authenticated], locks: ['*'], may: [watch, list]}\n";

TEST_F(Token, WatchesEndWithIt) {
  Guarded guarded(kWatchRules);
  guarded.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  Watches watches(guarded, Bearer(old_, "old", kNow + 1 - access::kJwtLeewayS));
  guarded.now_s = kNow + 1;
  watches.ExpectEndOfProof("what proved its identity has expired");
}

TEST_F(Token, WatchesEndWithItsKey) {
  Guarded guarded(kWatchRules);
  guarded.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  Watches watches(guarded, Bearer(old_, "old", kNow + 3600));
  guarded.authorizer.Replace(nullptr, nullptr, Keys(new_, new_));
  guarded.broker->server().Review();
  watches.ExpectEndOfProof("the key of its token counts no more");
}

// A session whose token ends, and goes on with another one.
TEST_F(Token, ASessionOutlivesIt) {
  Guarded guarded("rules:\n- {name: r, who: [authenticated], locks: ['*'], may: [acquire]}\n");
  guarded.authorizer.Replace(nullptr, nullptr, Keys(old_, new_));
  TestSession session(guarded.broker->locks(), Bearer(old_, "old", kNow + 10));
  session.Open().Acquire(2, "a").Send();
  const v1::SessionOpened opened = session.Next().opened();
  EXPECT_THAT(opened.features(), testing::Contains("authenticate"));
  EXPECT_EQ(opened.proof_valid_for().seconds(), 10 + access::kJwtLeewayS);
  EXPECT_GT(opened.max_unanswered(), 0);
  ASSERT_TRUE(session.Next().has_granted());

  guarded.now_s = kNow + 10 + access::kJwtLeewayS;
  const auto answer = [&](int64_t id) {
    session.Send();
    for (;;) {
      v1::SessionEvent event = session.Next();
      if (event.id() == id || event.event_case() == v1::SessionEvent::EVENT_NOT_SET) return event;
    }
  };
  session.Acquire(3, "b");
  EXPECT_EQ(answer(3).refused().reason(), v1::REFUSAL_REASON_UNAUTHENTICATED);
  const auto shows = [&](int64_t id, const std::string& bearer) {
    session.Add(static_cast<uint64_t>(id)).mutable_authenticate()->set_authorization(bearer);
  };
  shows(4, Bearer(new_, "new", kNow + 3600, "another"));
  EXPECT_EQ(answer(4).refused().reason(), v1::REFUSAL_REASON_PERMISSION_DENIED);
  shows(5, "Bearer x.y.z");
  const v1::Refusal wrong = answer(5).refused();
  EXPECT_EQ(wrong.reason(), v1::REFUSAL_REASON_UNAUTHENTICATED);
  EXPECT_THAT(wrong.message(), testing::Not(HasSubstr("x.y.z")));
  shows(6, std::string(9000, 'x'));
  EXPECT_EQ(answer(6).refused().reason(), v1::REFUSAL_REASON_INVALID_ARGUMENT);
  // In one message with what it is for.
  shows(7, Bearer(new_, "new", kNow + 3600));
  session.Acquire(8, "c");
  const v1::SessionEvent done = answer(7);
  EXPECT_EQ(done.authenticated().identity(), opened.identity());
  EXPECT_EQ(done.authenticated().valid_for().seconds(), 3600 - 10);
  EXPECT_TRUE(answer(8).has_granted());
  session.Release(9, 2);
  EXPECT_TRUE(answer(9).has_released()) << "what was held all along";
}

}  // namespace
}  // namespace distlock::rpc
