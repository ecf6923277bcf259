// SPDX-License-Identifier: Apache-2.0
#include "access/policy_file.h"

#include <gmock/gmock.h>

#include "access/pattern_text.h"
#include "access/policy_cases.h"
#include "access/tokens.h"

namespace distlock::access {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  const auto policy = ParsePolicy(text, "p.yaml");
  return policy.ok() ? "" : std::string(policy.status().message().data(), policy.status().message().size());
}

std::string Rule(const std::string& fields) { return "version: 1\nrules:\n- {" + fields + "}\n"; }

TEST(PolicyFile, ReadsThePageOfTheReadme) {
  const auto policy = ParsePolicy(R"(
version: 1
trust_domains: [example.org]
groups:
  shop: ["spiffe://example.org/ns/shop/sa/*", "k8s:shop/*"]
rules:
  - name: shop-works
    who: [shop]
    locks: ["shop:order/*", {namespace: "a:b", key: "x*"}]
    may: [exclusive, shared, permit, look, watch, list]
  - name: operators
    who: ["token:ops", "uid:0", anyone]
    locks: ["*"]
    may: [look]
    broker: [status, sessions, drain, reload, access]
    deny: [acquire, drain]
limits:
  - who: ["k8s:shop/*"]
    sessions: 50
    requests_per_second: 500
)",
                                  "p.yaml");
  ASSERT_TRUE(policy.ok()) << policy.status();
  ASSERT_EQ(policy->rules.size(), 2u);
  EXPECT_EQ(policy->rules[0].who.size(), 2u);
  EXPECT_EQ(policy->rules[0].locks[1].ns[0].literal, "a:b");
  EXPECT_TRUE(policy->rules[0].locks[1].prefix);
  EXPECT_EQ(policy->rules[1].deny, kAllAcquire | Bit(Verb::kDrain));
  EXPECT_EQ(policy->limits[0].sessions, 50u);
  EXPECT_EQ(policy->limits[0].leases, std::nullopt);
  EXPECT_EQ(policy->limits[0].requests_per_second, 500u);
}

TEST(PolicyFile, AnErrorNamesItsPlaceAndWhatIsAllowed) {
  EXPECT_EQ(ErrorOf("version: 1\nrules:\n- name: a\n  who: [anyone]\n  locks: ['*']\n  may: [look, lock]\n"),
            "p.yaml:6:15: this text is no verb; there are acquire, exclusive, shared, permit, look, watch, list, "
            "force-release, min-hold");
  EXPECT_THAT(ErrorOf("version: 1\nrule: []\n"),
              StartsWith("p.yaml:2:1: this text is no field here; there are version"));
}

