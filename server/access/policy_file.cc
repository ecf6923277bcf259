// SPDX-License-Identifier: Apache-2.0
#include "access/policy_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "access/pattern_text.h"
#include "access/spiffe.h"
#include "access/yaml_text.h"
#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;

class Reader {
 public:
  explicit Reader(std::string_view file) : source_(file) {}

  Policy Read(const YAML::Node& root) {
    if (root.IsNull()) source_.Fail(root, "is empty; write version: 1 and rules");
    source_.Fields(root, {"version", "trust_domains", "groups", "rules", "limits"});
    const YAML::Node version = root["version"];
    if (!version) source_.Fail(root, "has no version; write version: 1");
    if (!version.IsScalar() || version.Scalar() != "1")
      source_.Fail(version, "is not a version that is known; write 1");
    for (const YAML::Node& one : source_.List(root["trust_domains"], "trust_domains")) {
      const std::string& domain = source_.Text(one);
      if (!IsTrustDomain(domain)) source_.Fail(one, "is no trust domain; write one such as example.org");
      policy_.trust_domains.push_back(domain);
    }
    ReadGroups(root["groups"]);
    const YAML::Node rules = root["rules"];
    if (rules.IsDefined() && rules.size() > kMostRules)
      source_.Fail(rules, Cat("has more than ", kMostRules, " rules"));
    for (const YAML::Node& rule : source_.List(rules, "rules")) ReadRule(rule);
    for (const YAML::Node& quota : source_.List(root["limits"], "limits")) ReadQuota(quota);
    return std::move(policy_);
  }

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void ReadGroups(const YAML::Node& groups) {
    if (!groups.IsDefined()) return;
    if (!groups.IsMap()) source_.Fail(groups, "is no map; write groups as name: [principal, ...]");
    for (const auto& group : groups) {
      const std::string& name = source_.Text(group.first);
      if (!IsName(name)) source_.Fail(group.first, "is no name for a group; use letters, digits, dot, - and _");
      if (ParseWho(name).ok()) source_.Fail(group.first, "is a word of its own in who; take another name");
      std::vector<WhoPattern> members;
      for (const YAML::Node& one : source_.List(group.second, "a group")) members.push_back(Who(one));
      if (!groups_.emplace(name, std::move(members)).second) source_.Fail(group.first, "is the name of two groups");
    }
  }

  WhoPattern Who(const YAML::Node& node) {
    Count(node, 1);
    auto parsed = ParseWho(source_.Text(node));
    if (!parsed.ok()) source_.Fail(node, source_.WhyOf(parsed.status()));
    if (parsed->whom != WhoPattern::Whom::kPrincipal) return *std::move(parsed);
    if (parsed->kind == Kind::kSpiffe) {
      const auto& domains = policy_.trust_domains;
      if (std::find(domains.begin(), domains.end(), parsed->segments.front()) == domains.end()) {
        source_.Fail(node, "can never match: its trust domain is not in trust_domains");
      }
    }
    if (parsed->kind == Kind::kJwt && !IsJwtSubject(parsed->segments[1])) {
      warnings_.push_back(source_.Message(node, Cat("can never match: with such a token the caller is ",
                                                    NameInPlaceOfJwt(parsed->segments[1]), "; write that")));
    }
    return *std::move(parsed);
  }

  std::vector<WhoPattern> WhoOf(const YAML::Node& of) {
    const YAML::Node who = of["who"];
    if (!who.IsDefined()) source_.Fail(of, "has no who; name the principals, or anyone");
    std::vector<WhoPattern> all;
    for (const YAML::Node& one : source_.List(who, "who")) {
      const auto group = groups_.find(source_.Text(one));
      if (group == groups_.end()) {
        all.push_back(Who(one));
        continue;
      }
      Count(one, group->second.size());
      all.insert(all.end(), group->second.begin(), group->second.end());
    }
    if (all.empty()) source_.Fail(who, "names nobody, so it can never match");
    return all;
  }

  // The verbs of a list; each must be in `allowed`.
  VerbSet Verbs(const YAML::Node& list, std::string_view field, VerbSet allowed) {
    VerbSet verbs = 0;
    for (const YAML::Node& one : source_.List(list, field)) {
      const std::string& name = source_.Text(one);
      const auto verb = VerbOf(name);
      const VerbSet set = name == kAcquireWord ? kAllAcquire : verb ? Bit(*verb) : VerbSet{0};
      if (set == 0) source_.Fail(one, Cat("is no verb; there are ", VerbNames(allowed)));
      if ((set & allowed) == 0) {
        source_.Fail(one, Cat("is no verb for ", field, "; there are ", VerbNames(allowed)));
      }
      verbs |= set;
    }
    return verbs;
  }

