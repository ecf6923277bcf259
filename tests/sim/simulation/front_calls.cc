// SPDX-License-Identifier: Apache-2.0
//
// Front: Hold, WatchLock, the unary calls, and the core's events for all of them.
#include "contract/downgrade.h"
#include "contract/error_details.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "rpc/messages/status.h"
#include "simulation/front.h"

namespace distlock::sim {
namespace {

constexpr core::RequestId kOnly = 1;

}  // namespace

void Front::Hold(core::SessionId id, const v1::HoldRequest& request) {
  const v1::LockSpec& spec = request.lock();
  Stream& stream = *streams_.at(id);
  stream.kind = Kind::kHold;
  contract::Validator check(limits_);
  core::Acquire acquire = check.Spec(spec, "lock", /*detached=*/false);
  acquire.session = id;
  acquire.request = kOnly;
  acquire.owner = OwnerOf(acquire, request.request_id(), static_cast<uint32_t>(request.generation()));
  acquire.info = InfoOf(spec);
  acquire.ttl = Allowed(acquire.ttl);
  stream.ttl = acquire.ttl;
  stream.told_core = true;
  stream.answers[kOnly] = Answered::kNot;
  post_(core::OpenSession{id, core::SessionKind::kHold});
  NoteHolder(stream);
  post_(std::move(acquire));
}

void Front::Watch(core::SessionId id, const std::string& key) {
  Stream& stream = *streams_.at(id);
  stream.kind = Kind::kWatch;
  contract::Validator check(limits_);
  stream.name = check.Name("", key, "");
  stream.told_core = true;
  post_(core::WatchLock{.session = id, .request = kOnly, .name = stream.name});
}

void Front::Acquire(core::SessionId id, const v1::LockSpec& spec, const std::string& request_id) {
  Stream& stream = *streams_.at(id);
  stream.kind = Kind::kAcquire;
  if (draining_) {
    SendToClient(stream, [](Listener& listener) { listener.OnRefused(core::RefusalReason::kDraining); });
    return End(stream, grpc::Status::OK);
  }
  contract::Validator check(limits_);
  core::Acquire acquire = check.Spec(spec, "lock", /*detached=*/true);
  acquire.session = id;
  acquire.request = kOnly;
  acquire.owner = NewOwner();
  acquire.owner[0] = core::kDetachedMark;
  if (!request_id.empty()) acquire.owner = contract::OwnerIdOf(acquire.name, request_id);
  acquire.info = InfoOf(spec);
  acquire.ttl = Allowed(acquire.ttl);
  stream.max_hold = acquire.max_hold;
  stream.name = acquire.name;
  stream.owner = acquire.owner;
  stream.ttl = acquire.ttl;
  stream.repeatable = !request_id.empty();
  stream.told_core = true;
  stream.answers[kOnly] = Answered::kNot;
  post_(std::move(acquire));
}

void Front::Renew(core::SessionId id, const std::string& lease_id) {
  Stream& stream = *streams_.at(id);
  stream.kind = Kind::kRenew;
  auto lease = contract::DecodeLeaseId(lease_id);
  if (!lease) return env_.Fail("a lease id cannot be read");
  stream.told_core = true;
  stream.answers[kOnly] = Answered::kNot;
  post_(core::Renew{.session = id,
                    .request = kOnly,
                    .name = std::move(lease->name),
                    .owner = lease->owner,
                    .token = lease->token,
                    .ttl = Allowed(lease->ttl),
                    .hold_until = lease->hold_until});
}

void Front::Release(core::SessionId id, const std::string& lease_id) {
  Stream& stream = *streams_.at(id);
  stream.kind = Kind::kRelease;
  auto lease = contract::DecodeLeaseId(lease_id);
  if (!lease) return env_.Fail("a lease id cannot be read");
  stream.told_core = true;
  stream.answers[kOnly] = Answered::kNot;
  post_(core::Release{.session = id,
                      .request = kOnly,
                      .acquire = 0,
                      .name = std::move(lease->name),
                      .owner = lease->owner,
                      .token = lease->token,
                      .ttl = lease->ttl});
}

void Front::Downgrade(core::SessionId id, const std::string& lease_id) {
  Stream& stream = *streams_.at(id);
  stream.kind = Kind::kDowngrade;
  auto checked = contract::CheckDowngrade(limits_, 0, lease_id, "");
  auto* downgrade = std::get_if<core::Downgrade>(&checked);
  if (downgrade == nullptr) return env_.Fail("a lease id cannot be read");
  downgrade->session = id;
  downgrade->request = kOnly;
  stream.told_core = true;
  stream.answers[kOnly] = Answered::kNot;
  post_(std::move(*downgrade));
}

void Front::Tell(core::Notify notify) {
  const auto found = streams_.find(notify.session);
  if (found == streams_.end()) {
    const auto orphan = orphans_.find(notify.session);
    const auto* const granted = std::get_if<core::Granted>(&notify.event);
    if (orphan == orphans_.end() || granted == nullptr) return;
    orphan->second.token = granted->token;
    return post_(orphan->second);
  }
  Stream& stream = *found->second;
  if (stream.over) return;
  if (stream.kind == Kind::kWatch) return TellWatch(stream, notify.event);
  CheckAnswer(stream, notify);
  if (stream.kind == Kind::kSession) return TellSession(stream, std::move(notify));
  if (stream.kind == Kind::kHold) return TellHold(stream, std::move(notify.event));
  TellCall(stream, notify.event);
}

void Front::TellSession(Stream& stream, core::Notify notify) {
  if (const auto* end = std::get_if<core::EndStream>(&notify.event)) {
    return End(stream, end->why == core::StreamEnd::kGoodbye  ? grpc::Status::OK
                       : end->why == core::StreamEnd::kLapsed ? rpc::ToStatus(contract::LapsedError(limits_.validity))
                       : end->why == core::StreamEnd::kHolderDied
                           ? rpc::ToStatus(contract::HolderDiedError())
                           : rpc::ToStatus(contract::ErrorOf(contract::DrainingRefusal())));
  }
  core::LockName about;
  if (notify.request != 0) about = stream.book.OnEvent(notify.request, notify.event);
  Push(stream, {.id = notify.request, .event = std::move(notify.event), .about = std::move(about), .made = nullptr});
  Pump(stream);
}

void Front::TellHold(Stream& stream, core::Event event) {
  const bool last = std::holds_alternative<core::Lost>(event) || std::holds_alternative<core::Released>(event) ||
                    std::holds_alternative<core::Refused>(event) || std::holds_alternative<core::EndStream>(event);
  SendToClient(stream, [event = std::move(event)](Listener& listener) { listener.OnHold(event); });
  if (last) End(stream, grpc::Status::OK);
}

void Front::TellWatch(Stream& stream, const core::Event& event) {
  if (const auto* changed = std::get_if<core::Changed>(&event)) {
    return SendToClient(stream,
                        [lock = contract::LockOf(changed->view)](Listener& listener) { listener.OnLock(lock); });
  }
  const auto* refused = std::get_if<core::Refused>(&event);
  End(stream, rpc::ToStatus(contract::ErrorOf(refused == nullptr ? contract::DrainingRefusal()
                                                                 : contract::RefusalOf(*refused, stream.name))));
}

void Front::TellCall(Stream& stream, const core::Event& event) {
  if (const auto* granted = std::get_if<core::Granted>(&event)) {
    SendToClient(stream, [grant = contract::GrantOf(*granted, stream.max_hold)](Listener& listener) {
      listener.OnGrant(grant);
    });
  } else if (const auto* renewed = std::get_if<core::RenewDone>(&event)) {
    SendToClient(stream, [valid_for = renewed->valid_for](Listener& listener) { listener.OnRenewed(valid_for); });
  } else if (const auto* released = std::get_if<core::Released>(&event)) {
    SendToClient(stream, [outcome = released->outcome](Listener& listener) { listener.OnReleased(outcome); });
  } else if (std::holds_alternative<core::Downgraded>(event)) {
    SendToClient(stream, [](Listener& listener) { listener.OnDowngraded(); });
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    SendToClient(stream, [reason = refused->reason](Listener& listener) { listener.OnRefused(reason); });
  } else {
    return;  // a Queued event, which a call does not report
  }
  End(stream, grpc::Status::OK);
}

// Checks the core's first promise: one final answer to each request, and none without a request.
void Front::CheckAnswer(Stream& stream, const core::Notify& notify) {
  if (notify.request == 0) return;
  const auto found = stream.answers.find(notify.request);
  if (found == stream.answers.end()) {
    return env_.Fail(broker_.name() + " answers what was not asked, or again: request " +
                     std::to_string(notify.request) + " of stream " + std::to_string(stream.id));
  }
  const bool granted = std::holds_alternative<core::Granted>(notify.event);
  if (granted && found->second == Answered::kGranted) env_.Fail(broker_.name() + " grants a request twice");
  if (granted) {
    found->second = Answered::kGranted;
    if (stream.kind == Kind::kAcquire) stream.answers.erase(found);
    return;
  }
  const bool news = std::holds_alternative<core::Queued>(notify.event) ||
                    std::holds_alternative<core::AtRisk>(notify.event) ||
                    std::holds_alternative<core::Renewed>(notify.event);
  if (!news) stream.answers.erase(found);
}

std::string Front::Unanswered() const {
  for (const auto& [id, stream] : streams_) {
    if (stream->over) continue;
    for (const auto& [request, answered] : stream->answers) {
      if (answered == Answered::kNot) {
        return "request " + std::to_string(request) + " of stream " + std::to_string(id) + " at " + broker_.name();
      }
    }
  }
  return "";
}

}  // namespace distlock::sim
