// SPDX-License-Identifier: Apache-2.0
#include "rpc/authorizer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/refusal.h"
#include "contract/utf8.h"

namespace distlock::rpc {
namespace {

constexpr size_t kMostResolved = 1024;
constexpr size_t kPatternsNamed = 5;
// The name of a caller whose proof is wrong.
constexpr char kUnproven[] = "unproven";

std::string Text(std::string_view text) { return std::string(text); }

std::string KeyOf(const access::Caller& caller) {
  std::string key;
  for (const access::Principal& principal : caller.principals) absl::StrAppend(&key, principal.text, "\n");
  if (caller.token) key.append(reinterpret_cast<const char*>(caller.token->data()), caller.token->size());
  return key;
}

// "take shop:cart exclusive", "watch shop:cart", "drain the broker".
std::string DeedOf(access::Verb verb, std::string_view ns, std::string_view key) {
  const std::string name = Text(access::NameOf(verb));
  if (!access::IsLockVerb(verb)) return absl::StrCat("use '", name, "' at this broker");
  const std::string lock = absl::StrCat(Text(ns), ":", Text(key));
  if (static_cast<int>(verb) < access::kAcquireVerbs) return absl::StrCat("take ", lock, " ", name);
  if (verb == access::Verb::kMinHold) return absl::StrCat("take ", lock, " with a min_hold (", name, ")");
  return absl::StrCat(name, " ", lock);
}

access::Verb VerbOf(v1::LockMode mode) {
  switch (mode) {
    case v1::LOCK_MODE_SHARED:
      return access::Verb::kShared;
    case v1::LOCK_MODE_PERMIT:
      return access::Verb::kPermit;
    default:
      return access::Verb::kExclusive;
  }
}

v1::Refusal Unproven() {
  return contract::MakeRefusal(core::RefusalReason::kUnauthenticated,
                               "no proof of identity: this broker wants a client certificate, a bearer token, or a "
                               "user whom its policy names (see distlockctl can-i)");
}

}  // namespace

void Authorizer::Replace(std::shared_ptr<const access::Policy> policy, std::shared_ptr<const access::Tokens> tokens,
                         std::shared_ptr<const access::JwtKeys> jwt) {
  std::lock_guard lock(mu_);
  if (policy != nullptr) book_.policy = std::move(policy);
  if (tokens != nullptr) book_.tokens = std::move(tokens);
  if (jwt != nullptr) {
    book_.jwt = std::move(jwt);
    jwt_cache_.Clear();
  }
  resolved_.clear();
  generation_.fetch_add(1, std::memory_order_relaxed);
}

Authorizer::Book Authorizer::Present() {
  std::lock_guard lock(mu_);
  return book_;
}

// A signature is verified without mu_, which every other caller needs.
std::variant<access::Caller, v1::Refusal> Authorizer::Prove(const access::PeerFacts& facts, AccessOutcome if_wrong) {
  const Book book = Present();
  const int64_t now = now_s();
  std::optional<access::Digest> shown;
  if (book.jwt != nullptr && facts.authorization.size() == 1) shown = access::Sha256(facts.authorization.front());
  access::Proofs proofs{.tokens = book.tokens.get(),
                        .jwt = book.jwt.get(),
                        .known = {},
                        .trust_domains = book.policy == nullptr ? nullptr : &book.policy->trust_domains};
  if (shown) {
    std::lock_guard lock(mu_);
    if (book_.jwt == book.jwt) proofs.known = jwt_cache_.Find(*shown, now);
  }
  std::optional<access::JwtClaims> verified;
  auto caller = access::Identify(facts, proofs, now, &verified);
  if (verified) {
    std::lock_guard lock(mu_);
    // Keys that were replaced meanwhile prove nothing any more.
    if (book_.jwt == book.jwt) jwt_cache_.Add(*shown, *verified, now);
  }
  if (caller.ok()) return *std::move(caller);
  const std::string problem(caller.status().message().data(), caller.status().message().size());
  Tell({.outcome = if_wrong, .verb = {}, .who = kUnproven, .peer = facts.peer, .problem = problem});
  return contract::MakeRefusal(core::RefusalReason::kUnauthenticated, problem);
}

Subject Authorizer::SubjectOf(access::Caller caller) {
  Subject subject;
  subject.caller = std::make_shared<const access::Caller>(std::move(caller));
  Resolve(subject);
  return subject;
}

std::variant<Subject, v1::Refusal> Authorizer::Arrive(const access::PeerFacts& facts) {
  if (!asks()) return Subject();
  auto proven = Prove(facts, options_.allow_all ? AccessOutcome::kWouldDeny : AccessOutcome::kDenied);
  if (auto* caller = std::get_if<access::Caller>(&proven)) return SubjectOf(std::move(*caller));
  if (!options_.allow_all) return std::get<v1::Refusal>(std::move(proven));
  // Nothing of it lasts, so each of its calls is told.
  return SubjectOf({.principals = {}, .name = kUnproven, .peer = facts.peer, .token = {}, .proof_until_s = 0});
}

std::variant<Subject, v1::Refusal> Authorizer::ArriveAgain(const Subject& subject, access::PeerFacts facts) {
  if (!asks()) return Subject();
  // The certificate of a connection stays what it is, so what has ended of it counts for nothing beside a new proof.
  if (!facts.authorization.empty() && facts.tls && now_s() >= facts.tls->not_after_s) facts.tls.reset();
  auto proven = Prove(facts, AccessOutcome::kDenied);
  auto* const caller = std::get_if<access::Caller>(&proven);
  if (caller == nullptr) return std::get<v1::Refusal>(std::move(proven));
  if (caller->name == subject.identity()) return SubjectOf(std::move(*caller));
  return contract::MakeRefusal(
      core::RefusalReason::kPermissionDenied,
      contract::CleanText(absl::StrCat("the session is ", subject.identity(), "'s, and the new proof is ", caller->name,
                                       "'s: the old one stays; open another session")));
}

std::optional<std::chrono::seconds> Authorizer::ProofLeft(const Subject& subject) const {
  if (!enforces() || subject.caller == nullptr) return std::nullopt;
  const int64_t over = subject.caller->proof_over_s;
  if (subject.key_is_gone) return std::chrono::seconds(0);
  if (over == std::numeric_limits<int64_t>::max()) return std::nullopt;
  return std::chrono::seconds(std::max<int64_t>(0, over - now_s()));
}

Subject Authorizer::As(std::vector<access::Principal> principals) {
  Subject subject;
  subject.caller = std::make_shared<const access::Caller>(access::CallerOf(std::move(principals), ""));
  std::lock_guard lock(mu_);
  subject.generation = generation();
  subject.rights =
      book_.policy == nullptr ? nullptr : std::make_shared<const access::Rights>(book_.policy, *subject.caller);
  return subject;
}

void Authorizer::Resolve(Subject& subject) {
  const access::Caller& caller = *subject.caller;
  std::lock_guard lock(mu_);
  subject.generation = generation();
  subject.account = nullptr;
  subject.rights = nullptr;
  subject.key_is_gone = caller.jwt_key && (book_.jwt == nullptr || !book_.jwt->Has(*caller.jwt_key));
  if (book_.policy == nullptr) {
    // Only allow_all does without a policy.
    if (enforces()) subject.rights = std::make_shared<const access::Rights>();
    return;
  }
  // The account is that of the name, also when the caller's proof was withdrawn, so that what it has is given back.
  if (const access::Quota* quota = access::QuotaOf(*book_.policy, caller)) {
    subject.account = accounts_.Of(caller.name, *quota, options_.boot_ns());
  } else {
    accounts_.Free(caller.name);
  }
  std::shared_ptr<const access::Rights>& rights = resolved_[KeyOf(caller)];
  if (rights == nullptr) {
    const bool withdrawn = caller.token && (book_.tokens == nullptr || !book_.tokens->NameOf(*caller.token));
    rights = withdrawn ? std::make_shared<const access::Rights>()
                       : std::make_shared<const access::Rights>(book_.policy, caller);
  }
  subject.rights = rights;
  if (resolved_.size() > kMostResolved) resolved_.clear();
}

Authorizer::Answer Authorizer::CheckLock(Subject& subject, access::Verb verb, std::string_view ns,
                                         std::string_view key) {
  Refresh(subject);
  const access::Decision decision =
      subject.rights == nullptr ? access::Decision{.allowed = true} : subject.rights->May(verb, ns, key);
  return Answered(subject, verb, ns, key, decision);
}

Authorizer::Answer Authorizer::CheckProof(const Subject& subject, std::string_view what,
                                          std::string_view advice) const {
  if (!enforces()) return std::nullopt;
  const bool is_over = now_s() >= subject.caller->proof_over_s;
  if (!is_over && !subject.key_is_gone) return std::nullopt;
  const std::string why = is_over ? "what proved its identity has expired" : "the key of its token counts no more";
  return contract::MakeRefusal(
      core::RefusalReason::kUnauthenticated,
      contract::CleanText(absl::StrCat(subject.caller->name, " may ", Text(what), ": ", why, "; ", Text(advice))));
}

Authorizer::Answer Authorizer::CheckWatches(Subject& subject) {
  if (subject.caller == nullptr) return std::nullopt;
  Refresh(subject);
  return CheckProof(subject, "not watch any longer", "open another stream with a new proof");
}

Authorizer::Answer Authorizer::CheckAcquire(Subject& subject, const v1::LockSpec& lock) {
  if (subject.caller != nullptr) {
    Refresh(subject);
    Answer ended = CheckProof(subject, "take nothing new on this stream", "bring it a new proof, or open another one");
    if (ended) return ended;
  }
  if (Answer denied = Check(subject, VerbOf(lock.mode()), lock.namespace_(), lock.key())) return denied;
  const bool blocks = lock.min_hold().seconds() != 0 || lock.min_hold().nanos() != 0;
  return blocks ? Check(subject, access::Verb::kMinHold, lock.namespace_(), lock.key()) : std::nullopt;
}

Authorizer::Answer Authorizer::CheckLease(Subject& subject, const core::LockName& name) {
  if (subject.caller == nullptr || name.empty()) return std::nullopt;
  Refresh(subject);
  const auto [ns, key] = name.Decode();
  const access::Decision decision =
      subject.rights == nullptr ? access::Decision{.allowed = true} : subject.rights->MayTake(ns, key);
  return Answered(subject, access::Verb::kExclusive, ns, key, decision);
}

Authorizer::Answer Authorizer::CheckAll(Subject& subject, access::Verb verb, std::optional<std::string_view> ns,
                                        std::string_view prefix) {
  if (subject.caller == nullptr) return std::nullopt;
  Refresh(subject);
  if (subject.rights == nullptr) return Answered(subject, verb, ns.value_or("*"), prefix, {.allowed = true});
  const access::Decision decision = subject.rights->MayAll(verb, ns, prefix);
  return Answered(subject, verb, ns.value_or("*"), absl::StrCat(Text(prefix), "*"), decision,
                  decision.allowed ? std::vector<std::string>() : subject.rights->Allowed(verb, kPatternsNamed));
}

Authorizer::Answer Authorizer::CheckBroker(Subject& subject, access::Verb verb) {
  if (subject.caller == nullptr) return std::nullopt;
  Refresh(subject);
  const access::Decision decision =
      subject.rights == nullptr ? access::Decision{.allowed = true} : subject.rights->MayAtBroker(verb);
  return Answered(subject, verb, "", "", decision);
}

Authorizer::Answer Authorizer::CheckTakesAny(Subject& subject) {
  if (subject.caller == nullptr) return std::nullopt;
  Refresh(subject);
  if (!enforces() || subject.rights == nullptr || subject.rights->MayTakeAny()) return std::nullopt;
  return contract::MakeRefusal(
      core::RefusalReason::kPermissionDenied,
      contract::CleanText(absl::StrCat(subject.caller->name, " may not take any lock any more, so its stream ends")));
}

std::string Authorizer::OtherProof(const access::Caller& caller) {
  const bool by_kernel = std::ranges::all_of(caller.principals, [](const access::Principal& principal) {
    return principal.kind == access::Kind::kUid || principal.kind == access::Kind::kGid;
  });
  const Book book = Present();
  const bool has_tokens = book.jwt != nullptr || (book.tokens != nullptr && book.tokens->size() > 0);
  return by_kernel && has_tokens ? "; no token was shown: DISTLOCK_TOKEN_FILE names one" : "";
}

Authorizer::Answer Authorizer::Answered(const Subject& subject, access::Verb verb, std::string_view ns,
                                        std::string_view key, const access::Decision& decision,
                                        const std::vector<std::string>& allowed) {
  const access::Caller& caller = *subject.caller;
  if (access::IsLockVerb(verb) && ns.empty()) ns = "default";
  const AccessOutcome outcome = decision.allowed     ? AccessOutcome::kAllowed
                                : options_.allow_all ? AccessOutcome::kWouldDeny
                                                     : AccessOutcome::kDenied;
  Tell({.outcome = outcome,
        .verb = verb,
        .who = caller.name,
        .peer = caller.peer,
        .ns = ns,
        .key = key,
        .rule = decision.rule,
        .problem = {}});
  if (outcome != AccessOutcome::kDenied) return std::nullopt;
  if (caller.anonymous()) return Unproven();
  std::string why =
      decision.rule.empty() ? "no rule allows it" : absl::StrCat("rule ", Text(decision.rule), " denies it");
  if (!allowed.empty()) absl::StrAppend(&why, "; allowed are ", absl::StrJoin(allowed, ", "));
  why += OtherProof(caller);
  v1::Refusal refusal = contract::MakeRefusal(
      core::RefusalReason::kPermissionDenied,
      contract::CleanText(absl::StrCat(caller.name, " may not ", DeedOf(verb, ns, key), ": ", why)));
  v1::AccessDenial& denial = *refusal.mutable_denial();
  denial.set_identity(contract::CleanText(caller.name));
  denial.set_verb(Text(access::NameOf(verb)));
  denial.set_namespace_(contract::CleanText(Text(ns)));
  denial.set_key(contract::CleanText(Text(key)));
  denial.set_rule(Text(decision.rule));
  return refusal;
}

}  // namespace distlock::rpc