TEST(PolicyFile, RefusesWhatIsWrong) {
  const std::string ok = "name: a, who: [anyone], locks: ['*'], may: [look]";
  ASSERT_EQ(ErrorOf(Rule(ok)), "");
  const std::pair<std::string, const char*> wrong[] = {
      {"", "is empty"},
      {"- a", "is no map"},
      {"rules: []", "has no version"},
      {"version: 2", "is not a version"},
      {"version: [1]", "is not a version"},
      {"version: 1\n---\nversion: 1\n", "more than one YAML document"},
      {"version: 1\nrules: {", "is not YAML"},
      {"version: 1\nversion: 1\n", "is given twice"},
      {"version: 1\nrules: 5", "is no list"},
      {"version: 1\ntrust_domains: ['A']", "is no trust domain"},
      {"version: 1\ntrust_domains: [[a]]", "this list is no text"},
      {"version: 1\ntrust_domains: [~]", "this value is no text"},
      {"version: 1\ntrust_domains: [" + std::string(100, 'A') + "]", "this text is no trust domain"},
      {"version: 1\ngroups: [a]", "is no map"},
      {"version: 1\ngroups: {'a b': []}", "is no name for a group"},
      {"version: 1\ngroups: {anyone: []}", "is a word of its own"},
      {"version: 1\ngroups: {a: ['uid:1'], a: ['uid:2']}", "is the name of two groups"},
      {"version: 1\ngroups: {a: ['uid:x']}", "is not of the form uid:"},
      {Rule("who: [anyone], locks: ['*'], may: [look]"), "has no name"},
      {Rule("name: 'a b', who: [anyone], locks: ['*'], may: [look]"), "is no name for a rule"},
      {Rule(ok) + "- {" + ok + "}\n", "is the name of two rules"},
      {Rule("name: a, locks: ['*'], may: [look]"), "has no who"},
      {Rule("name: a, who: [], locks: ['*'], may: [look]"), "names nobody"},
      {Rule("name: a, who: anyone, locks: ['*'], may: [look]"), "is no list"},
      {Rule("name: a, who: [nobody], locks: ['*'], may: [look]"), "is neither a group of this file nor a principal"},
      {Rule("name: a, who: ['spiffe://td/x'], locks: ['*'], may: [look]"), "is not in trust_domains"},
      {Rule("name: a, who: [anyone], locks: ['*'], may: [drain]"), "is no verb for may"},
      {Rule("name: a, who: [anyone], broker: [look]"), "is no verb for broker"},
      {Rule("name: a, who: [anyone], locks: ['*']"), "says nothing"},
      {Rule("name: a, who: [anyone], may: [look]"), "names no locks"},
      {Rule("name: a, who: [anyone], locks: ['*'], broker: [drain]"), "names locks, but no verb of locks"},
      {Rule("name: a, who: [anyone], locks: [shop], may: [look]"), "has no namespace"},
      {Rule("name: a, who: [anyone], locks: [{namespace: a}], may: [look]"), "has no key"},
      {Rule("name: a, who: [anyone], locks: [{key: a, what: b}], may: [look]"), "is no field here"},
      {"version: 1\nlimits:\n- {who: [anyone], sessions: 0}\n", "is no limit"},
      {"version: 1\nlimits:\n- {who: [anyone], leases: 99999999}\n", "is no limit"},
      {"version: 1\nlimits:\n- {who: [anyone], leases: 5x}\n", "is no limit"},
      {"version: 1\nlimits:\n- {who: [anyone], leases: x}\n", "is no limit"},
      {"version: 1\nlimits:\n- {who: [anyone], rate: 5}\n", "is no field here"},
      {"version: 1\nlimits:\n- {sessions: 5}\n", "has no who"},
      {std::string(kMostPolicyBytes + 1, ' '), "at most 1048576"},
  };
  for (const auto& [text, why] : wrong) {
    EXPECT_THAT(ErrorOf(text), AllOf(StartsWith("p.yaml:"), HasSubstr(why))) << text.substr(0, 100);
  }
}

TEST(PolicyFile, AFileOfSecretsGivenByMistakeIsNotShown) {
  const auto policy = std::make_shared<const Policy>();
  for (const std::string text :
       {"s3cret", "s3cret: x", "s3cret: s3cret", "- s3cret", "s3cret: [", "'s3cret", "\"\\s3cret\"", "x: *s3cret",
        "!s3cret!x y", "%s3cret\n", "version: s3cret", "version: 1\nrules: s3cret", "version: 1\ngroups: {s3cret!: 1}",
        "- {who: s3cret, verb: drain, expect: deny}", "- {who: anonymous, verb: s3cret, expect: deny}", "- {s3cret: 1}",
        "version: 1\nrules:\n- {name: a, who: [anyone], locks: ['{s3cret}:x'], may: [look]}\n",
        "version: 1\nrules:\n- {name: a, who: [s3cret], locks: ['*'], may: [look]}\n"}) {
    EXPECT_THAT(ErrorOf(text), AllOf(StartsWith("p.yaml:"), Not(HasSubstr("s3cret")))) << text;
    const auto cases = RunCases(policy, text, "c.yaml");
    const std::string message(cases.status().message().data(), cases.status().message().size());
    EXPECT_THAT(message, AllOf(StartsWith("c.yaml:"), Not(HasSubstr("s3cret")))) << text;
  }
}

TEST(Tokens, AFileOfSecretsGivenByMistakeIsNotShown) {
  for (const char* text : {"s3cret", "s3cret:s3cret", "a:s3cret", "s3cret s3cret:x", "a:b:s3cret"}) {
    const auto tokens = Tokens::Parse(text, "t");
    const std::string message(tokens.status().message().data(), tokens.status().message().size());
    EXPECT_THAT(message, AllOf(StartsWith("t:1: "), Not(HasSubstr("s3cret")))) << text;
  }
}

TEST(PolicyFile, BoundsWhatAliasesMultiply) {
  std::string names;
  for (int i = 0; i < 2000; ++i) names += "'uid:" + std::to_string(i) + "', ";
  std::string text = "version: 1\ngroups: {g: [" + names + "]}\nrules:\n";
  for (int i = 0; i < 60; ++i) {
    text += "- {name: r" + std::to_string(i) + ", who: [g], locks: ['*'], may: [look]}\n";
  }
  EXPECT_THAT(ErrorOf(text), HasSubstr("is one entry too many"));
  std::string many = "version: 1\nrules:\n- &r {name: a, who: [anyone], locks: ['*'], may: [look]}\n";
  for (size_t i = 0; i < kMostRules; ++i) many += "- *r\n";
  EXPECT_THAT(ErrorOf(many), HasSubstr("more than 10000 rules"));
  EXPECT_THAT(ErrorOf("version: 1\nrules: " + std::string(40, '[')), HasSubstr("too deeply"));
}

