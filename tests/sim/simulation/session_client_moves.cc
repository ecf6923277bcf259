// SPDX-License-Identifier: Apache-2.0
//
// "Moving a lease" of session.md: a session adopts what another had, which may go on beside it until all have moved.
#include <algorithm>
#include <utility>

#include "simulation/session_client.h"

namespace distlock::sim {
void SessionClient::AdoptAll() {
  for (Lease& lease : std::exchange(moving_, {})) {
    const Wish* const wish = Find(lease.wish);
    if (wish == nullptr) continue;
    if (lease.request_id.empty()) {
      lease.request_id = name() + " request " + std::to_string(next_request_++);
      lease.request_id.resize(std::max<size_t>(lease.request_id.size(), 16), '.');
    }
    lease.state = State::kAdopting;
    v1::SessionCommand command;
    command.set_id(next_id_++);
    command.mutable_adopt()->set_lease_id(lease.lease_id);
    command.mutable_adopt()->set_request_id(lease.request_id);
    *command.mutable_adopt()->mutable_lock() = SpecOf(*wish);
    session_->leases[command.id()] = lease;
    LosePatienceWithAdoption(command.id());
    Send(*session_, std::move(command));
  }
}

// The later command of one request counts, whatever becomes of the first.
void SessionClient::AdoptAgain(int64_t id) {
  moving_.push_back(session_->leases.extract(id).mapped());
  moving_.back().repeated.push_back(id);
  AdoptAll();
}

// Not before the later one is answered: the first may have got the lease.
void SessionClient::ReleaseRepeated(Lease& lease) {
  if (session_ == nullptr) return;
  for (const int64_t id : std::exchange(lease.repeated, {})) Release(id, /*lapsed=*/false, 0);
}

void SessionClient::OnAdopted(int64_t id, const v1::Grant& grant) {
  Lease& lease = session_->leases.at(id);
  ReleaseRepeated(lease);
  if (static_cast<uint64_t>(grant.fencing_token()) != lease.token) env_.Fail("an adopted lease has another token");
  lease.state = State::kHeld;
  lease.lease_id = grant.lease_id();
  lease.request_id.clear();
  lease.former = 0;
  const auto sent = session_->sent.find(grant.echo_seq());
  if (sent != session_->sent.end()) SetDeadline(id, sent->second + ToDuration(grant.valid_for()));
  if (!HasFormer()) LeaveFormer();
}

void SessionClient::OnAdoptionRefused(Lease lease, core::RefusalReason reason) {
  Wish* const wish = Find(lease.wish);
  if (wish == nullptr) return ReleaseRepeated(lease);
  const bool is_final = reason == core::RefusalReason::kNotHolder || reason == core::RefusalReason::kNotSupported;
  if (is_final || LocalTime() >= lease.deadline) {
    ReleaseAtFormer(lease, /*lapsed=*/true);
    ReleaseRepeated(lease);
    return OnEnded(*wish, EndedWhy::kStreamBroke);
  }
  moving_.push_back(std::move(lease));
  PostAfter(kLeastPause, [this] {
    if (session_ != nullptr) AdoptAll();
  });
}

// ---- The former session ----

// It has leases that are believed in, and all of them move.
bool SessionClient::MayRetire() const {
  if (former_ != nullptr || session_ == nullptr) return false;
  bool any = false;
  for (const auto& [id, lease] : session_->leases) {
    const auto wish = wishes().find(lease.wish);
    // A place that moves is the next session's before the former one says Goodbye: a drain takes care of that.
    if (lease.state == State::kWaiting && wish != wishes().end() && KeepsPlace(wish->second) &&
        !session_->broker->draining()) {
      return false;
    }
    if (lease.state == State::kWaiting) continue;
    if (wish == wishes().end() || lease.state != State::kHeld || !wish->second.moves || wish->second.releasing ||
        LocalTime() >= lease.deadline) {
      return false;
    }
    any = true;
  }
  return any && session_->releases.empty();
}

void SessionClient::Retire() {
  former_ = std::move(session_);
  for (const auto& [id, lease] : former_->leases) {
    if (lease.state == State::kHeld) {
      moving_.push_back(lease);
      moving_.back().former = id;
      continue;
    }
    Wish* const wish = Find(lease.wish);
    if (wish != nullptr && KeepsPlace(*wish)) continue;
    v1::SessionCommand command;
    command.mutable_cancel()->set_acquire_id(id);
    Send(*former_, std::move(command));
    if (wish != nullptr) AskAnew(*wish);
  }
  former_->leases.clear();
  ReopenLater();
  Arm();
}

std::vector<SessionClient::Lease*> SessionClient::OfFormer() {
  std::vector<Lease*> all;
  for (Lease& lease : moving_) {
    if (lease.former != 0) all.push_back(&lease);
  }
  if (session_ == nullptr) return all;
  for (auto& [id, lease] : session_->leases) {
    if (lease.former != 0) all.push_back(&lease);
  }
  return all;
}

void SessionClient::OnFormerEvent(const v1::SessionEvent& event) {
  if (event.has_heartbeat_ack()) OnFormerAck(event.heartbeat_ack());
  for (Lease* const lease : OfFormer()) {
    if (!event.has_lost() || lease->former != event.id()) continue;
    lease->former = 0;
    const v1::LostReason reason = event.lost().reason();
    if (reason == v1::LOST_REASON_MOVED || reason == v1::LOST_REASON_DRAINED) break;
    EndMoving(*lease, EndedWhy::kLost, static_cast<int>(reason));
    break;
  }
  if (!HasFormer()) LeaveFormer();
}

// Extends what has not arrived in the next session yet.
void SessionClient::OnFormerAck(const v1::HeartbeatAck& ack) {
  Session& former = *former_;
  const auto sent = former.sent.find(ack.seq());
  if (sent == former.sent.end() || (former.acked && ack.seq() <= *former.acked) || LocalTime() >= former.deadline) {
    return;
  }
  former.acked = ack.seq();
  const Duration promised = sent->second + ToDuration(ack.valid_for());
  former.deadline = std::max(former.deadline, promised);
  for (Lease* const lease : OfFormer()) {
    if (LocalTime() >= lease->deadline) continue;
    lease->deadline = std::max(lease->deadline, promised);
    for (const v1::LeaseLimit& limit : ack.limits()) {
      if (limit.acquire_id() == lease->former) lease->deadline = sent->second + ToDuration(limit.valid_for());
    }
    former.heartbeat_due =
        std::min(former.heartbeat_due, LocalTime() + std::max((lease->deadline - LocalTime()) / 2, kLeastPause));
    if (Wish* const wish = Find(lease->wish)) OnBelief(*wish, std::max(lease->deadline, Duration(0)));
  }
}

void SessionClient::OnFormerTimer() {
  if (former_ == nullptr) return;
  if (LocalTime() >= former_->deadline) return CloseFormer();
  if (LocalTime() >= former_->heartbeat_due) SendHeartbeat(*former_);
}

void SessionClient::EndMoving(const Lease& lease, EndedWhy why, int64_t value) {
  const int64_t wish = lease.wish;
  if (Wish* const same = Find(wish)) {
    if (const std::optional<int64_t> id = AcquireOf(*same)) {
      Release(*id, /*lapsed=*/true, 0);
      return End(*id, why, value);
    }
    std::erase_if(moving_, [&](const Lease& one) { return one.wish == wish; });
    OnEnded(*same, why, value);
  }
}

void SessionClient::ReleaseAtFormer(const Lease& lease, bool lapsed) {
  if (lease.former == 0 || former_ == nullptr) return;
  v1::SessionCommand command;
  command.set_id(next_id_++);
  command.mutable_release()->set_acquire_id(lease.former);
  command.mutable_release()->set_lapsed(lapsed);
  Send(*former_, std::move(command));
}

void SessionClient::LeaveFormer() {
  if (former_ == nullptr) return;
  v1::SessionCommand goodbye;
  goodbye.mutable_goodbye();
  Send(*former_, std::move(goodbye));
  former_->ears->Close();
  former_.reset();
}

// Its stream is over, or has been silent for too long: nothing more extends what moves.
void SessionClient::CloseFormer() {
  if (former_ == nullptr) return;
  for (Lease* const lease : OfFormer()) lease->former = 0;
  former_->ears->Close();
  former_->wire->Close(Wire::kClient);
  former_.reset();
}

}  // namespace distlock::sim
