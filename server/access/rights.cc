// SPDX-License-Identifier: Apache-2.0
#include "access/rights.h"

#include <algorithm>
#include <utility>

#include "access/pattern_text.h"
#include "access/spiffe.h"
#include "text/text.h"

namespace distlock::access {
namespace {

// One choice of principals to fill placeholders from. A caller may have several DNS names and SPIFFE ids; of the others
// it has one at most.
struct Fill {
  const Caller& caller;
  const Principal* spiffe = nullptr;
  const Principal* dns = nullptr;
};

const Principal* FirstOf(const Caller& caller, Kind kind) {
  for (const Principal& principal : caller.principals) {
    if (principal.kind == kind) return &principal;
  }
  return nullptr;
}

std::vector<const Principal*> AllOf(const Caller& caller, Kind kind) {
  std::vector<const Principal*> all;
  for (const Principal& principal : caller.principals) {
    if (principal.kind == kind) all.push_back(&principal);
  }
  if (all.empty()) all.push_back(nullptr);
  return all;
}

std::optional<std::string_view> BodyOf(const Principal* principal) {
  if (principal == nullptr) return std::nullopt;
  return std::string_view(principal->text).substr(HeadOf(principal->kind).size());
}

std::optional<std::string_view> SpiffeSegment(const Principal* principal, int index) {
  if (principal == nullptr) return std::nullopt;
  const auto id = ParseSpiffeId(principal->text);
  if (!id || static_cast<int>(id->segments.size()) < index) return std::nullopt;
  return id->segments[static_cast<size_t>(index) - 1];
}

std::optional<std::string_view> ValueOf(const TextPart& part, const Fill& fill) {
  switch (part.part) {
    case Part::kLiteral:
      return part.literal;
    case Part::kSpiffe:
      return SpiffeSegment(fill.spiffe, part.index);
    case Part::kDns:
      return BodyOf(fill.dns);
    case Part::kUid:
      return BodyOf(FirstOf(fill.caller, Kind::kUid));
    case Part::kToken:
      return BodyOf(FirstOf(fill.caller, Kind::kToken));
    case Part::kK8sNamespace:
    case Part::kK8sAccount:
      break;
  }
  const auto account = BodyOf(FirstOf(fill.caller, Kind::kK8s));
  if (!account) return std::nullopt;
  const size_t slash = account->find('/');
  return part.part == Part::kK8sNamespace ? account->substr(0, slash) : account->substr(slash + 1);
}

std::optional<std::string> Filled(const Template& parts, const Fill& fill) {
  std::string text;
  for (const TextPart& part : parts) {
    const auto value = ValueOf(part, fill);
    if (!value) return std::nullopt;
    text += *value;
  }
  return text;
}

constexpr std::array kTakes = {Verb::kExclusive, Verb::kShared, Verb::kPermit};

}  // namespace

Rights::Rights(std::shared_ptr<const Policy> policy, const Caller& caller) : policy_(std::move(policy)) {
  for (size_t i = 0; i < policy_->rules.size(); ++i) {
    const Rule& rule = policy_->rules[i];
    if (Matches(rule.who, caller)) AddRule(rule, static_cast<Patterns::RuleIndex>(i), caller);
  }
  for (Patterns& patterns : allow_) patterns.Seal();
  for (Patterns& patterns : deny_) patterns.Seal();
}

void Rights::AddRule(const Rule& rule, Patterns::RuleIndex index, const Caller& caller) {
  for (size_t verb = kLockVerbs; verb < kVerbs; ++verb) {
    const VerbSet bit = Bit(static_cast<Verb>(verb));
    if ((rule.allow & bit) != 0 && !broker_allow_[verb]) broker_allow_[verb] = index;
    if ((rule.deny & bit) != 0 && !broker_deny_[verb]) broker_deny_[verb] = index;
  }
  for (const LockPattern& pattern : rule.locks) AddLock(rule, pattern, index, caller);
}

void Rights::AddLock(const Rule& rule, const LockPattern& pattern, Patterns::RuleIndex index, const Caller& caller) {
  if (pattern.all) {
    for (size_t verb = 0; verb < kLockVerbs; ++verb) {
      const VerbSet bit = Bit(static_cast<Verb>(verb));
      if ((rule.allow & bit) != 0) allow_[verb].AddAll(index);
      if ((rule.deny & bit) != 0) deny_[verb].AddAll(index);
    }
    return;
  }
  for (const Principal* const spiffe : AllOf(caller, Kind::kSpiffe)) {
    for (const Principal* const dns : AllOf(caller, Kind::kDns)) {
      const Fill fill{.caller = caller, .spiffe = spiffe, .dns = dns};
      const auto ns = Filled(pattern.ns, fill);
      const auto key = Filled(pattern.key, fill);
      if (ns && key) AddFilled(rule, index, *ns, *key, pattern.prefix);
    }
  }
}

void Rights::AddFilled(const Rule& rule, Patterns::RuleIndex index, const std::string& ns, const std::string& key,
                       bool prefix) {
  for (size_t verb = 0; verb < kLockVerbs; ++verb) {
    const VerbSet bit = Bit(static_cast<Verb>(verb));
    if ((rule.allow & bit) != 0) allow_[verb].Add(ns, key, prefix, index);
    if ((rule.deny & bit) != 0) deny_[verb].Add(ns, key, prefix, index);
  }
}

Decision Rights::Decide(std::optional<Patterns::RuleIndex> denied, std::optional<Patterns::RuleIndex> allowed) const {
  if (denied) return {false, policy_->rules[*denied].name};
  if (allowed) return {true, policy_->rules[*allowed].name};
  return {};
}

Decision Rights::May(Verb verb, std::string_view ns, std::string_view key) const {
  const std::string_view of = NamespaceOf(ns);
  const size_t index = Index(verb);
  return Decide(deny_[index].Find(of, key), allow_[index].Find(of, key));
}

Decision Rights::MayTake(std::string_view ns, std::string_view key) const {
  Decision last;
  for (const Verb verb : kTakes) {
    const Decision decision = May(verb, ns, key);
    if (decision.allowed) return decision;
    if (!decision.rule.empty()) last = decision;
  }
  return last;
}

Decision Rights::MayAll(Verb verb, std::optional<std::string_view> ns, std::string_view prefix) const {
  if (ns) ns = NamespaceOf(*ns);
  const size_t index = Index(verb);
  return Decide(deny_[index].Touches(ns, prefix), allow_[index].Covers(ns, prefix));
}

Decision Rights::MayAtBroker(Verb verb) const { return Decide(broker_deny_[Index(verb)], broker_allow_[Index(verb)]); }

bool Rights::MayAnywhere(Verb verb) const { return !allow_[Index(verb)].empty() && !deny_[Index(verb)].all(); }

bool Rights::MayTakeAny() const {
  return std::any_of(kTakes.begin(), kTakes.end(), [this](Verb verb) { return MayAnywhere(verb); });
}

}  // namespace distlock::access
