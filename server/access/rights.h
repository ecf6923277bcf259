// SPDX-License-Identifier: Apache-2.0
//
// The rights of one caller by one policy: the rules that concern it, with its placeholders filled in. A rule that
// denies always wins, else a rule that allows, else the answer is no. Constant once made; any thread. The names in a
// Decision live as long as the Rights.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "access/patterns.h"
#include "access/policy.h"

namespace distlock::access {

struct Decision {
  bool allowed = false;
  std::string_view rule;  // that decided; "": no rule allows it
};

class Rights {
 public:
  // May do nothing.
  Rights() = default;
  // Resolves the policy for the caller; costs time in proportion to the policy.
  Rights(std::shared_ptr<const Policy> policy, const Caller& caller);

  // `ns` may be "", which is "default".
  Decision May(Verb verb, std::string_view ns, std::string_view key) const;
  // Any of the verbs that take a lock: for what names a lease of unknown mode.
  Decision MayTake(std::string_view ns, std::string_view key) const;
  // All locks of the namespace (nullopt: of all namespaces) whose keys begin so.
  Decision MayAll(Verb verb, std::optional<std::string_view> ns, std::string_view prefix) const;
  // A verb of the broker.
  Decision MayAtBroker(Verb verb) const;

  // False: every lock is denied to the verb, or none is allowed.
  bool MayAnywhere(Verb verb) const;
  // True while some lock may still be taken.
  bool MayTakeAny() const;

  // The patterns that a lock verb is allowed (denied) for, at most `most`.
  std::vector<std::string> Allowed(Verb verb, size_t most) const { return allow_[Index(verb)].Shown(most); }
  std::vector<std::string> Denied(Verb verb, size_t most) const { return deny_[Index(verb)].Shown(most); }

 private:
  static size_t Index(Verb verb) { return static_cast<size_t>(verb); }
  void AddRule(const Rule& rule, Patterns::RuleIndex index, const Caller& caller);
  void AddLock(const Rule& rule, const LockPattern& pattern, Patterns::RuleIndex index, const Caller& caller);
  void AddFilled(const Rule& rule, Patterns::RuleIndex index, const std::string& ns, const std::string& key,
                 bool prefix);
  Decision Decide(std::optional<Patterns::RuleIndex> denied, std::optional<Patterns::RuleIndex> allowed) const;

  std::shared_ptr<const Policy> policy_;
  std::array<Patterns, kLockVerbs> allow_;
  std::array<Patterns, kLockVerbs> deny_;
  std::array<std::optional<Patterns::RuleIndex>, kVerbs> broker_allow_;
  std::array<std::optional<Patterns::RuleIndex>, kVerbs> broker_deny_;
};

}  // namespace distlock::access
