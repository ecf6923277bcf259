// SPDX-License-Identifier: Apache-2.0
//
// Builds histories for tests, one call a record: times in ms, clients and locks by name. Records may be added in any
// order; records of the same time keep their order. One thread.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/types.h"
#include "history/check.h"

namespace distlock::sim {

constexpr int64_t Ms(int64_t ms) { return ms * 1'000'000; }

// The terms of a request; times in ms.
struct Terms {
  std::string lock = "k";
  int64_t ttl = 2000;
  int64_t max_wait = -1;
  int64_t lock_delay = 0;
  int64_t max_hold = 0;
  int64_t min_hold = 0;
  bool detached = false;
  bool risky = false;
  bool freed_by_promise = false;
  bool by_heartbeat = false;
  bool together = false;
  HoldKind kind = HoldKind::kExclusive;
  uint32_t permits = 1;
  uint32_t limit = 0;
  bool preferred = false;
  bool keeps_place = false;
  bool adaptive = false;
};

class HistoryBuilder {
 public:
  HistoryBuilder() {
    history_.validity_ns = Ms(1000);
    history_.longest_ttl_ns = Ms(2000);
    history_.slack_ns = Ms(100);
    history_.slow_ns = Ms(500);
    history_.recovery_ns = Ms(5000);
  }
  HistoryBuilder& Calm() {
    history_.calm = true;
    return *this;
  }

  int64_t Asks(int64_t at, const std::string& client, const Terms& terms = {}) {
    const auto lease = static_cast<int64_t>(history_.leases.size());
    history_.leases.push_back({.lock = LockNumber(terms.lock),
                               .client = ActorNumber(client),
                               .ttl_ns = Ms(terms.ttl),
                               .lock_delay_ns = Ms(terms.lock_delay),
                               .max_hold_ns = Ms(terms.max_hold),
                               .min_hold_ns = Ms(terms.min_hold),
                               .detached = terms.detached,
                               .risky = terms.risky,
                               .freed_by_promise = terms.freed_by_promise,
                               .by_heartbeat = terms.by_heartbeat,
                               .together = terms.together,
                               .kind = terms.kind,
                               .permits = terms.permits,
                               .limit = terms.limit,
                               .preferred = terms.preferred,
                               .keeps_place = terms.keeps_place,
                               .adaptive = terms.adaptive});
    const int64_t max_wait = terms.max_wait > 0 ? Ms(terms.max_wait) : terms.max_wait;
    Add(at, RecordKind::kAsked, lease, {.value = max_wait});
    return lease;
  }
  void AsksAgain(int64_t at, int64_t lease) { Add(at, RecordKind::kAsked, lease, {.value = -1}); }
  void MovesOn(int64_t at, int64_t lease) { Add(at, RecordKind::kMovedOn, lease); }
  void GivesUp(int64_t at, int64_t lease) { Add(at, RecordKind::kGaveUp, lease); }
  void Refused(int64_t at, int64_t lease, core::RefusalReason reason = core::RefusalReason::kLockHeld) {
    Add(at, RecordKind::kRefused, lease, {.code = static_cast<uint8_t>(reason)});
  }
  // The client receives the grant and believes until `until`.
  void Granted(int64_t at, int64_t lease, uint64_t token, int64_t until) {
    Add(at, RecordKind::kGranted, lease, {.token = token});
    Believes(at, lease, until);
  }
  void Believes(int64_t at, int64_t lease, int64_t until) {
    Add(at, RecordKind::kBelieves, lease, {.until_ns = Ms(until)});
  }
  void Ended(int64_t at, int64_t lease, EndedWhy why = EndedWhy::kReleasing) {
    Add(at, RecordKind::kEnded, lease, {.code = static_cast<uint8_t>(why)});
  }
  void Lost(int64_t at, int64_t lease, core::LostReason reason) {
    Add(at, RecordKind::kEnded, lease,
        {.code = static_cast<uint8_t>(EndedWhy::kLost), .value = static_cast<int64_t>(reason) + 1});
  }
  void Released(int64_t at, int64_t lease) {
    Add(at, RecordKind::kReleased, lease, {.code = static_cast<uint8_t>(core::ReleaseOutcome::kReleased)});
  }
  void Wrote(int64_t at, int64_t lease, uint64_t token, bool accepted = true) {
    Add(at, RecordKind::kWrote, lease, {.code = accepted, .token = token});
  }
  // Granted, held and released in good order, as clients see it.
  void Holds(int64_t from, int64_t until, int64_t lease, uint64_t token) {
    Granted(from, lease, token, until + 500);
    Ended(until, lease);
    Released(until + 2, lease);
  }

