// SPDX-License-Identifier: Apache-2.0
#include "core/covers.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/grants.h"
#include "core/leases.h"
#include "core/limits.h"
#include "core/notes.h"
#include "core/pending_releases.h"

namespace distlock::core {

Cover& Covers::Begin(const Lease& lease, std::string info, const GrantNews& news) {
  auto& slot = covers_[lease.name];
  DISTLOCK_CHECK(slot == nullptr);
  slot = std::make_unique<Cover>();
  Cover& cover = *slot;
  cover.serial = core_.NextSerial();
  cover.name = lease.name;
  cover.owner = lease.owner;
  cover.token = cover.given = lease.token;
  cover.reserved = news.cover_to;
  cover.ttl = lease.ttl;
  cover.deadline = lease.deadline;
  cover.base = news.since;
  cover.base_at = core_.now;
  cover.readers.emplace(lease.token, Cover::Reader{lease.owner, std::move(info), core_.now});
  to_.notes.Hide(lease.owner, cover);
  core_.Arm(cover, NextLook(cover));
  return cover;
}

// Greater than all before it, and such that the store gives no such one to anybody else: either it was told to keep
// this one for the cover, or its clock shows more already. 0: there is none now.
uint64_t Covers::NextToken(const Cover& cover) const {
  const auto passed = std::chrono::floor<std::chrono::microseconds>(core_.Shortened(core_.now - cover.base_at));
  const int64_t shows = std::max<int64_t>(cover.base.us + passed.count(), 0);
  const uint64_t next = cover.given + 1;
  return next <= std::max(cover.reserved, static_cast<uint64_t>(shows)) ? next : 0;
}

// The named reader's own renewals show whether the store still has the lock.
bool Covers::NamedIsWell(const Cover& cover) const {
  if (cover.named_left != kNever) return true;
  const Lease* const named = to_.leases.Find(cover.owner);
  return named != nullptr && named->token == cover.token && !named->ending && !named->at_risk;
}

bool Covers::Join(Cover& cover, Waiter& waiter) {
  const Acquire& spec = waiter.spec;
  if (cover.spreading || spec.ttl != cover.ttl || cover.readers.size() >= kMostUnderCover) return false;
  if (to_.notes.Contains(spec.owner) || to_.releases.Contains(spec.owner) || !NamedIsWell(cover)) return false;
  const Instant deadline = std::min(cover.deadline, core_.now + spec.ttl - core_.Margin(spec.ttl));
  const uint64_t token = NextToken(cover);
  if (token == 0 || deadline - core_.now < spec.ttl / 2) return false;

  if (cover.readers.empty()) core_.Arm(cover, NextLook(cover));
  cover.given = token;
  cover.readers.emplace_hint(cover.readers.end(), token, Cover::Reader{spec.owner, spec.info, core_.now});
  const OwnerId owner = spec.owner;
  to_.notes.Hide(owner, cover);
  core_.Note({.kind = FactKind::kLingered, .linger = LingerOutcome::kGranted, .name = cover.name, .detail = {}});
  to_.grants.Grant(waiter, {.token = token,
                            .since = {static_cast<int64_t>(token)},
                            .made = core_.now,
                            .ttl = cover.ttl,
                            .deadline = deadline,
                            .arrival = Arrival::kAnswer});
  Lease* const lease = to_.leases.Find(owner);
  DISTLOCK_CHECK(lease != nullptr);
  to_.leases.AwaitNote(*lease, core_.config.linger * 3 / 2);
  if (core_.now - cover.named_left >= core_.config.linger / 2) Rename(cover);
  return true;
}

// While readers are present. None of them may come near its deadline before the store knows it.
Instant Covers::NextLook(const Cover& cover) const {
  return std::min(core_.now + core_.config.linger / 2, cover.deadline - cover.ttl / 2);
}

// The named one is shown as the holder, though it has left: not for long.
Instant Covers::IdleEnd(const Cover& cover) const {
  const Duration linger = core_.config.linger;
  return std::min({cover.idle_since + linger, cover.named_left + linger * 3 / 2, cover.deadline - cover.ttl / 2});
}

bool Covers::Leave(Cover& cover, Lease& lease) {
  if (cover.spreading || cover.readers.erase(lease.token) == 0) return false;
  if (lease.owner == cover.owner) {
    cover.named_left = core_.now;
  } else {
    to_.notes.Unhide(lease.owner);
  }
  if (cover.readers.empty()) {
    cover.idle_since = core_.now;
    core_.Arm(cover, IdleEnd(cover));
  }
  to_.leases.NoteEnd(lease, FactKind::kReleased, LostReason{}, "");
  to_.leases.Forget(lease);
  return true;
}

// The store knows it under one who has left: from now on under the first one who is present, so that the tokens that it
// sees grow.
void Covers::Rename(Cover& cover) {
  if (cover.readers.empty() || to_.notes.IsTelling(cover.owner)) return;
  const auto& [token, reader] = *cover.readers.begin();
  const NotedGrant from{.owner = cover.owner, .token = cover.token, .ttl = cover.ttl, .info = {}};
  to_.notes.Unhide(cover.owner);
  cover.owner = reader.owner;
  cover.token = token;
  cover.named_left = kNever;
  to_.notes.Tell(cover.name, from,
                 {.owner = reader.owner, .token = token, .ttl = cover.ttl, .info = reader.info, .covers = true});
}

bool Covers::OnTimer(Cover& cover) {
  if (cover.spreading) {
    core_.now >= cover.until ? OnNotOurs(cover) : Send(cover);
    return false;
  }
  const bool late = core_.now >= cover.deadline - cover.ttl / 2;
  if (cover.readers.empty()) {
    Settle(cover);
    return false;
  }
  if (late || core_.now - cover.readers.begin()->second.joined >= core_.config.linger) {
    Settle(cover);
    return true;
  }
  if (cover.named_left != kNever) Rename(cover);
  core_.Arm(cover, NextLook(cover));
  return false;
}

void Covers::Settle(Cover& cover) {
  if (cover.spreading) return;
  if (cover.readers.empty()) return GiveBack(cover);
  cover.spreading = true;
  cover.until = core_.now + 2 * cover.ttl + core_.config.store_timeout;
  Send(cover);
}

void Covers::GiveBack(Cover& cover) {
  const OwnerId owner = cover.owner;
  const uint64_t token = cover.token;
  PendingRelease& release =
      to_.releases.Start(cover.name, owner, /*waiting=*/false, Duration::zero(), cover.ttl, token);
  release.token = token;
  Unhide(cover);
  Forget(cover);
  to_.releases.Pursue(release);
}

// A note that is under way comes first: then it is certain whom the store knows.
void Covers::Send(Cover& cover) {
  cover.op = 0;
  cover.retry_at = kNever;
  if (core_.store_up && !to_.notes.IsTelling(cover.owner)) {
    Op op;
    op.sender = Op::Sender::kCovers;
    op.waiter = cover.serial;
    op.name = cover.name;
    cover.op = core_.SendOp(std::move(op));
    cover.retry_at = core_.now + CoreContext::AttemptTimeout(cover.ttl);
    if (++cover.attempts == 1) cover.first_sent = core_.now;
    StoreNote spread{.op = cover.op,
                     .name = cover.name,
                     .from = cover.owner,
                     .from_token = cover.token,
                     .ttl = cover.ttl,
                     .info = {},
                     .covers = true,
                     .readers = {},
                     .last_token = cover.given};
    for (const auto& [token, reader] : cover.readers) spread.readers.push_back({reader.owner, token, reader.info});
    core_.Command(std::move(spread));
  }
  core_.Arm(cover, std::min(cover.retry_at, cover.until));
}

void Covers::OnStoreUp() {
  for (Cover* const cover : All()) {
    if (cover->spreading && cover->op == 0) Send(*cover);
  }
}

void Covers::OnReply(const Op& op, OpId id, const StoreReply& reply) {
  Cover* const cover = Find(op.name);
  if (cover == nullptr || cover->serial != op.waiter) return;
  if (const auto* done = std::get_if<NoteDone>(&reply.outcome)) {
    return done->is_noted ? OnSpread(*cover) : OnNotOurs(*cover);
  }
  if (cover->op != id) return;
  cover->op = 0;
  cover->retry_at = core_.store_up ? core_.now + core_.BackOff(cover->attempts) : kNever;
  core_.Arm(*cover, std::min(cover->retry_at, cover->until));
}

// Any of its attempts may be the one that has begun the ttls.
void Covers::OnSpread(Cover& cover) {
  const std::vector<OwnerId> owners = Unhide(cover);
  for (const auto& [token, reader] : cover.readers) {
    Lease* const lease = to_.leases.Find(reader.owner);
    if (lease != nullptr && lease->token == token) to_.leases.OnNoted(*lease, cover.first_sent, cover.ttl, true);
  }
  Forget(cover);
  for (const OwnerId& owner : owners) to_.releases.OnSettled(owner);
}

void Covers::OnNoted(Cover& cover, Instant sent) {
  cover.deadline = std::max(cover.deadline, sent + cover.ttl - core_.Margin(cover.ttl));
}

void Covers::OnSettled(Cover& cover) {
  if (cover.spreading && cover.op == 0) Send(cover);
}

void Covers::OnNotOurs(Cover& cover) {
  const std::vector<OwnerId> owners = Unhide(cover);
  for (const auto& [token, reader] : cover.readers) {
    Lease* const lease = to_.leases.Find(reader.owner);
    if (lease != nullptr && lease->token == token) to_.leases.OnNotOurs(*lease);
  }
  Forget(cover);
  for (const OwnerId& owner : owners) to_.releases.OnSettled(owner);
}

// All of its owners may be asked about in the store from now on.
std::vector<OwnerId> Covers::Unhide(const Cover& cover) {
  std::vector<OwnerId> owners;
  if (cover.named_left != kNever) owners.push_back(cover.owner);
  for (const auto& [token, reader] : cover.readers) owners.push_back(reader.owner);
  for (const OwnerId& owner : owners) to_.notes.Unhide(owner);
  return owners;
}

void Covers::Forget(Cover& cover) {
  core_.timers.Cancel(cover);
  const LockName name = cover.name;
  covers_.erase(name);
}

Cover* Covers::Find(const LockName& name) const {
  if (covers_.empty()) return nullptr;
  const auto found = covers_.find(name);
  return found == covers_.end() ? nullptr : found->second.get();
}

std::vector<Cover*> Covers::All() const {
  std::vector<Cover*> all;
  for (const auto& [name, cover] : covers_) all.push_back(cover.get());
  std::sort(all.begin(), all.end(), [](const Cover* a, const Cover* b) { return a->name < b->name; });
  return all;
}

}  // namespace distlock::core
