// SPDX-License-Identifier: Apache-2.0
//
// The messages between the core and a store: commands to the store, its answers, and its notices.
//
// No clock of a store is in it. Commands name an instant of the broker; answers tell durations, and fencing tokens
// where an order matters: each grant of a lock has a greater token than all before it.
//
// Each command has an OpId, and the store answers each with exactly one StoreReply. All types are plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/lock_name.h"
#include "core/lock_view.h"
#include "core/types.h"

namespace distlock::core {

// The kind of a command. Each type of command has its own as kVerb.
enum class Verb : uint8_t {
  kAcquire,
  kAcquireAll,
  kRenew,
  kRelease,
  kWithdraw,
  kTend,
  kWatch,
  kDowngrade,
  kForce,
  kAdopt,
  kWanted,
};

// ---- Commands ------------------------------------------------------------------------------------------------------

struct StoreAcquire {
  static constexpr Verb kVerb = Verb::kAcquire;
  OpId op = 0;
  LockName name;
  Want want;
  OwnerId owner{};
  Duration ttl{};
  Duration lock_delay{};
  Duration max_hold{};          // the store itself renews no caller's lease for longer than this; 0: no bound
  Duration min_hold{};          // released sooner after its grant, the lock stays blocked until then
  Instant run_before = kNever;  // at or after it the store must do nothing
  bool wait = false;
  // It has been answered before: what another try of its request has is left alone. See IsTry.
  bool again = false;
  bool tell_wanted = false;  // others see that this broker tells its holder when somebody wants the lock
  std::string info;
};

// All of them if all are free and nobody waits for any; else none. Never in a queue.
struct StoreAcquireAll {
  static constexpr Verb kVerb = Verb::kAcquireAll;
  OpId op = 0;
  Instant run_before = kNever;      // as in StoreAcquire
  std::vector<StoreAcquire> items;  // 1..kMaxTogether; of each: what describes the lock
};

struct RenewItem {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // kAnothers when the owner has it under another; 0: any
  Duration ttl{};
  // This broker keeps the lease, and ends it by max_hold. Else a caller renews it, and the store cuts the ttl at the
  // end of the grant's max_hold.
  bool ours = true;
  StoreTime hold_until;  // not ours: the ttl is cut here, too; us = 0: not. A stamp that the store once gave
};

struct StoreRenew {
  static constexpr Verb kVerb = Verb::kRenew;
  OpId op = 0;
  std::vector<RenewItem> items;  // 1..kMaxRenewBatch
};

struct StoreRelease {
  static constexpr Verb kVerb = Verb::kRelease;
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // only this grant of the owner; 0: any, which no lease is released by
  Duration block{};    // > 0: nobody gets it for this long, instead of handing it off
  // A min_hold of the grant counts no more. Else it does, by the store's own record, unless `block` is given.
  bool ends_min_hold = false;
};

struct StoreWithdraw {
  static constexpr Verb kVerb = Verb::kWithdraw;
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  bool keep_grant = false;      // only the place in this broker's queue is given up
  Instant run_before = kNever;  // as in StoreAcquire
};

struct StoreTend {
  static constexpr Verb kVerb = Verb::kTend;
  OpId op = 0;
  LockName name;
  // Those of our waiters who may have been granted the lock without our hearing of it: 1..kMaxAsked, the first one
  // first.
  std::vector<OwnerId> asked;
};

// Shows the lock, and has the store tell this broker of its changes, while its slot lasts.
struct StoreWatch {
  static constexpr Verb kVerb = Verb::kWatch;
  OpId op = 0;
  LockName name;
};

// Makes an EXCLUSIVE hold SHARED.
struct StoreDowngrade {
  static constexpr Verb kVerb = Verb::kDowngrade;
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // only this grant of the owner; 0: any
  std::string info;    // appended
  // Another broker has its stream, and alone can tell the client: nothing is done, but said whether it is held.
  bool elsewhere = false;
};

// Ends a hold that is not this broker's to end: its own is told, or, when that does not hear, it is released and handed
// off.
struct StoreForce {
  static constexpr Verb kVerb = Verb::kForce;
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // only this grant of the owner; 0: any
  std::string broker_id;
  std::string reason;
};

// Gives a hold another owner, who has it under the same token for a whole ttl.
struct StoreAdopt {
  static constexpr Verb kVerb = Verb::kAdopt;
  OpId op = 0;
  LockName name;
  OwnerId from{};
  uint64_t token = 0;  // the grant that is meant; not 0
  // An earlier try of the same request may have given it to another owner with the same first half: taken from that,
  // unless that is of a later session.
  OwnerId owner{};
  Want want;                    // how it is held; anything else changes nothing
  Instant run_before = kNever;  // as in StoreAcquire
  bool tell_wanted = false;     // as in StoreAcquire
  std::string info;             // what the holder says of itself from now on
};

// Somebody waits for what a holder has, or was just refused it: the holder's broker is told, and how many wait is said.
// Nothing is done when that grant is over.
struct StoreWanted {
  static constexpr Verb kVerb = Verb::kWanted;
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;    // the grant that is meant; not 0
  uint64_t through = 0;  // HolderView::wanted_by; 0: it is a lease of this broker, which asks only how many wait
};

using StoreCommand = std::variant<StoreAcquire, StoreAcquireAll, StoreRenew, StoreRelease, StoreWithdraw, StoreTend,
                                  StoreWatch, StoreDowngrade, StoreForce, StoreAdopt, StoreWanted>;

inline Verb VerbOf(const StoreCommand& command) {
  return std::visit([](const auto& one) { return one.kVerb; }, command);
}

// ---- Notices -------------------------------------------------------------------------------------------------------

// Commands can be sent. May be told again.
struct StoreUp {
  bool renew_all = false;  // another server, or another run of it, which may have forgotten some leases and places
};
struct StoreDown {
  std::string cause;
};
// The clock of a server that keeps locks was set, or another server with another clock has them now. Forward: leases
// end sooner than they were granted for.
struct StoreClockStep {
  Duration by{};  // positive: forward
};
// The hand-off channel is subscribed (again): notices may have been missed.
struct ChannelUp {};

// A lock was handed to a waiter of this broker. Or, with an owner of zeros, it is blocked for `ttl`, and a waiter of
// this broker may be the next.
struct GrantNotice {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  StoreTime since;
  Duration ttl{};
  Instant made{};  // no later than the store made the grant
  // The store reckons for itself that the ttl counts from then at the earliest; unset: the core does.
  std::optional<Instant> counted_from;
};

// The holders or waiters of a lock that this broker watches have changed.
struct ChangeNotice {
  LockName name;
};

// Somebody takes a lock from a holder that has it through this broker.
struct ForceNotice {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  std::string reason;
};

// Somebody wants what a holder has through this broker.
struct WantedNotice {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
};

// ---- Answers -------------------------------------------------------------------------------------------------------

enum class FailureKind : uint8_t {
  kNotSent,      // no connection, or refused before it left
  kUnavailable,  // the store answered that it cannot serve (READONLY, LOADING, BUSY, NOREPLICAS, MISCONF, ...)
  kFull,         // maxmemory
  kForeignKey,   // something else is stored under the lock's name
};

// Known not to have changed anything.
struct StoreFailed {
  FailureKind kind = FailureKind::kNotSent;
  std::string cause;
};

// It may or may not have run.
struct StoreUnknown {
  std::string cause;
};

struct AcquireGranted {
  uint64_t token = 0;
  StoreTime since;
  Duration held_for{};       // as in HolderView: not zero if the owner had it already; never too short
  Duration held_at_least{};  // never too long: nobody was promised it for more than max_hold less this
};

// `holders`: at most 16, none of very many. `left`: when to look again; unset: when the first of them may have ended,
// or, with none, at once, since the lock is free. `held_off`: no holder is in the way; the store grants nobody new a
// lock for so long, since it may have forgotten one; zero: that is not why.
struct AcquireQueued {
  uint32_t position = 0;  // waiters ahead
  std::vector<HolderView> holders;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
  uint64_t as_of = 0;  // grants of this lock under a greater token came later than this answer
  Duration held_off{};
};

struct AcquireHeld {
  std::vector<HolderView> holders;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
  Duration held_off{};
};

// Its holders have it in a mode, or out of a limit, that does not mix with what was wanted; nothing was done.
struct AcquireMismatch {
  Mode mode = Mode::kExclusive;
  uint32_t limit = 0;
};

struct AcquireLate {};  // run_before had passed; nothing was done. Also of an adopt and a withdrawal

struct AcquireQueueFull {
  uint32_t queue_length = 0;
};

// Each of them, in the order of StoreAcquireAll::items; none: one of them is not free, and nothing was done.
struct AcquireAllDone {
  std::vector<AcquireGranted> grants;
};

// kMoved: another owner has taken over the same grant. kUnanswered: whether it was renewed is not known, as when one of
// several servers did not answer.
enum class RenewResult : uint8_t { kRenewed, kGone, kAnothers, kMoved, kUnanswered };

struct RenewDoneBatch {
  std::vector<RenewResult> results;  // in the order of StoreRenew::items
  // In the same order, what was left of max_hold by the store's clock; empty: no item has one.
  std::vector<Duration> hold_left;
  std::string trouble;  // why some are kUnanswered
};

// Release and withdraw answer alike.
struct GiveBackDone {
  bool was_holder = false;
  bool was_waiter = false;
  bool look = false;             // this broker is to tend its queue at once
  Duration blocked_for{};        // nobody gets the lock for this long
  std::vector<HolderView> next;  // holders that are waiters of this broker: no notices are sent for them
};

struct TendDone {
  bool slot_was_gone = false;  // this broker's waiters are no longer queued: ask again for each
  bool more = false;           // dead waiters, or more who fit, are left: tend again at once
  // The one who has it; of many, those of StoreTend::asked, and waiters of this broker who have it since this call.
  std::vector<HolderView> holders;
  std::optional<Duration> left;  // as in AcquireQueued
  uint64_t as_of = 0;            // as in AcquireQueued
  Duration held_off{};           // as in AcquireQueued
};

struct WatchDone {
  LockView view;  // without the lock's name
};

struct DowngradeDone {
  enum class Result : uint8_t { kDowngraded, kNotHolder, kAnotherMode, kElsewhere };
  Result result = Result::kNotHolder;
  bool look = false;             // as in GiveBackDone
  std::vector<HolderView> next;  // as in GiveBackDone
};

struct ForceDone {
  // kTold: its broker hears of it, and ends it.
  enum class Result : uint8_t { kReleased, kTold, kGone };
  Result result = Result::kGone;
  bool look = false;             // as in GiveBackDone
  std::vector<HolderView> next;  // as in GiveBackDone
};

// kGone: nobody has that grant, or somebody else. The rest is of kAdopted, but for `mode`, which is of kAnotherMode.
struct AdoptDone {
  // kLater: a later try of the same request has it.
  enum class Result : uint8_t { kAdopted, kGone, kAnotherMode, kLater };
  Result result = Result::kGone;
  Mode mode = Mode::kExclusive;
  StoreTime since;
  Duration held_for{};  // as in HolderView
  Duration ttl{};       // begins with this
  Duration lock_delay{};
  Duration max_hold{};  // as the store has it; 0: it has none
  Duration min_hold{};  // the same
};

struct WantedDone {
  bool is_held = false;       // under the token that was named
  uint32_t queue_length = 0;  // with is_held
};

// The answer to the store command `op`; exactly one for each.
struct StoreReply {
  OpId op = 0;
  std::variant<StoreUnknown, StoreFailed, AcquireGranted, AcquireQueued, AcquireHeld, AcquireLate, AcquireQueueFull,
               AcquireMismatch, AcquireAllDone, RenewDoneBatch, GiveBackDone, TendDone, WatchDone, DowngradeDone,
               ForceDone, AdoptDone, WantedDone>
      outcome;
};

// Why the command was not served, or may not have been. Null: it was.
inline const std::string* TroubleOf(const StoreReply& reply) {
  if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) return &failed->cause;
  const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome);
  return unknown == nullptr ? nullptr : &unknown->cause;
}
// Something else is stored under the lock's name.
inline bool IsForeignKey(const StoreReply& reply) {
  const auto* failed = std::get_if<StoreFailed>(&reply.outcome);
  return failed != nullptr && failed->kind == FailureKind::kForeignKey;
}

}  // namespace distlock::core
