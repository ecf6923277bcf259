// SPDX-License-Identifier: Apache-2.0
#include "core/notes.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/records.h"

namespace distlock::core {

void Notes::Tell(const LockName& name, const NotedGrant& from, NotedGrant to) {
  DISTLOCK_CHECK(MayTell(name, from.owner) && !IsTelling(to.owner));
  if (const auto known = by_owner_.find(from.owner); known != by_owner_.end()) {
    return MoveTo(*known->second, std::move(to));
  }
  auto owned = std::make_unique<Note>();
  Note& note = *owned;
  note.serial = core_.NextSerial();
  note.name = name;
  note.from = from;
  note.sent = note.to = std::move(to);
  note.until = core_.now + 2 * from.ttl + core_.config.store_timeout;
  by_owner_[note.from.owner] = by_owner_[note.to.owner] = &note;
  notes_.emplace(note.serial, std::move(owned));
  Send(note);
}

bool Notes::MayTell(const LockName& name, const OwnerId& owner) const {
  const auto found = by_owner_.find(owner);
  return found == by_owner_.end() || (found->second->to.owner == owner && found->second->name == name);
}

std::pair<OwnerId, uint64_t> Notes::Settle(const LockName& name, const OwnerId& owner, uint64_t token) {
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end() || !MayTell(name, owner)) return {owner, token};
  Note& note = *found->second;
  if (note.sent.owner != owner) MoveTo(note, note.sent);
  return {note.to.owner, note.to.token};
}

void Notes::MoveTo(Note& note, NotedGrant to) {
  const OwnerId before = note.to.owner;
  note.to = std::move(to);
  by_owner_[note.to.owner] = &note;
  note.until = std::max(note.until, core_.now + 2 * note.to.ttl + core_.config.store_timeout);
  Leave(note, before);
}

// What was sent is sent again as it was, until its answer is known: the store has the one owner or the other.
void Notes::Send(Note& note) {
  note.op = 0;
  note.retry_at = kNever;
  if (core_.store_up) {
    Op op;
    op.sender = Op::Sender::kNotes;
    op.waiter = note.serial;
    note.op = core_.SendOp(std::move(op));
    note.retry_at = core_.now + CoreContext::AttemptTimeout(note.sent.ttl);
    ++note.attempts;
    core_.Command(StoreNote{.op = note.op,
                            .name = note.name,
                            .from = note.from.owner,
                            .from_token = note.from.token,
                            .owner = note.sent.owner,
                            .token = note.sent.token,
                            .ttl = note.sent.ttl,
                            .info = note.sent.info,
                            .covers = note.sent.covers,
                            .readers = {}});
  }
  Arm(note);
}

void Notes::Unmark(const LockName& name, const OwnerId& owner, uint64_t token) {
  DISTLOCK_CHECK(!Contains(owner));
  Op op;
  op.sender = Op::Sender::kNotes;
  const OpId id = core_.SendOp(std::move(op));
  core_.Command(StoreNote{.op = id,
                          .name = name,
                          .from = owner,
                          .from_token = token,
                          .owner = owner,
                          .token = token,
                          .ttl = {},
                          .info = {},
                          .readers = {}});
}

void Notes::SpreadAgain(const Lease& lease) {
  DISTLOCK_CHECK(!Contains(lease.owner));
  Op op;
  op.sender = Op::Sender::kCovers;
  op.name = lease.name;
  const OpId id = core_.SendOp(std::move(op));
  core_.Command(StoreNote{.op = id,
                          .name = lease.name,
                          .from = lease.owner,
                          .from_token = lease.token,
                          .ttl = lease.ttl,
                          .info = {},
                          .covers = true,
                          .readers = {{lease.owner, lease.token, {}}},
                          .last_token = lease.token});
}

void Notes::Arm(Note& note) { core_.Arm(note, std::min(note.retry_at, note.until)); }

void Notes::OnTimer(Note& note) { core_.now >= note.until ? Refuse(note) : Send(note); }

void Notes::OnStoreUp() {
  for (auto& [serial, note] : notes_) {
    if (note->op == 0) Send(*note);
  }
}

void Notes::OnReply(const Op& op, OpId id, const StoreReply& reply) {
  const auto found = notes_.find(op.waiter);
  if (found == notes_.end() || found->second->op != id) return;
  Note& note = *found->second;
  if (const auto* done = std::get_if<NoteDone>(&reply.outcome)) {
    return done->is_noted ? OnNoted(note, op.sent, done->queue_length) : Refuse(note);
  }
  note.op = 0;
  note.retry_at = core_.store_up ? core_.now + core_.BackOff(note.attempts) : kNever;
  Arm(note);
}

void Notes::OnNoted(Note& note, Instant sent, uint32_t queue_length) {
  note.op = 0;
  news_.OnNoted(note.name, note.to.owner, sent, note.sent.ttl, queue_length, note.sent.owner == note.to.owner);
  // The news may have been that the lock is wanted: then it goes back under the owner that the store knows.
  if (note.sent.owner == note.to.owner) return Forget(note);
  const OwnerId before = note.from.owner;
  note.from = note.sent;
  note.sent = note.to;
  note.attempts = 0;
  Leave(note, before);
  Send(note);
}

void Notes::Refuse(Note& note) {
  // First the lease here ends, then what waited for this.
  news_.OnNotOurs(note.name, note.to.owner);
  Forget(note);
}

// The note does not know `owner` any more, unless it does under another part.
void Notes::Leave(const Note& note, const OwnerId& owner) {
  if (owner == note.from.owner || owner == note.sent.owner || owner == note.to.owner) return;
  by_owner_.erase(owner);
  news_.OnSettled(owner);
}

void Notes::Forget(Note& note) {
  core_.timers.Cancel(note);
  const std::vector<OwnerId> owners{note.from.owner, note.sent.owner, note.to.owner};
  for (const OwnerId& owner : owners) by_owner_.erase(owner);
  notes_.erase(note.serial);
  for (const OwnerId& owner : owners) news_.OnSettled(owner);
}

}  // namespace distlock::core