  static std::string VerbNames(VerbSet set) {
    std::string names;
    for (size_t verb = 0; verb < kVerbs; ++verb) {
      if ((set & Bit(static_cast<Verb>(verb))) != 0) names += Cat(names.empty() ? "" : ", ", kVerbNames[verb]);
    }
    return (set & kAllAcquire) != 0 ? Cat(kAcquireWord, ", ", names) : names;
  }

  LockPattern Lock(const YAML::Node& node) {
    Count(node, 1);
    absl::StatusOr<LockPattern> parsed;
    if (node.IsMap()) {
      source_.Fields(node, {"namespace", "key"});
      if (!node["key"].IsDefined()) source_.Fail(node, "has no key; write {namespace: ..., key: ...}");
      const YAML::Node ns = node["namespace"];
      parsed = ParseLock(ns.IsDefined() ? source_.Text(ns) : "", source_.Text(node["key"]));
    } else {
      parsed = ParseLock(source_.Text(node));
    }
    if (!parsed.ok()) source_.Fail(node, source_.WhyOf(parsed.status()));
    return *std::move(parsed);
  }

  void ReadRule(const YAML::Node& node) {
    constexpr VerbSet kLock = (VerbSet{1} << kLockVerbs) - 1;
    constexpr VerbSet kBroker = ((VerbSet{1} << kVerbs) - 1) & ~kLock;
    source_.Fields(node, {"name", "who", "locks", "may", "deny", "broker"});
    Rule rule;
    const YAML::Node name = node["name"];
    if (!name.IsDefined()) source_.Fail(node, "has no name; answers and the log name the rule that decided");
    rule.name = source_.Text(name);
    if (!IsName(rule.name)) source_.Fail(name, "is no name for a rule; use letters, digits, dot, - and _");
    if (!names_.insert(rule.name).second) source_.Fail(name, "is the name of two rules");
    rule.who = WhoOf(node);
    rule.allow = Verbs(node["may"], "may", kLock) | Verbs(node["broker"], "broker", kBroker);
    rule.deny = Verbs(node["deny"], "deny", kLock | kBroker);
    for (const YAML::Node& one : source_.List(node["locks"], "locks")) rule.locks.push_back(Lock(one));
    const bool of_locks = ((rule.allow | rule.deny) & kLock) != 0;
    if (rule.allow == 0 && rule.deny == 0) source_.Fail(node, "says nothing: it has none of may, broker and deny");
    if (of_locks && rule.locks.empty()) source_.Fail(node, "can never match: it names no locks");
    if (!of_locks && !rule.locks.empty()) source_.Fail(node, "names locks, but no verb of locks in may or deny");
    policy_.rules.push_back(std::move(rule));
  }

  void ReadQuota(const YAML::Node& node) {
    source_.Fields(node, {"who", "sessions", "leases", "waiters", "requests_per_second"});
    Quota quota{.who = WhoOf(node)};
    quota.sessions = Number(node["sessions"]);
    quota.leases = Number(node["leases"]);
    quota.waiters = Number(node["waiters"]);
    quota.requests_per_second = Number(node["requests_per_second"]);
    policy_.limits.push_back(std::move(quota));
  }

  std::optional<uint32_t> Number(const YAML::Node& node) {
    constexpr uint32_t kMost = 10'000'000;
    if (!node.IsDefined()) return std::nullopt;
    const std::string& text = source_.Text(node);
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (!is_number || value == 0 || value > kMost) source_.Fail(node, Cat("is no limit; write 1..", kMost));
    return value;
  }

  void Count(const YAML::Node& node, size_t more) {
    patterns_ += more;
    if (patterns_ > kMostPatterns) {
      source_.Fail(node, Cat("is one entry too many: all who and locks have at most ", kMostPatterns));
    }
  }

  const YamlText source_;
  Policy policy_;
  std::map<std::string, std::vector<WhoPattern>> groups_;
  std::set<std::string> names_;
  std::vector<std::string> warnings_;
  size_t patterns_ = 0;
};

}  // namespace

absl::StatusOr<Policy> ParsePolicy(std::string_view text, std::string_view file, std::vector<std::string>* warnings) {
  if (text.size() > kMostPolicyBytes) {
    return absl::InvalidArgumentError(
        Cat(file, ": has ", text.size(), " bytes; at most ", kMostPolicyBytes, " are allowed"));
  }
  return ReadYaml(text, file, [&](const YAML::Node& root) {
    Reader reader(file);
    Policy policy = reader.Read(root);
    if (warnings != nullptr) *warnings = reader.warnings();
    return policy;
  });
}

}  // namespace distlock::access
