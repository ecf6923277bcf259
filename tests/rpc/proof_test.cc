// SPDX-License-Identifier: Apache-2.0
//
// What a caller may do on a stream when what proved its identity has ended.
#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "access/jwt_sign.h"
#include "rpc/guarded.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

constexpr char kRules[] = "rules:\n- {name: r, who: [authenticated], locks: ['*'], may: [acquire, look]}\n";

struct Clocked {
  Clocked()
      : gate({.asks = true,
              .allow_all = false,
              .on_access = {},
              .unix_seconds = [this] { return now_s; },
              .boot_ns = [] { return int64_t{0}; }}) {
    gate.Replace(PolicyOf(kRules), nullptr, nullptr);
  }
  Visitor Arrive(const access::PeerFacts& facts) {
    auto arrived = gate.Arrive(facts);
    EXPECT_TRUE(std::holds_alternative<Visitor>(arrived));
    return std::get<Visitor>(std::move(arrived));
  }
  // Why it may take nothing new; "": it may.
  std::string Refused(Visitor& visitor) {
    const auto refusal = gate.CheckAcquire(visitor, Spec("k"));
    if (!refusal) return "";
    EXPECT_EQ(refusal->reason(), v1::REFUSAL_REASON_UNAUTHENTICATED) << refusal->message();
    return refusal->message();
  }
  void ExpectKeepsWhatItHas(Visitor& visitor) {
    EXPECT_FALSE(gate.CheckLease(visitor, core::LockName::Encode("default", "k")));
    EXPECT_FALSE(gate.CheckTakesAny(visitor));
  }

  int64_t now_s = kNow;
  Gate gate;
};

TEST(Proof, ACertificateThatHasExpiredTakesNothingNew) {
  Clocked t;
  Visitor visitor = t.Arrive({.peer = "p", .tls = access::TlsPeer{.dns = {"a.example"}, .not_after_s = kNow + 10}});
  EXPECT_EQ(t.Refused(visitor), "");
  t.now_s = kNow + 10;
  EXPECT_THAT(t.Refused(visitor), HasSubstr("has expired; open another one with a new proof"));
  t.ExpectKeepsWhatItHas(visitor);
}

class Token : public testing::Test {
 protected:
  static std::shared_ptr<const access::JwtKeys> Keys(const access::SigningKey& one, const access::SigningKey& other) {
    return *access::JwtKeys::Parse("{\"keys\":[" + one.Json() + "," + other.Json() + "]}", "jwks", "https://issuer",
                                   "distlock");
  }
  Visitor Shows(const access::SigningKey& key, const std::string& id) {
    return t_.Arrive(
        {.peer = "p",
         .keeps_secrets = true,
         .authorization = {"Bearer " + key.Sign(R"({"iss":"https://issuer","aud":"distlock","sub":"me","exp":)" +
                                                    std::to_string(kNow + 10) + "}",
                                                "ES256", id)}});
  }

  Clocked t_;
  const access::SigningKey old_{access::SigningKey::Type::kEc, "old"};
  const access::SigningKey new_{access::SigningKey::Type::kEc, "new"};
};

TEST_F(Token, ThatHasExpiredTakesNothingNew) {
  t_.gate.Replace(nullptr, nullptr, Keys(old_, new_));
  Visitor visitor = Shows(old_, "old");
  t_.now_s = kNow + 10 + access::kJwtLeewayS - 1;
  EXPECT_EQ(t_.Refused(visitor), "");
  ++t_.now_s;
  EXPECT_THAT(t_.Refused(visitor), HasSubstr("has expired"));
  t_.ExpectKeepsWhatItHas(visitor);
}

TEST_F(Token, WhoseKeyIsGoneTakesNothingNew) {
  t_.gate.Replace(nullptr, nullptr, Keys(old_, new_));
  Visitor visitor = Shows(old_, "old");
  t_.gate.Replace(nullptr, nullptr, Keys(new_, old_));
  EXPECT_EQ(t_.Refused(visitor), "") << "it is still among them";
  t_.gate.Replace(nullptr, nullptr, Keys(new_, new_));
  EXPECT_THAT(t_.Refused(visitor), HasSubstr("the key of its token counts no more"));
  t_.ExpectKeepsWhatItHas(visitor);
  // The same name for another key.
  const access::SigningKey stranger(access::SigningKey::Type::kEc, "old");
  t_.gate.Replace(nullptr, nullptr, Keys(new_, stranger));
  EXPECT_THAT(t_.Refused(visitor), HasSubstr("counts no more"));
}

}  // namespace
}  // namespace distlock::rpc
