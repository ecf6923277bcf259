// SPDX-License-Identifier: Apache-2.0
//
// The decision of a policy once more, as plainly as it can be written: every rule, every pattern, by comparing texts.
// Only what server/access reads from the file is shared with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "access/pattern_text.h"
#include "access/policy.h"
#include "text/text.h"

namespace distlock::access {

class Oracle {
 public:
  Oracle(const Policy& policy, const Caller& caller) : policy_(policy), caller_(caller) {}

  bool May(Verb verb, const std::string& ns, const std::string& key) const {
    bool allowed = false;
    for (const Rule& rule : policy_.rules) {
      if (!Concerns(rule.who)) continue;
      const bool holds = !IsLockVerb(verb) || Holds(rule, ns.empty() ? "default" : ns, key);
      if (holds && (rule.deny >> static_cast<int>(verb) & 1) != 0) return false;
      if (holds && (rule.allow >> static_cast<int>(verb) & 1) != 0) allowed = true;
    }
    return allowed;
  }

 private:
  bool Concerns(const std::vector<WhoPattern>& who) const {
    for (const WhoPattern& one : who) {
      if (one.whom == WhoPattern::Whom::kAnyone) return true;
      if (one.whom == WhoPattern::Whom::kAuthenticated && !caller_.principals.empty()) return true;
      if (one.whom == WhoPattern::Whom::kAnonymous && caller_.principals.empty()) return true;
      if (one.whom != WhoPattern::Whom::kPrincipal) continue;
      for (const Principal& principal : caller_.principals) {
        if (principal.kind == one.kind && Same(one, principal.text.substr(HeadOf(principal.kind).size()))) return true;
      }
    }
    return false;
  }

  static bool Same(const WhoPattern& pattern, const std::string& text) {
    if (pattern.kind == Kind::kJwt) {
      const std::string issuer = pattern.segments[0] + "|";
      return text.substr(0, issuer.size()) == issuer &&
             (pattern.segments[1] == "*" || text.substr(issuer.size()) == pattern.segments[1]);
    }
    const auto have = text::Split(text, "/");
    if (pattern.rest && have.size() <= pattern.segments.size()) return false;
    if (!pattern.rest && have.size() != pattern.segments.size()) return false;
    for (size_t i = 0; i < pattern.segments.size(); ++i) {
      if (pattern.segments[i] != "*" && pattern.segments[i] != have[i]) return false;
    }
    return true;
  }

  bool Holds(const Rule& rule, const std::string& ns, const std::string& key) const {
    for (const LockPattern& pattern : rule.locks) {
      if (pattern.all) return true;
      for (const Principal* spiffe : Every(Kind::kSpiffe)) {
        for (const Principal* dns : Every(Kind::kDns)) {
          const auto want_ns = Text(pattern.ns, spiffe, dns);
          const auto want_key = Text(pattern.key, spiffe, dns);
          if (!want_ns || !want_key || *want_ns != ns) continue;
          if (pattern.prefix ? key.compare(0, want_key->size(), *want_key) == 0 : key == *want_key) return true;
        }
      }
    }
    return false;
  }

  std::vector<const Principal*> Every(Kind kind) const {
    std::vector<const Principal*> all;
    for (const Principal& principal : caller_.principals) {
      if (principal.kind == kind) all.push_back(&principal);
    }
    return all.empty() ? std::vector<const Principal*>{nullptr} : all;
  }

  std::optional<std::string> Text(const Template& parts, const Principal* spiffe, const Principal* dns) const {
    std::string text;
    for (const TextPart& part : parts) {
      if (part.part == Part::kLiteral) {
        text += part.literal;
        continue;
      }
      const Principal* of = part.part == Part::kSpiffe  ? spiffe
                            : part.part == Part::kDns   ? dns
                            : part.part == Part::kUid   ? Every(Kind::kUid)[0]
                            : part.part == Part::kToken ? Every(Kind::kToken)[0]
                                                        : Every(Kind::kK8s)[0];
      if (of == nullptr) return std::nullopt;
      const auto segments = text::Split(of->text, "/");  // spiffe: "spiffe:", "", domain, first, ...
      if (part.part == Part::kSpiffe) {
        if (static_cast<int>(segments.size()) < 3 + part.index) return std::nullopt;
        text += segments[2 + static_cast<size_t>(part.index)];
      } else if (part.part == Part::kK8sNamespace) {
        text += segments[0].substr(4);
      } else if (part.part == Part::kK8sAccount) {
        text += segments[1];
      } else {
        text += of->text.substr(of->text.find(':') + 1);
      }
    }
    return text;
  }

  const Policy& policy_;
  const Caller& caller_;
};

}  // namespace distlock::access
