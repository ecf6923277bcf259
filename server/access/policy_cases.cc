// SPDX-License-Identifier: Apache-2.0
#include "access/policy_cases.h"

#include <utility>

#include "access/identify.h"
#include "access/pattern_text.h"
#include "access/policy_file.h"
#include "access/rights.h"
#include "access/yaml_text.h"
#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;

class CaseReader {
 public:
  CaseReader(std::shared_ptr<const Policy> policy, std::string_view file)
      : policy_(std::move(policy)), source_(file), file_(file) {}

  std::vector<CaseOutcome> Run(const YAML::Node& root) {
    if (!root.IsSequence())
      source_.Fail(root, "is no list of cases; write - {who: ..., verb: ..., lock: ..., expect: ...}");
    std::vector<CaseOutcome> outcomes;
    for (const YAML::Node& one : root) outcomes.push_back(RunOne(one));
    return outcomes;
  }

 private:
  CaseOutcome RunOne(const YAML::Node& node) {
    source_.Fields(node, {"who", "verb", "lock", "expect", "rule"});
    const Caller caller = Who(Needed(node, "who"));
    const YAML::Node verb_node = Needed(node, "verb");
    const auto verb = VerbOf(source_.Text(verb_node));
    if (!verb) source_.Fail(verb_node, "is no verb of one kind; a case names exactly one");
    const YAML::Node expect = Needed(node, "expect");
    const std::string& expected = source_.Text(expect);
    if (expected != "allow" && expected != "deny") source_.Fail(expect, "is neither allow nor deny");
    const Rights rights(policy_, caller);
    std::string asked = Cat(caller.name, " ", NameOf(*verb));
    Decision decision;
    if (IsLockVerb(*verb)) {
      const YAML::Node lock = Needed(node, "lock");
      decision = AskLock(rights, *verb, lock);
      asked += Cat(" ", source_.Text(lock));
    } else {
      if (node["lock"].IsDefined()) source_.Fail(node["lock"], "is of no use: this is a verb of the broker");
      decision = rights.MayAtBroker(*verb);
    }
    const YAML::Node rule = node["rule"];
    const bool other_rule = rule.IsDefined() && source_.Text(rule) != decision.rule;
    CaseOutcome outcome{.passed = decision.allowed == (expected == "allow") && !other_rule};
    outcome.text = Cat(file_, ":", node.Mark().line + 1, ": ", asked, ": ", decision.allowed ? "allow" : "deny", " (",
                       decision.rule.empty() ? "no rule allows it" : Cat("rule ", decision.rule), ")");
    if (!outcome.passed) {
      outcome.text += Cat(", expected ", expected, other_rule ? Cat(" by rule ", source_.Text(rule)) : "");
    }
    return outcome;
  }

  Decision AskLock(const Rights& rights, Verb verb, const YAML::Node& node) {
    auto lock = ParseLock(source_.Text(node));
    if (!lock.ok()) source_.Fail(node, source_.WhyOf(lock.status()));
    if (lock->all) return rights.MayAll(verb, std::nullopt, "");
    const auto literal = [&](const Template& parts) {
      std::string text;
      for (const TextPart& part : parts) {
        if (part.part != Part::kLiteral) source_.Fail(node, "has a placeholder; a case names a lock");
        text += part.literal;
      }
      return text;
    };
    const std::string ns = literal(lock->ns);
    const std::string key = literal(lock->key);
    return lock->prefix ? rights.MayAll(verb, ns, key) : rights.May(verb, ns, key);
  }

  YAML::Node Needed(const YAML::Node& of, const std::string& field) {
    const YAML::Node node = of[field];
    if (!node.IsDefined()) source_.Fail(of, Cat("has no ", field));
    return node;
  }

  Caller Who(const YAML::Node& node) {
    std::vector<Principal> principals;
    const auto add = [&](const YAML::Node& one) {
      auto principal = ParsePrincipal(source_.Text(one));
      if (!principal) source_.Fail(one, "is no principal that a caller can have; write one such as k8s:shop/worker");
      principals.push_back(*std::move(principal));
    };
    if (node.IsSequence()) {
      for (const YAML::Node& one : node) add(one);
    } else if (source_.Text(node) != "anonymous") {
      add(node);
    }
    return CallerOf(std::move(principals), "");
  }

  const std::shared_ptr<const Policy> policy_;
  const YamlText source_;
  const std::string_view file_;
};

}  // namespace

absl::StatusOr<std::vector<CaseOutcome>> RunCases(const std::shared_ptr<const Policy>& policy, std::string_view text,
                                                  std::string_view file) {
  if (text.size() > kMostPolicyBytes) return absl::InvalidArgumentError(Cat(file, ": has more than 1 MiB"));
  return ReadYaml(text, file, [&](const YAML::Node& root) { return CaseReader(policy, file).Run(root); });
}

}  // namespace distlock::access
