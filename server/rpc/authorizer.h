// SPDX-License-Identifier: Apache-2.0
//
// Callers and their rights: server/access with the policy that is in force. A policy, tokens or keys that are read anew
// replace the former ones as a whole; an open call follows at its next check.
//
// Thread: any; a Subject belongs to one thread at a time. Outlives every call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "access/identify.h"
#include "access/meter.h"
#include "access/policy.h"
#include "access/rights.h"
#include "core/lock_name.h"
#include "core/types.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::rpc {

enum class AccessOutcome { kAllowed, kDenied, kWouldDeny };

// One decision, for the audit log and the metrics. Views: during the call only.
struct AccessEvent {
  AccessOutcome outcome = AccessOutcome::kAllowed;
  std::optional<access::Verb> verb;  // unset: the proof of identity was wrong
  std::string_view who;
  std::string_view peer;
  std::string_view ns;
  std::string_view key;
  std::string_view rule;
  std::string_view problem;  // of a wrong proof
};

// The caller of one call, and its rights by the policy of `generation`.
struct Subject {
  std::shared_ptr<const access::Caller> caller;  // null: nobody's identity is asked for
  std::shared_ptr<const access::Rights> rights;
  std::shared_ptr<access::Account> account;  // null: no quota
  uint64_t generation = 0;
  bool key_is_gone = false;  // the key of its JSON web token counts no more

  // The name for others; "" when nobody is asked.
  std::string identity() const { return caller == nullptr ? "" : caller->name; }
};

class Authorizer {
 public:
  struct Options {
    bool asks = false;       // identities are asked for: a policy is given, or allow_all
    bool allow_all = false;  // nothing is refused; what would be is told to `on_access`
    std::function<void(const AccessEvent&)> on_access;
    std::function<int64_t()> unix_seconds;  // the wall clock, for proofs that expire
    std::function<int64_t()> boot_ns;       // a clock that never goes back, for quotas
  };
  explicit Authorizer(Options options) : options_(std::move(options)) {}
  Authorizer(const Authorizer&) = delete;
  Authorizer& operator=(const Authorizer&) = delete;

  // Whether callers are authenticated. False: everything is allowed to everybody.
  bool asks() const { return options_.asks; }
  // True when a policy decides, so that leases of one caller are out of reach of the others.
  bool enforces() const { return options_.asks && !options_.allow_all; }
  int64_t now_s() const { return options_.unix_seconds(); }
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

  // Null leaves a part as it is.
  void Replace(std::shared_ptr<const access::Policy> policy, std::shared_ptr<const access::Tokens> tokens,
               std::shared_ptr<const access::JwtKeys> jwt);

  // Authenticates a call that has just arrived. UNAUTHENTICATED: a proof is wrong.
  std::variant<Subject, v1::Refusal> Arrive(const access::PeerFacts& facts);
  // Authenticates the caller anew, by the proof in `facts`. Beside a bearer token a client certificate that has ended
  // does not count. Also with allow_all: UNAUTHENTICATED, when the proof is wrong; PERMISSION_DENIED, when another's.
  std::variant<Subject, v1::Refusal> ArriveAgain(const Subject& subject, access::PeerFacts facts);
  // How long the subject may take new locks by its proof; nullopt: no end is known.
  std::optional<std::chrono::seconds> ProofLeft(const Subject& subject) const;
  // For CheckAccess: a subject with these principals, without quota.
  Subject As(std::vector<access::Principal> principals);
  // The subject's rights by the policy of now.
  void Refresh(Subject& subject) {
    if (subject.caller != nullptr && subject.generation != generation()) Resolve(subject);
  }

  // nullopt: allowed. Else PERMISSION_DENIED, or UNAUTHENTICATED for a caller that has proven nothing.
  std::optional<v1::Refusal> Check(Subject& subject, access::Verb verb, std::string_view ns, std::string_view key) {
    return subject.caller == nullptr ? std::nullopt : CheckLock(subject, verb, ns, key);
  }
  // For a lease_id, which names a lock but no mode: one verb that takes the lock is enough.
  std::optional<v1::Refusal> CheckLease(Subject& subject, const core::LockName& name);
  // For all locks of the namespace (nullopt: of every namespace) whose keys begin with `prefix`.
  std::optional<v1::Refusal> CheckAll(Subject& subject, access::Verb verb, std::optional<std::string_view> ns,
                                      std::string_view prefix);
  std::optional<v1::Refusal> CheckBroker(Subject& subject, access::Verb verb);
  // UNAUTHENTICATED for a caller whose proof has ended since it came, so that it is shown nothing more.
  std::optional<v1::Refusal> CheckWatches(Subject& subject);
  // PERMISSION_DENIED when the subject may take no lock at all. No AccessEvent.
  std::optional<v1::Refusal> CheckTakesAny(Subject& subject);

  // Check for a new lock, or one to adopt: AcquireCall, HoldCall and SessionCall use it. UNAUTHENTICATED, too, for a
  // caller whose proof has ended since it came; the leases that the caller has are renewed.
  std::optional<v1::Refusal> CheckAcquire(Subject& subject, const v1::LockSpec& lock);

 private:
  struct Book {
    std::shared_ptr<const access::Policy> policy;
    std::shared_ptr<const access::Tokens> tokens;
    std::shared_ptr<const access::JwtKeys> jwt;
  };
  using Answer = std::optional<v1::Refusal>;

  Book Present();
  // The caller whom the facts prove; a wrong proof is an AccessEvent of the outcome `if_wrong`.
  std::variant<access::Caller, v1::Refusal> Prove(const access::PeerFacts& facts, AccessOutcome if_wrong);
  Subject SubjectOf(access::Caller caller);
  Answer CheckLock(Subject& subject, access::Verb verb, std::string_view ns, std::string_view key);
  void Resolve(Subject& subject);
  Answer CheckProof(const Subject& subject, std::string_view what, std::string_view advice) const;
  Answer Answered(const Subject& subject, access::Verb verb, std::string_view ns, std::string_view key,
                  const access::Decision& decision, const std::vector<std::string>& allowed = {});
  // The other way to prove who one is, for a caller that only the kernel has named; "" when there is none.
  std::string OtherProof(const access::Caller& caller);
  void Tell(const AccessEvent& event) const {
    if (options_.on_access) options_.on_access(event);
  }

  const Options options_;
  std::atomic<uint64_t> generation_ = 0;

  // Guarded by mu_.
  std::mutex mu_;
  Book book_;
  access::JwtCache jwt_cache_;
  access::Accounts accounts_;
  // By all principals of the caller; of the present generation.
  absl::flat_hash_map<std::string, std::shared_ptr<const access::Rights>> resolved_;
};

}  // namespace distlock::rpc
