// SPDX-License-Identifier: Apache-2.0
#include "access/identify.h"

#include <gmock/gmock.h>

#include <utility>

#include "access/jwt_sign.h"
#include "access/pattern_text.h"
#include "access/spiffe.h"

namespace distlock::access {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kNow = 1'700'000'000;
const std::string kToken = TokenOf(Sha256("random"));
const std::vector<std::string> kDomains = {"example.org"};

const Tokens& TheTokens() {
  static const Tokens tokens = *Tokens::Parse(TokenLine("ops", kToken) + "\n", "t");
  return tokens;
}

std::vector<std::string> Names(const absl::StatusOr<Caller>& caller) {
  if (!caller.ok())
    return {"error: " + std::string(caller.status().message().data(), caller.status().message().size())};
  std::vector<std::string> names;
  for (const Principal& principal : caller->principals) names.push_back(principal.text);
  return names;
}

absl::StatusOr<Caller> Who(const PeerFacts& facts) {
  return Identify(facts, {.tokens = &TheTokens(), .trust_domains = &kDomains}, kNow);
}

PeerFacts Cert(std::vector<std::string> uris, std::vector<std::string> dns = {}) {
  return {.peer = "p", .tls = TlsPeer{std::move(uris), std::move(dns), kNow + 1}, .keeps_secrets = true};
}

PeerFacts Bearer(const std::string& header) { return {.peer = "p", .keeps_secrets = true, .authorization = {header}}; }

TEST(Identify, WhoProvesNothingIsAnonymous) {
  const auto caller = Who({.peer = "ipv4:1.2.3.4:5"});
  ASSERT_TRUE(caller.ok());
  EXPECT_TRUE(caller->anonymous());
  EXPECT_EQ(caller->name, "anonymous");
  EXPECT_EQ(caller->peer, "ipv4:1.2.3.4:5");
}

TEST(Identify, APeerThatIsGoneIsNobody) { EXPECT_FALSE(Who({.peer = "unknown", .known = false}).ok()); }

TEST(Identify, AUnixPeerHasItsUidAndGroups) {
  EXPECT_THAT(Names(Who({.unix_peer = UnixPeer{1000, 100, {4, 100, 27}}})),
              ElementsAre("uid:1000", "gid:100", "gid:4", "gid:27"));
  EXPECT_THAT(Names(Who({.unix_peer = UnixPeer{0, 0, {}}})), ElementsAre("uid:0", "gid:0"));
}

TEST(Identify, AnUnmappedUserHasNoUid) {
  EXPECT_THAT(Names(Who({.unix_peer = UnixPeer{65534, 65534, {65534, 5}}})), ElementsAre("gid:5"));
}

TEST(Identify, ACertificateProvesOneSpiffeIdOfATrustedDomain) {
  const auto caller = Who(Cert({"spiffe://example.org/ns/shop/sa/worker"}));
  EXPECT_THAT(Names(caller), ElementsAre("spiffe://example.org/ns/shop/sa/worker"));
  EXPECT_EQ(caller->proof_until_s, kNow + 1);
  EXPECT_THAT(Names(Who(Cert({"spiffe://example.org/a", "spiffe://example.org/b"}, {"d"}))), IsEmpty());
  EXPECT_THAT(Names(Who(Cert({"spiffe://example.org/a", "https://x"}, {"d"}))), IsEmpty());
  EXPECT_THAT(Names(Who(Cert({"spiffe://example.com/a"}, {"d"}))), IsEmpty());
  EXPECT_THAT(Names(Who(Cert({"spiffe://example.org/a/../b"}, {"d"}))), IsEmpty());
  EXPECT_THAT(Names(Identify(Cert({"spiffe://any.where/a"}), {}, kNow)), ElementsAre("spiffe://any.where/a"));
}

TEST(Identify, WithoutUriItsDnsNamesCount) {
  EXPECT_THAT(Names(Who(Cert({}, {"Web.Example", "*.example", "b"}))), ElementsAre("dns:web.example", "dns:b"));
  EXPECT_THAT(Names(Who(Cert({}, {}))), IsEmpty());
}

TEST(Identify, AnExpiredCertificateIsNoProof) {
  PeerFacts facts = Cert({"spiffe://example.org/a"});
  facts.tls->not_after_s = kNow;
  EXPECT_THAT(Names(Who(facts))[0], HasSubstr("certificate has expired"));
}

TEST(Identify, AStaticTokenIsItsName) {
  for (const char* scheme : {"Bearer ", "bearer "}) {
    const auto caller = Who(Bearer(scheme + kToken));
    EXPECT_THAT(Names(caller), ElementsAre("token:ops"));
    EXPECT_EQ(caller->token, Sha256(kToken));
  }
}

TEST(Identify, AWrongProofIsAnErrorAlsoBesideAGoodOne) {
  EXPECT_THAT(Names(Who(Bearer("Bearer " + kToken + "x")))[0], HasSubstr("not known here"));
  EXPECT_THAT(Names(Who(Bearer("Bearer " + kToken.substr(0, kToken.size() - 1))))[0], HasSubstr("not known here"));
  EXPECT_THAT(Names(Who(Bearer("Bearer dlt_")))[0], Not(HasSubstr("dlt_")));
  EXPECT_THAT(Names(Who(Bearer("Basic eDp5")))[0], HasSubstr("no bearer token"));
  EXPECT_THAT(Names(Who(Bearer("Bearer a.b.c")))[0], HasSubstr("takes no JSON web tokens"));
  EXPECT_THAT(Names(Who(Bearer("Bearer s3cret")))[0], HasSubstr("begin with dlt_"));
  EXPECT_THAT(Names(Identify(Bearer("Bearer " + kToken), {}, kNow))[0], HasSubstr("takes no static tokens"));
  PeerFacts twice = Bearer("Bearer " + kToken);
  twice.authorization.push_back("Bearer " + kToken);
  EXPECT_THAT(Names(Who(twice))[0], HasSubstr("more than once"));
  PeerFacts both = Cert({"spiffe://example.org/a"});
  both.authorization = {"Bearer dlt_wrong"};
  EXPECT_THAT(Names(Who(both))[0], HasSubstr("not known here"));
}

TEST(Identify, ATokenInPlainTextFromElsewhereCountsForNothing) {
  PeerFacts facts = Bearer("Bearer " + kToken);
  facts.keeps_secrets = false;
  EXPECT_THAT(Names(Who(facts))[0], HasSubstr("plain text"));
}

TEST(Identify, TheStrongestProofNamesTheCaller) {
  PeerFacts facts = Cert({"spiffe://example.org/a"});
  facts.unix_peer = UnixPeer{5, 6, {}};
  facts.authorization = {"Bearer " + kToken};
  const auto caller = Who(facts);
  EXPECT_THAT(Names(caller), ElementsAre("token:ops", "spiffe://example.org/a", "uid:5", "gid:6"));
  EXPECT_EQ(caller->name, "token:ops");
}

TEST(Identify, AJsonWebTokenNamesItsSubject) {
  static const SigningKey key(SigningKey::Type::kEc, "k");
  const auto keys = *JwtKeys::Parse(key.Set(), "jwks", "https://i", "distlock");
  const auto who = [&](const std::string& subject, int64_t now_s = kNow) {
    const std::string claims = R"({"iss":"https://i","aud":"distlock","exp":1700000600,"sub":")" + subject + "\"}";
    return Identify(Bearer("Bearer " + key.Sign(claims, "ES256", "k")), {.jwt = keys.get(), .trust_domains = &kDomains},
                    now_s);
  };
  const auto worker = who("system:serviceaccount:shop:worker");
  EXPECT_THAT(Names(worker), ElementsAre("k8s:shop/worker"));
  EXPECT_EQ(NameInPlaceOfJwt("system:serviceaccount:shop:worker"), worker->name);
  EXPECT_EQ(worker->proof_until_s, 1700000600);
  EXPECT_THAT(Names(who("spiffe://example.org/a")), ElementsAre("spiffe://example.org/a"));
  EXPECT_THAT(Names(who("ann|7")), ElementsAre("jwt:https://i|ann|7"));
  EXPECT_THAT(Names(who("spiffe://example.com/a"))[0], HasSubstr("trusted domain"));
  for (const char* bad : {"system:serviceaccount:shop", "system:serviceaccount:a:b:c", "system:serviceaccount:a/b:c",
                          "system:serviceaccount::c", "system:serviceaccount:A:c"}) {
    EXPECT_THAT(Names(who(bad))[0], HasSubstr("service account that cannot be")) << bad;
  }
  EXPECT_THAT(Names(who("ann", 1700000700))[0], HasSubstr("expired"));
}

TEST(Identify, AJsonWebTokenIsVerifiedOnce) {
  const SigningKey key(SigningKey::Type::kEc, "k");
  const auto keys = *JwtKeys::Parse(key.Set(), "jwks", "https://i", "distlock");
  const PeerFacts facts = Bearer(
      "Bearer " + key.Sign(R"({"iss":"https://i","aud":"distlock","exp":1700000600,"sub":"bob"})", "ES256", "k"));
  std::optional<JwtClaims> verified;
  EXPECT_THAT(Names(Identify(facts, {.jwt = keys.get()}, kNow, &verified)), ElementsAre("jwt:https://i|bob"));
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->expires_s, 1700000600);
  const std::optional<JwtClaims> known = std::exchange(verified, std::nullopt);
  const auto again = Identify(facts, {.jwt = keys.get(), .known = known}, kNow, &verified);
  EXPECT_THAT(Names(again), ElementsAre("jwt:https://i|bob"));
  EXPECT_EQ(again->jwt_key, known->key);
  EXPECT_FALSE(verified);
  PeerFacts plain = facts;
  plain.keeps_secrets = false;
  EXPECT_THAT(Names(Identify(plain, {.jwt = keys.get(), .known = known}, kNow))[0], HasSubstr("plain text"));
}

TEST(Spiffe, TakesWhatTheSpecificationTakes) {
  for (const char* good :
       {"spiffe://td", "spiffe://example.org/a", "spiffe://a_b-c.9/Payments/mysql-x_Y.z", "spiffe://1.2.3.4/a"}) {
    EXPECT_TRUE(ParseSpiffeId(good)) << good;
  }
  const auto id = ParseSpiffeId("spiffe://td/a/b");
  EXPECT_EQ(id->trust_domain, "td");
  EXPECT_THAT(id->segments, ElementsAre("a", "b"));
  for (const std::string& bad : {std::string(""),
                                 std::string("spiffe://"),
                                 std::string("spiffe:///a"),
                                 std::string("SPIFFE://td/a"),
                                 std::string("http://td/a"),
                                 std::string("spiffe://TD/a"),
                                 std::string("spiffe://td/"),
                                 std::string("spiffe://td//a"),
                                 std::string("spiffe://td/a/"),
                                 std::string("spiffe://td/."),
                                 std::string("spiffe://td/../a"),
                                 std::string("spiffe://td:80/a"),
                                 std::string("spiffe://u@td/a"),
                                 std::string("spiffe://td/a?b"),
                                 std::string("spiffe://td/a#b"),
                                 std::string("spiffe://td/a%41"),
                                 std::string("spiffe://td/a~"),
                                 std::string("spiffe://t~d/a"),
                                 std::string("spiffe://td/\xc3\xa9"),
                                 std::string("spiffe://td/a\0b", 15),
                                 "spiffe://td/" + std::string(2048, 'a'),
                                 "spiffe://" + std::string(256, 'a')}) {
    EXPECT_FALSE(ParseSpiffeId(bad)) << bad;
  }
}

TEST(Tokens, ReadsTheirFile) {
  const std::string hex(64, 'a');
  const auto error = [](const std::string& text) {
    const auto tokens = Tokens::Parse(text, "t");
    return tokens.ok() ? "" : std::string(tokens.status().message().data(), tokens.status().message().size());
  };
  const auto tokens = Tokens::Parse(
      "# comment\n\n" + TokenLine("a", "one") + "\r\n" + TokenLine("a", "two") + "\n" + TokenLine("a", "two"), "t");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->size(), 2u);
  EXPECT_EQ(tokens->NameOf(Sha256("two")), "a");
  EXPECT_EQ(tokens->NameOf(Sha256("three")), std::nullopt);
  EXPECT_THAT(error("\nx"), HasSubstr("t:2: is not of the form name:sha256"));
  EXPECT_THAT(error("a b:" + hex), HasSubstr("t:1: has no valid name"));
  EXPECT_THAT(error("a:" + hex.substr(1)), HasSubstr("64 lower-case hex digits"));
  for (const char other : {'A', 'g', '-', ':'}) {
    EXPECT_THAT(error("a:" + std::string(64, other)), HasSubstr("64 lower-case hex digits")) << other;
  }
  EXPECT_THAT(error("a:" + hex + "\nb:" + hex), HasSubstr("t:2: repeats the token of another name"));
  EXPECT_THAT(error("a:dlt_secret"), Not(HasSubstr("secret")));
  EXPECT_THAT(error(std::string(kMostTokenFileBytes + 1, '\n')), HasSubstr("more than"));
  EXPECT_EQ(TokenOf(Digest{}).substr(0, 4), "dlt_");
  EXPECT_GE(TokenOf(Digest{}).size(), 47u);
}

}  // namespace
}  // namespace distlock::access