  void Yields(int64_t at, int64_t lease) { Add(at, RecordKind::kYields, lease); }
  void Queued(int64_t at, int64_t lease, int64_t arrival) { Add(at, RecordKind::kQueued, lease, {.value = arrival}); }
  void Unqueued(int64_t at, int64_t lease) { Add(at, RecordKind::kUnqueued, lease); }
  void Took(int64_t at, int64_t lease, uint64_t token) { Add(at, RecordKind::kTook, lease, {.token = token}); }
  void Freed(int64_t at, int64_t lease, FreedHow how = FreedHow::kReleased) {
    Add(at, RecordKind::kFreed, lease, {.code = static_cast<uint8_t>(how)});
  }
  void Downgraded(int64_t at, int64_t lease) { Add(at, RecordKind::kDowngraded, lease); }
  void Forced(int64_t at, int64_t lease, uint64_t token = 0) { Add(at, RecordKind::kForced, lease, {.token = token}); }
  // The same, with the store's records: taken 1 ms before the client receives the grant, freed 1 ms after its belief
  // ends.
  void HoldsInStore(int64_t from, int64_t until, int64_t lease, uint64_t token) {
    Took(from - 1, lease, token);
    Freed(until + 1, lease);
    Holds(from, until, lease, token);
  }

  // GetLock, CheckToken and ListLocks.
  void ShowsLock(int64_t asked, int64_t told, std::vector<Look::Holder> holders, uint64_t newest) {
    const auto count = static_cast<int64_t>(holders.size());
    AddLook(asked, told,
            {.kind = Look::Kind::kLock,
             .lock = LockNumber("k"),
             .newest_token = newest,
             .holders = std::move(holders),
             .holder_count = count});
  }
  void ChecksToken(int64_t asked, int64_t told, uint64_t token, bool newest, uint64_t newest_token) {
    AddLook(asked, told,
            {.kind = Look::Kind::kToken,
             .lock = LockNumber("k"),
             .token = token,
             .newest = newest,
             .newest_token = newest_token});
  }
  void Lists(int64_t asked, int64_t told, std::vector<int32_t> locks) {
    AddLook(asked, told, {.kind = Look::Kind::kList, .listed = std::move(locks)});
  }
  // The store's records from now on are of that call.
  HistoryBuilder& ByCall(int64_t call) {
    call_ = call;
    return *this;
  }

  void Fault(int64_t at, FaultKind kind, int64_t value = 0, const std::string& actor = "",
             const std::string& lock = "") {
    Add(at, RecordKind::kFault, -1,
        {.code = static_cast<uint8_t>(kind),
         .actor = actor.empty() ? -1 : ActorNumber(actor),
         .lock = lock.empty() ? -1 : LockNumber(lock),
         .value = Ms(value)});
  }
  // `found`: brokers hold off from then on; 0: they do not.
  void Forgot(int64_t at, const std::string& lock = "", int64_t found = 0) {
    Add(at, RecordKind::kForgot, -1, {.lock = lock.empty() ? -1 : LockNumber(lock), .until_ns = Ms(found)});
  }
  void Healed(int64_t at) { Add(at, RecordKind::kHealed, -1); }
  void Quiet(int64_t at) { Add(at, RecordKind::kQuiet, -1); }
  void Left(int64_t at, int64_t count, const std::string& what) {
    history_.notes.push_back(what);
    Add(at, RecordKind::kLeft, -1, {.value = count, .note = static_cast<int32_t>(history_.notes.size()) - 1});
  }

  History& Raw() { return history_; }
  History Make() const {
    History made = history_;
    std::stable_sort(made.records.begin(), made.records.end(),
                     [](const Record& a, const Record& b) { return a.at_ns < b.at_ns; });
    return made;
  }
  // The violated invariants, such as "I1 I3"; `stories` gets their stories.
  std::string Violated(std::string* stories = nullptr) const {
    std::set<std::string> found;
    for (const Violation& violation : CheckAll(Make())) {
      found.insert(violation.invariant);
      if (stories != nullptr) *stories += violation.invariant + ": " + violation.story + "\n";
    }
    std::string words;
    for (const std::string& one : found) words += (words.empty() ? "" : " ") + one;
    return words;
  }

 private:
  void Add(int64_t at, RecordKind kind, int64_t lease, Record record = {}) {
    record.at_ns = Ms(at);
    record.kind = kind;
    record.lease = lease;
    if (kind == RecordKind::kTook || kind == RecordKind::kFreed) record.value = call_;
    if (lease >= 0) {
      record.actor = history_.leases[static_cast<size_t>(lease)].client;
      record.lock = history_.leases[static_cast<size_t>(lease)].lock;
    }
    history_.records.push_back(record);
  }
  void AddLook(int64_t asked, int64_t told, Look look) {
    look.asked_ns = Ms(asked);
    look.told_ns = Ms(told);
    history_.looks.push_back(std::move(look));
  }
  int32_t LockNumber(const std::string& name) {
    const auto found = std::find(history_.locks.begin(), history_.locks.end(), name);
    if (found != history_.locks.end()) return static_cast<int32_t>(found - history_.locks.begin());
    history_.locks.push_back(name);
    return static_cast<int32_t>(history_.locks.size()) - 1;
  }
  int32_t ActorNumber(const std::string& name) {
    for (size_t i = 0; i < history_.actors.size(); ++i) {
      if (history_.actors[i].name == name) return static_cast<int32_t>(i);
    }
    history_.actors.push_back({name.starts_with("broker") ? Actor::Kind::kBroker : Actor::Kind::kClient, name});
    return static_cast<int32_t>(history_.actors.size()) - 1;
  }

  History history_;
  int64_t call_ = 0;
};

}  // namespace distlock::sim