TEST(PatternText, ReadsLocks) {
  const std::pair<const char*, const char*> good[] = {{"n:k", "n:k"},
                                                      {"n:k*", "n:k*"},
                                                      {"*", "*"},
                                                      {"n:*", "n:*"},
                                                      {":k", "default:k"},
                                                      {"n:a:b", "n:a:b"},
                                                      {"a\\:b:k", "a\\:b:k"},
                                                      {"n:\\*", "n:\\*"},
                                                      {"n:\\{a}", "n:\\{a}"},
                                                      {"n:\\\\", "n:\\\\"},
                                                      {"{k8s.ns}:{k8s.sa}/*", "{k8s.ns}:{k8s.sa}/*"},
                                                      {"n:{spiffe.9}", "n:{spiffe.9}"},
                                                      {"n:{dns}{uid}{token}", "n:{dns}{uid}{token}"}};
  for (const auto& [text, shown] : good) {
    const auto lock = ParseLock(text);
    ASSERT_TRUE(lock.ok()) << text << lock.status();
    EXPECT_EQ(Show(*lock), shown);
  }
  for (const char* text : {"", "k", "n:", "*:k", "n*:k", "n:a*b", "n:\\", "n:{", "n:{x}", "n:{spiffe.0}",
                           "n:{spiffe.10}", "n:{spiffe.x}", "n:{}", "{:k", "n:**"}) {
    EXPECT_FALSE(ParseLock(text).ok()) << text;
  }
  EXPECT_EQ(Show(*ParseLock("a:b", "x:*")), "a\\:b:x:*");
  EXPECT_FALSE(ParseLock("a*", "x").ok());
  EXPECT_FALSE(ParseLock("{", "x").ok());
}

TEST(PatternText, ReadsPrincipalPatterns) {
  for (const char* text : {"uid:0", "uid:*", "gid:4294967295", "token:a.b-C_9", "dns:a.example", "dns:*", "k8s:a/b",
                           "k8s:*/*", "k8s:a/**", "spiffe://td", "spiffe://td/a/*/b", "spiffe://td/**",
                           "jwt:https://i/|s", "jwt:i|*", "authenticated", "anyone"}) {
    EXPECT_TRUE(ParseWho(text).ok()) << text;
  }
  for (const char* text : {"",
                           "uid:",
                           "uid:-1",
                           "uid:01",
                           "uid:4294967296",
                           "uid:1/2",
                           "uid:1x",
                           "gid:x",
                           "token:",
                           "token:a b",
                           "token:a~",
                           "token:a/b",
                           "dns:",
                           "dns:A",
                           "dns:*.a",
                           "dns:a/b",
                           "k8s:a",
                           "k8s:a/b/c",
                           "k8s:a/",
                           "k8s:A/b",
                           "spiffe://",
                           "spiffe://*/a",
                           "spiffe://TD/a",
                           "spiffe://td/",
                           "spiffe://td/.",
                           "spiffe://td/..",
                           "spiffe://td/a%20",
                           "jwt:i",
                           "jwt:|s",
                           "jwt:i|",
                           "any",
                           "user:1"}) {
    EXPECT_FALSE(ParseWho(text).ok()) << text;
  }
  EXPECT_TRUE(ParseWho("token:" + std::string(64, 'a')).ok());
  EXPECT_FALSE(ParseWho("token:" + std::string(65, 'a')).ok());
  EXPECT_TRUE(ParseWho("k8s:" + std::string(253, 'a') + "/b").ok());
  EXPECT_FALSE(ParseWho("k8s:" + std::string(254, 'a') + "/b").ok());
}

TEST(PatternText, APrincipalHasNoWildcards) {
  for (const char* text : {"uid:0", "gid:1", "token:a", "dns:a", "k8s:a/b", "spiffe://td/a", "jwt:i|s"}) {
    const auto principal = ParsePrincipal(text);
    ASSERT_TRUE(principal) << text;
    EXPECT_EQ(principal->text, text);
  }
  for (const char* text : {"", "uid:*", "k8s:*/b", "k8s:a", "spiffe://td/*", "spiffe://td/", "jwt:i", "jwt:", "token:",
                           "anyone", "dns:*", "jwt:i|system:serviceaccount:a:b", "jwt:i|spiffe://td/a"}) {
    EXPECT_FALSE(ParsePrincipal(text)) << text;
  }
}

}  // namespace
}  // namespace distlock::access
