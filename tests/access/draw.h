// SPDX-License-Identifier: Apache-2.0
//
// Small random policies, callers and questions, so that rules meet often. `below(n)` gives 0 .. n - 1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "access/identify.h"
#include "access/pattern_text.h"
#include "access/policy.h"

namespace distlock::access {

struct Draw {
  std::function<size_t(size_t)> below;

  std::string One(const std::vector<std::string>& of) { return of[below(of.size())]; }

  std::string Word() {
    std::string word;
    for (size_t length = below(4); length > 0; --length)
      word += One({"a", "b", "/", "*", ":", "{", "\\", "%", "\xc3\xa9"});
    return word;
  }

  std::vector<WhoPattern> Who() {
    std::vector<WhoPattern> who;
    for (size_t count = 1 + below(2); count > 0; --count) {
      const auto parsed = ParseWho(
          One({"uid:1",   "uid:2",       "uid:*",     "gid:7",           "token:ops",       "token:*",        "k8s:a/w",
               "k8s:*/w", "k8s:a/*",     "k8s:a/**",  "spiffe://td/a/w", "spiffe://td/*/w", "spiffe://td/**", "dns:a",
               "dns:*",   "jwt:iss|sub", "jwt:iss|*", "anyone",          "anonymous",       "authenticated"}));
      who.push_back(*parsed);
    }
    return who;
  }

  Template Parts() {
    Template parts;
    for (size_t count = below(3); count > 0; --count) {
      TextPart part{.part = static_cast<Part>(below(7))};
      if (below(2) == 0) part.part = Part::kLiteral;
      if (part.part == Part::kLiteral) part.literal = Word();
      if (part.part == Part::kSpiffe) part.index = static_cast<int>(1 + below(3));
      parts.push_back(part);
    }
    return parts;
  }

  LockPattern Lock() {
    LockPattern lock{.all = below(8) == 0};
    if (lock.all) return lock;
    lock.ns = below(2) == 0 ? Template{{.literal = One({"default", "a", "b"})}} : Parts();
    lock.key = Parts();
    lock.prefix = below(2) == 0;
    return lock;
  }

  Policy AnyPolicy() {
    Policy policy;
    for (size_t count = below(8); count > 0; --count) {
      Rule rule{.name = "r" + std::to_string(policy.rules.size()), .who = Who()};
      for (size_t locks = below(4); locks > 0; --locks) rule.locks.push_back(Lock());
      rule.allow = static_cast<VerbSet>(below(1 << kVerbs));
      if (below(3) == 0) rule.deny = static_cast<VerbSet>(below(1 << kVerbs));
      policy.rules.push_back(std::move(rule));
    }
    return policy;
  }

  Caller AnyCaller() {
    std::vector<Principal> principals;
    for (size_t count = below(4); count > 0; --count) {
      const auto one = ParsePrincipal(
          One({"uid:1", "uid:2", "gid:7", "token:ops", "token:a", "k8s:a/w", "k8s:b/a", "spiffe://td/a/w",
               "spiffe://td/b/w/x", "spiffe://td", "dns:a", "dns:b", "jwt:iss|sub", "jwt:iss|a|b"}));
      bool again = false;
      for (const Principal& other : principals) {
        const bool several = one->kind == Kind::kSpiffe || one->kind == Kind::kDns || one->kind == Kind::kGid;
        again = again || other == *one || (other.kind == one->kind && !several);
      }
      if (!again) principals.push_back(*one);
    }
    return CallerOf(std::move(principals), "peer");
  }

  std::string Namespace() { return below(4) == 0 ? Word() : One({"", "default", "a", "b", "w"}); }
  std::string Key() { return below(2) == 0 ? Word() : Word() + Word(); }
};

}  // namespace distlock::access
