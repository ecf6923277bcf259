// SPDX-License-Identifier: Apache-2.0
//
// A policy as values: rules of who may do what with which locks. policy_file.h reads it, rights.h decides by it.
// Constant once read; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "access/caller.h"

namespace distlock::access {

// The verbs of a policy: first those of locks, then those of the broker.
enum class Verb : uint8_t {
  kExclusive,
  kShared,
  kPermit,
  kLook,
  kWatch,
  kList,
  kForceRelease,
  kMinHold,
  kStatus,
  kSessions,
  kDrain,
  kReload,
  kAccess,
  kStore,
};
inline constexpr int kVerbs = 14;
inline constexpr int kLockVerbs = 8;
inline constexpr int kAcquireVerbs = 3;

inline constexpr std::array<std::string_view, kVerbs> kVerbNames = {
    "exclusive", "shared", "permit",   "look",  "watch",  "list",   "force-release",
    "min-hold",  "status", "sessions", "drain", "reload", "access", "store"};
inline constexpr std::string_view kAcquireWord = "acquire";  // the three verbs that take a lock

constexpr std::string_view NameOf(Verb verb) { return kVerbNames[static_cast<size_t>(verb)]; }
std::optional<Verb> VerbOf(std::string_view name);
constexpr bool IsLockVerb(Verb verb) { return static_cast<int>(verb) < kLockVerbs; }

// A set of verbs: bit i is the verb of number i.
using VerbSet = uint16_t;
constexpr VerbSet Bit(Verb verb) { return static_cast<VerbSet>(1U << static_cast<unsigned>(verb)); }
inline constexpr VerbSet kAllAcquire = Bit(Verb::kExclusive) | Bit(Verb::kShared) | Bit(Verb::kPermit);

// One entry of `who`. kPrincipal: of `kind`, and its segments match.
struct WhoPattern {
  enum class Whom : uint8_t { kPrincipal, kAuthenticated, kAnonymous, kAnyone };
  Whom whom = Whom::kPrincipal;
  Kind kind = Kind::kUid;
  std::vector<std::string> segments;  // "*" stands for any one. Of kJwt: issuer and subject
  bool rest = false;                  // at least one more segment follows, whatever it is
};

// A placeholder in a lock's pattern: a part of the caller's own identity.
enum class Part : uint8_t { kLiteral, kK8sNamespace, kK8sAccount, kSpiffe, kDns, kUid, kToken };
struct TextPart {
  Part part = Part::kLiteral;
  std::string literal;  // kLiteral
  int index = 0;        // kSpiffe: which segment of the path, from 1 on
};
using Template = std::vector<TextPart>;

// One entry of `locks`.
struct LockPattern {
  bool all = false;  // every lock of every namespace; the rest says nothing
  Template ns;
  Template key;
  bool prefix = false;  // every key that begins with `key`
};

struct Rule {
  std::string name;
  std::vector<WhoPattern> who;
  std::vector<LockPattern> locks;
  VerbSet allow = 0;
  VerbSet deny = 0;
};

// One caller's share of this broker; unset: as much as the broker's own limits leave.
struct Quota {
  std::vector<WhoPattern> who;
  std::optional<uint32_t> sessions;  // open streams
  std::optional<uint32_t> leases;
  std::optional<uint32_t> waiters;
  std::optional<uint32_t> requests_per_second;
};

struct Policy {
  std::vector<std::string> trust_domains;
  std::vector<Rule> rules;
  std::vector<Quota> limits;
};

// Any of the patterns matches any of the caller's principals.
bool Matches(const std::vector<WhoPattern>& who, const Caller& caller);

// The quota of the caller: the first that matches; null: none.
const Quota* QuotaOf(const Policy& policy, const Caller& caller);

}  // namespace distlock::access
