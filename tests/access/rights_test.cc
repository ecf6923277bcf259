// SPDX-License-Identifier: Apache-2.0
#include "access/rights.h"

#include <gmock/gmock.h>

#include <random>

#include "access/draw.h"
#include "access/oracle.h"
#include "access/policy_file.h"

namespace distlock::access {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<const Policy> PolicyOf(const std::string& rules) {
  auto policy = ParsePolicy("version: 1\ntrust_domains: [td]\nrules:\n" + rules, "p");
  EXPECT_TRUE(policy.ok()) << policy.status();
  return std::make_shared<const Policy>(policy.ok() ? *policy : Policy());
}

Caller Who(const std::vector<std::string>& principals) {
  std::vector<Principal> all;
  for (const std::string& one : principals) all.push_back(*ParsePrincipal(one));
  return CallerOf(all, "");
}

Rights Of(const std::string& rules, const std::vector<std::string>& principals) {
  return {PolicyOf(rules), Who(principals)};
}

TEST(Rights, EveryVerbIsAllowedDeniedOrNeither) {
  for (int number = 0; number < kVerbs; ++number) {
    const auto verb = static_cast<Verb>(number);
    const std::string name(NameOf(verb));
    const std::string field = IsLockVerb(verb) ? "may" : "broker";
    const std::string locks = IsLockVerb(verb) ? "locks: ['n:k'], " : "";
    const auto ask = [&](const Rights& rights) {
      return IsLockVerb(verb) ? rights.May(verb, "n", "k") : rights.MayAtBroker(verb);
    };
    const std::string allow = "- {name: yes, who: [anyone], " + locks + field + ": [" + name + "]}\n";
    const std::string deny = "- {name: no, who: [anyone], " + locks + "deny: [" + name + "]}\n";
    EXPECT_TRUE(ask(Of(allow, {})).allowed) << name;
    EXPECT_EQ(ask(Of(allow, {})).rule, "yes") << name;
    EXPECT_FALSE(ask(Of(deny, {})).allowed) << name;
    EXPECT_EQ(ask(Of(deny, {})).rule, "no") << name;
    for (const std::string& both : {allow + deny, deny + allow}) {
      const Rights rights = Of(both, {});
      EXPECT_FALSE(ask(rights).allowed) << name;
      EXPECT_EQ(ask(rights).rule, "no") << name;
    }
    // Another verb says nothing of this one.
    const std::string other = number == 0 ? "shared" : "exclusive";
    const Rights neither = Of("- {name: r, who: [anyone], locks: ['n:k'], may: [" + other + "]}\n", {});
    EXPECT_FALSE(ask(neither).allowed) << name;
    EXPECT_EQ(ask(neither).rule, "") << name;
    EXPECT_FALSE(ask(Rights()).allowed) << name;
  }
}

TEST(Rights, AcquireIsTheThreeVerbsThatTakeALock) {
  const Rights rights = Of("- {name: r, who: [anyone], locks: ['n:k'], may: [acquire]}\n", {});
  for (const Verb verb : {Verb::kExclusive, Verb::kShared, Verb::kPermit}) {
    EXPECT_TRUE(rights.May(verb, "n", "k").allowed);
  }
  EXPECT_FALSE(rights.May(Verb::kLook, "n", "k").allowed);
  EXPECT_FALSE(rights.May(Verb::kForceRelease, "n", "k").allowed);
  EXPECT_TRUE(rights.MayTake("n", "k").allowed);
  EXPECT_FALSE(rights.MayTake("n", "other").allowed);
}

TEST(Rights, ALeaseOfUnknownModeNeedsOneVerb) {
  const Rights rights =
      Of("- {name: r, who: [anyone], locks: ['n:k'], may: [permit]}\n"
         "- {name: no, who: [anyone], locks: ['n:*'], deny: [exclusive]}\n",
         {});
  EXPECT_TRUE(rights.MayTake("n", "k").allowed);
  EXPECT_EQ(rights.MayTake("n", "other").rule, "no");
}

TEST(Rights, PatternsEndWhereTheyEnd) {
  const Rights rights =
      Of("- {name: r, who: [anyone], locks: ['n:a/*', 'n:b', 'm:*', 'n:\\*x', 'q:*'], may: [look]}\n", {});
  const auto may = [&](const char* ns, const std::string& key) { return rights.May(Verb::kLook, ns, key).allowed; };
  EXPECT_TRUE(may("n", "a/"));
  EXPECT_TRUE(may("n", "a/b/c"));
  EXPECT_FALSE(may("n", "a"));
  EXPECT_FALSE(may("n", "ab"));
  EXPECT_TRUE(may("n", "b"));
  EXPECT_FALSE(may("n", "bb"));
  EXPECT_FALSE(may("n", ""));
  EXPECT_TRUE(may("m", ""));
  EXPECT_TRUE(may("m", std::string(512, 'x')));
  EXPECT_FALSE(may("mm", "x"));
  EXPECT_TRUE(may("n", "*x"));
  EXPECT_FALSE(may("n", "zx"));
  EXPECT_FALSE(may("p", "a/b"));
  EXPECT_TRUE(may("q", "z"));
}

TEST(Rights, KeysAreComparedAsTheirOwnBytes) {
  const Rights rights = Of("- {name: r, who: [anyone], locks: ['n:50%', 'n:\xc3\xa9*', 'n:\\{x'], may: [look]}\n", {});
  EXPECT_TRUE(rights.May(Verb::kLook, "n", "50%").allowed);
  EXPECT_TRUE(rights.May(Verb::kLook, "n", "\xc3\xa9t\xc3\xa9").allowed);
  EXPECT_TRUE(rights.May(Verb::kLook, "n", "{x").allowed);
  EXPECT_FALSE(rights.May(Verb::kLook, "n", "50%25").allowed);
  EXPECT_FALSE(rights.May(Verb::kLook, "n", "%7Bx").allowed);
}

TEST(Rights, DefaultIsTheNameOfTheEmptyNamespace) {
  const Rights named = Of("- {name: r, who: [anyone], locks: ['default:k'], may: [look]}\n", {});
  const Rights empty = Of("- {name: r, who: [anyone], locks: [':k'], may: [look]}\n", {});
  for (const Rights& rights : {named, empty}) {
    EXPECT_TRUE(rights.May(Verb::kLook, "", "k").allowed);
    EXPECT_TRUE(rights.May(Verb::kLook, "default", "k").allowed);
    EXPECT_TRUE(rights.MayAll(Verb::kLook, "", "k").rule.empty());
  }
}

TEST(Rights, PlaceholdersAreTheCallersOwnParts) {
  const std::string rules =
      "- {name: k, who: [anyone], locks: ['{k8s.ns}:{k8s.sa}/*'], may: [look]}\n"
      "- {name: s, who: [anyone], locks: ['s:{spiffe.1}/{spiffe.2}'], may: [look]}\n"
      "- {name: d, who: [anyone], locks: ['d:{dns}'], may: [look]}\n"
      "- {name: u, who: [anyone], locks: ['u:{uid}/*', 't:{token}'], may: [look]}\n";
  const auto may = [&](const std::vector<std::string>& who, const char* ns, const char* key) {
    return Of(rules, who).May(Verb::kLook, ns, key).allowed;
  };
  EXPECT_TRUE(may({"k8s:shop/worker"}, "shop", "worker/7"));
  EXPECT_FALSE(may({"k8s:shop/worker"}, "shop", "other/7"));
  EXPECT_FALSE(may({"k8s:shop/worker"}, "bill", "worker/7"));
  EXPECT_FALSE(may({"uid:5"}, "shop", "worker/7"));
  EXPECT_TRUE(may({"spiffe://td/ns/sa"}, "s", "ns/sa"));
  EXPECT_FALSE(may({"spiffe://td/ns"}, "s", "ns/"));
  EXPECT_FALSE(may({}, "s", "/"));
  EXPECT_TRUE(may({"dns:a.b", "dns:c.d"}, "d", "c.d"));
  EXPECT_TRUE(may({"dns:a.b", "dns:c.d"}, "d", "a.b"));
  EXPECT_TRUE(may({"uid:5", "token:ops"}, "u", "5/x"));
  EXPECT_TRUE(may({"uid:5", "token:ops"}, "t", "ops"));
  EXPECT_FALSE(may({"uid:5"}, "t", ""));
  EXPECT_FALSE(may({"uid:55"}, "u", "5/x"));
  // Other text than a SPIFFE id has no parts.
  const Rights of_nothing(PolicyOf(rules), CallerOf({{.kind = Kind::kSpiffe, .text = "spiffe://TD/ns/sa"}}, ""));
  EXPECT_FALSE(of_nothing.May(Verb::kLook, "s", "ns/sa").allowed);
}

TEST(Rights, ASubjectIsThatOfItsIssuer) {
  const std::string rules = "- {name: r, who: ['jwt:https://i|bob', 'jwt:https://j|*'], locks: ['*'], may: [look]}\n";
  const auto may = [&](const char* who) { return Of(rules, {who}).May(Verb::kLook, "n", "k").allowed; };
  EXPECT_TRUE(may("jwt:https://i|bob"));
  EXPECT_FALSE(may("jwt:https://i|eve"));
  EXPECT_TRUE(may("jwt:https://j|eve"));
  EXPECT_FALSE(may("jwt:https://k|bob"));
}

TEST(Rights, AListNeedsOnePatternAroundAllAndNoDenialInside) {
  const std::string rules =
      "- {name: r, who: [anyone], locks: ['n:order/*', 'n:cart'], may: [list]}\n"
      "- {name: no, who: ['uid:1'], locks: ['n:order/vault*', 'm:x'], deny: [list]}\n";
  const auto all = [&](const std::vector<std::string>& who, std::optional<std::string_view> ns, const char* prefix) {
    struct {
      bool allowed;
      std::string rule;  // a copy: the decision's ends with the rights
    } answer;
    const Rights of_caller = Of(rules, who);
    const Decision decision = of_caller.MayAll(Verb::kList, ns, prefix);
    answer.allowed = decision.allowed;
    answer.rule = decision.rule;
    return answer;
  };
  EXPECT_TRUE(all({}, "n", "order/").allowed);
  EXPECT_TRUE(all({}, "n", "order/7").allowed);
  EXPECT_FALSE(all({}, "n", "order").allowed);
  EXPECT_FALSE(all({}, "n", "cart").allowed);
  EXPECT_FALSE(all({}, "n", "").allowed);
  EXPECT_FALSE(all({}, std::nullopt, "").allowed);
  EXPECT_FALSE(all({"uid:1"}, "n", "order/").allowed);
  EXPECT_EQ(all({"uid:1"}, "n", "order/vault/7").rule, "no");
  EXPECT_EQ(all({"uid:1"}, std::nullopt, "").rule, "no");
  EXPECT_TRUE(all({"uid:1"}, "n", "order/8").allowed);
  EXPECT_FALSE(all({"uid:1"}, "m", "").allowed);
  const Rights everything = Of("- {name: all, who: [anyone], locks: ['*'], may: [list]}\n", {});
  EXPECT_TRUE(everything.MayAll(Verb::kList, std::nullopt, "").allowed);
  EXPECT_TRUE(everything.MayAll(Verb::kList, "n", "").allowed);
  const Rights nothing =
      Of("- {name: all, who: [anyone], locks: ['*'], may: [list]}\n- {name: no, who: [anyone], locks: ['*'], deny: "
         "[list]}\n",
         {});
  EXPECT_EQ(nothing.MayAll(Verb::kList, "n", "").rule, "no");
  EXPECT_FALSE(nothing.MayAnywhere(Verb::kList));
}

TEST(Rights, SayWhatIsLeftAnywhere) {
  const std::string allow = "- {name: r, who: [anyone], locks: ['n:k', 'n:a*', 'n:ab'], may: [shared]}\n";
  EXPECT_TRUE(Of(allow, {}).MayTakeAny());
  EXPECT_FALSE(Of(allow, {}).MayAnywhere(Verb::kExclusive));
  EXPECT_FALSE(Of(allow + "- {name: no, who: [anyone], locks: ['*'], deny: [acquire]}\n", {}).MayTakeAny());
  EXPECT_TRUE(Of(allow + "- {name: no, who: [anyone], locks: ['n:*'], deny: [exclusive]}\n", {}).MayTakeAny());
  EXPECT_FALSE(Rights().MayTakeAny());
  const Rights rights = Of(allow + "- {name: no, who: [anyone], locks: ['n:\\*\\:\\{'], deny: [shared]}\n", {});
  EXPECT_THAT(rights.Allowed(Verb::kShared, 9), ElementsAre("n:a*", "n:k"));
  EXPECT_THAT(rights.Allowed(Verb::kShared, 1), ElementsAre("n:a*"));
  EXPECT_THAT(rights.Denied(Verb::kShared, 9), ElementsAre("n:\\*:\\{"));
  EXPECT_THAT(rights.Allowed(Verb::kLook, 9), IsEmpty());
  const Rights all = Of("- {name: r, who: [anyone], locks: ['*', '*'], may: [look]}\n", {});
  EXPECT_THAT(all.Allowed(Verb::kLook, 9), ElementsAre("*"));
}

TEST(Rights, NarrowPatternsInsideWideOnesChangeNothing) {
  const Rights rights =
      Of("- {name: exact, who: [anyone], locks: ['n:ab', 'n:ab*', 'n:abc', 'n:a'], may: [look]}\n"
         "- {name: again, who: [anyone], locks: ['n:ab', 'n:abd*'], may: [look]}\n",
         {});
  for (const char* key : {"a", "ab", "abc", "abcd", "abd", "abdx"})
    EXPECT_TRUE(rights.May(Verb::kLook, "n", key).allowed);
  EXPECT_FALSE(rights.May(Verb::kLook, "n", "ac").allowed);
  EXPECT_THAT(rights.Allowed(Verb::kLook, 9), ElementsAre("n:a", "n:ab*"));
}

TEST(Rights, AgreeWithThePlainDecisionOnRandomPolicies) {
  std::mt19937 random(7);
  Draw draw{[&random](size_t below) { return random() % below; }};
  int allowed = 0;
  int denied = 0;
  for (int world = 0; world < 4000; ++world) {
    const auto policy = std::make_shared<const Policy>(draw.AnyPolicy());
    const Caller caller = draw.AnyCaller();
    const Rights rights(policy, caller);
    const Oracle oracle(*policy, caller);
    for (int question = 0; question < 12; ++question) {
      const auto verb = static_cast<Verb>(draw.below(kVerbs));
      const std::string ns = draw.Namespace();
      const std::string key = draw.Key();
      const Decision decision = IsLockVerb(verb) ? rights.May(verb, ns, key) : rights.MayAtBroker(verb);
      ASSERT_EQ(decision.allowed, oracle.May(verb, ns, key))
          << world << ": " << NameOf(verb) << " " << ns << ":" << key;
      (decision.allowed ? allowed : denied) += 1;
      // A caller that may list a prefix may list each lock in it.
      if (IsLockVerb(verb) && rights.MayAll(verb, ns, key).allowed) {
        ASSERT_TRUE(oracle.May(verb, ns, key + draw.Word()));
      }
    }
  }
  EXPECT_GT(allowed, 1000);
  EXPECT_GT(denied, 1000);
}

}  // namespace
}  // namespace distlock::access
