// SPDX-License-Identifier: Apache-2.0
#include "callers.h"

#include <utility>

#include "contract/error_details.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/validate.h"
#include "core/check.h"
#include "core/limits.h"
#include "distlock/wire/utf8.h"
#include "rpc/engine/wire.h"

namespace distlock::fuzz {
namespace {

constexpr size_t kSlots = 4;
constexpr core::RequestId kOnly = 1;
constexpr std::string_view kBrokerId = "00000000000000aa";

// A refusal must be something that every client can read, in all its forms.
void CheckRefusal(const v1::Refusal& refusal) {
  DISTLOCK_CHECK(wire::IsUtf8(refusal.message()));
  DISTLOCK_CHECK(refusal.reason() != v1::REFUSAL_REASON_UNSPECIFIED);
  DISTLOCK_CHECK(contract::ErrorOf(refusal).code() != 0);
}

}  // namespace

Callers::Callers(core::Duration validity) : slots_(kSlots, 0) { limits_.validity = validity; }

core::OwnerId Callers::NewOwner() {
  core::OwnerId owner{};
  uint64_t number = next_owner_++;
  for (size_t i = owner.size(); number > 0; number >>= 8) owner[--i] = static_cast<uint8_t>(number);
  return owner;
}

Callers::Stream* Callers::At(size_t slot) {
  const auto found = streams_.find(slots_[slot % kSlots]);
  return found == streams_.end() ? nullptr : found->second.get();
}

Callers::Stream& Callers::Open(Kind kind) {
  auto stream = std::make_unique<Stream>();
  stream->id = next_id_++;
  stream->kind = kind;
  Stream& opened = *stream;
  streams_.emplace(opened.id, std::move(stream));
  return opened;
}

// The stream or call is over, by whoever's will.
void Callers::End(core::SessionId id) {
  if (streams_.erase(id) > 0) inputs_.emplace_back(core::StreamEnded{id});
}

void Callers::Break(size_t slot) {
  if (Stream* stream = At(slot)) return End(stream->id);
  for (const auto& [id, stream] : streams_) {
    if (stream->kind != Kind::kSession && stream->kind != Kind::kHold) return End(id);
  }
}

void Callers::EndAll() {
  while (!streams_.empty()) End(streams_.begin()->first);
}

bool Callers::NextInput(core::Input* input) {
  if (inputs_.empty()) return false;
  *input = std::move(inputs_.front());
  inputs_.pop_front();
  return true;
}

void Callers::HeartbeatAll() {
  for (const auto& [id, stream] : streams_) {
    if (stream->kind == Kind::kSession && !stream->leaving) inputs_.emplace_back(core::Heartbeat{id, ++stream->seq});
  }
}

// ---- Requests ----

void Callers::Session(size_t slot, std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  const grpc::ByteBuffer buffer(&slice, 1);
  v1::SessionRequest request;
  const auto problem = rpc::Parse(buffer, &request);
  if (!problem) return Session(slot, request);
  DISTLOCK_CHECK(wire::IsUtf8(*problem));
  if (Stream* stream = At(slot)) End(stream->id);
}

void Callers::Session(size_t slot, const v1::SessionRequest& request) {
  Stream* stream = At(slot);
  if (stream == nullptr) {
    stream = &Open(Kind::kSession);
    slots_[slot % kSlots] = stream->id;
    inputs_.emplace_back(core::OpenSession{stream->id, core::SessionKind::kSession});
  }
  const core::SessionId id = stream->id;
  if (stream->kind != Kind::kSession) return;
  for (const v1::SessionCommand& command : request.commands()) {
    if (!streams_.contains(id)) return;
    Command(*stream, command);
  }
}

void Callers::Command(Stream& stream, const v1::SessionCommand& command) {
  if (command.has_heartbeat()) {
    const auto seq = static_cast<uint64_t>(command.heartbeat().seq());
    stream.seq = std::max(stream.seq, seq);
    if (!stream.leaving) inputs_.emplace_back(core::Heartbeat{stream.id, seq});
    return;
  }
  // A breach of the protocol ends the stream.
  if (stream.leaving || command.has_open()) return End(stream.id);
  if (command.has_goodbye()) {
    stream.leaving = true;
    inputs_.emplace_back(core::Goodbye{stream.id});
    return;
  }
  if (command.has_cancel()) {
    const core::RequestId acquire = command.cancel().acquire_id();
    if (stream.book.ShardOf(acquire)) inputs_.emplace_back(core::Cancel{stream.id, acquire});
    return;
  }
  if (command.id() == 0 || stream.book.Has(command.id())) return End(stream.id);
  if (command.has_acquire()) return AcquireOn(stream, command);
  if (command.has_release()) return ReleaseOn(stream, command);
}

void Callers::AcquireOn(Stream& stream, const v1::SessionCommand& command) {
  const auto& locks = command.acquire().locks();
  contract::Validator check(limits_);
  core::AcquireAll all{check.Locks(locks, "acquire.locks", /*detached=*/false)};
  if (!check.ok()) return CheckRefusal(check.Refusal());
  const auto first = static_cast<core::RequestId>(command.id());
  for (size_t i = 0; i < all.parts.size(); ++i) {
    if (stream.book.Has(first + i)) return End(stream.id);
  }
  for (size_t i = 0; i < all.parts.size(); ++i) {
    core::Acquire& part = all.parts[i];
    part.session = stream.id;
    part.request = first + i;
    part.owner = NewOwner();
    part.info = contract::MakeInfo(locks[static_cast<int>(i)], kBrokerId, 0);
    stream.book.AddAcquire(part.request, part.name, part.owner, 0);
    stream.answers[part.request] = Answered::kNot;
  }
  Post(std::move(all));
}

// One lock is asked for alone.
void Callers::Post(core::AcquireAll all) {
  if (all.parts.size() == 1) {
    inputs_.emplace_back(std::move(all.parts.front()));
  } else {
    inputs_.emplace_back(std::move(all));
  }
}

void Callers::ReleaseOn(Stream& stream, const v1::SessionCommand& command) {
  core::Release release{.session = stream.id,
                        .request = static_cast<core::RequestId>(command.id()),
                        .acquire = static_cast<core::RequestId>(command.release().acquire_id()),
                        .name = {},
                        .lapsed = command.release().lapsed()};
  core::RequestId target = release.acquire;
  if (target == 0) {
    contract::Validator check(limits_);
    contract::LeaseId lease = check.Lease(command.release().lease_id(), "release.lease_id");
    if (!check.ok()) return CheckRefusal(check.Refusal());
    release.name = std::move(lease.name);
    release.owner = lease.owner;
    release.token = lease.token;
    release.ttl = lease.ttl;
    target = stream.book.AcquireOf(release.owner);
  } else if (!stream.book.ShardOf(target)) {
    return;  // answered at once: it is gone
  } else if (stream.book.IsWaiting(target)) {
    inputs_.emplace_back(core::Cancel{stream.id, target});
  }
  stream.book.AddRelease(command.id(), target, 0);
  stream.answers[command.id()] = Answered::kNot;
  inputs_.emplace_back(std::move(release));
}

void Callers::Hold(size_t slot, const v1::LockSpec& spec) {
  contract::Validator check(limits_);
  core::Acquire acquire = check.Spec(spec, "lock", /*detached=*/false);
  if (!check.ok()) return CheckRefusal(check.Refusal());
  if (At(slot) != nullptr) return;
  Stream& stream = Open(Kind::kHold);
  slots_[slot % kSlots] = stream.id;
  inputs_.emplace_back(core::OpenSession{stream.id, core::SessionKind::kHold});
  stream.answers[kOnly] = Answered::kNot;
  acquire.session = stream.id;
  acquire.request = kOnly;
  acquire.owner = NewOwner();
  acquire.info = contract::MakeInfo(spec, kBrokerId, 0);
  inputs_.emplace_back(std::move(acquire));
}

void Callers::Watch(const std::string& key) {
  contract::Validator check(limits_);
  core::LockName name = check.Name("", key, "");
  if (!check.ok()) return CheckRefusal(check.Refusal());
  const Stream& stream = Open(Kind::kWatch);
  inputs_.emplace_back(core::WatchLock{.session = stream.id, .request = kOnly, .name = std::move(name)});
}

void Callers::Acquire(const v1::AcquireRequest& request) {
  contract::Validator check(limits_);
  core::AcquireAll all{check.Locks(request.locks(), "locks", /*detached=*/true)};
  check.RequestId(request.request_id());
  if (!check.ok()) return CheckRefusal(check.Refusal());
  Stream& stream = Open(Kind::kAcquire);
  stream.ttl = all.parts.front().ttl;
  stream.max_hold = all.parts.front().max_hold;
  for (size_t i = 0; i < all.parts.size(); ++i) {
    core::Acquire& acquire = all.parts[i];
    acquire.session = stream.id;
    acquire.request = kOnly + i;
    stream.answers[acquire.request] = Answered::kNot;
    acquire.owner = request.request_id().empty() ? NewOwner() : contract::OwnerIdOf(acquire.name, request.request_id());
    acquire.info = contract::MakeInfo(request.locks(static_cast<int>(i)), kBrokerId, 0);
  }
  Post(std::move(all));
}

void Callers::Renew(std::string_view lease_id) {
  contract::Validator check(limits_);
  contract::LeaseId lease = check.Lease(lease_id, "lease_id");
  if (!check.ok()) return CheckRefusal(check.Refusal());
  Stream& stream = Open(Kind::kRenew);
  stream.ttl = lease.ttl;
  stream.answers[kOnly] = Answered::kNot;
  inputs_.emplace_back(core::Renew{.session = stream.id,
                                   .request = kOnly,
                                   .name = std::move(lease.name),
                                   .owner = lease.owner,
                                   .token = lease.token,
                                   .ttl = lease.ttl,
                                   .hold_until = lease.hold_until});
}

void Callers::Release(std::string_view lease_id) {
  contract::Validator check(limits_);
  contract::LeaseId lease = check.Lease(lease_id, "lease_id");
  if (!check.ok()) return CheckRefusal(check.Refusal());
  Stream& stream = Open(Kind::kRelease);
  stream.answers[kOnly] = Answered::kNot;
  inputs_.emplace_back(core::Release{.session = stream.id,
                                     .request = kOnly,
                                     .acquire = 0,
                                     .name = std::move(lease.name),
                                     .owner = lease.owner,
                                     .token = lease.token,
                                     .ttl = lease.ttl});
}

}  // namespace distlock::fuzz
