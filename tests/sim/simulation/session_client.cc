// SPDX-License-Identifier: Apache-2.0
#include "simulation/session_client.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace distlock::sim {
namespace {

constexpr Duration kOpenPatience = seconds(10);
constexpr size_t kRemembered = 64;

}  // namespace

void SessionClient::Start() {
  failures_ = 0;
  leaving_ = false;
  requests_ = PrefixOfRequests();
  ClientProcess::Start();
  Open();
}

void SessionClient::Vanish() {
  if (session_ != nullptr) session_->ears->Close();
  session_.reset();
  CloseFormer();
  moving_.clear();
  ++timer_;
}

void SessionClient::Open() {
  if (session_ != nullptr || leaving_) return;
  if (env_.dice.Chance(0.3)) MoveHome();
  if (!Home().alive() || Home().draining()) MoveOn();
  BrokerProcess& broker = Home();
  if (!broker.alive()) return ReopenLater();
  session_ = std::make_unique<Session>();
  Session& session = *session_;
  session.broker = &broker;
  session.wire = Wire::Connect(env_, *this, broker);
  session.ears = std::make_shared<Ears>(this);
  session.wire->on_closed[Wire::kClient] = [this, wire = session.wire.get()] {
    if (session_ != nullptr && session_->wire.get() == wire) return Broken();
    if (former_ != nullptr && former_->wire.get() == wire) CloseFormer();
  };
  session.wire->Send(Wire::kClient, [&broker, wire = session.wire, ears = session.ears, id = session.id] {
    *id = broker.front().Accept(wire, ears);
  });
  session.sent[0] = LocalTime();
  session.deadline = LocalTime() + kOpenPatience;
  v1::SessionCommand open;
  open.set_id(next_id_++);
  open.mutable_open()->set_client(name());
  open.mutable_open()->set_generation(sessions_++);
  Send(*session_, std::move(open));
  AdoptAll();
  for (auto& [id, wish] : wishes()) {
    if (wish.stage == Stage::kAsking) Ask(wish);
  }
  Arm();
}

void SessionClient::Send(Session& session, v1::SessionCommand command) {
  auto request = std::make_shared<v1::SessionRequest>();
  *request->add_commands() = std::move(command);
  session.wire->Send(Wire::kClient,
                     [broker = session.broker, id = session.id, request] { broker->front().Session(*id, *request); });
}

// ---- The program ----

std::optional<int64_t> SessionClient::AcquireOf(const Wish& wish) const {
  if (session_ == nullptr) return std::nullopt;
  for (const auto& [id, lease] : session_->leases) {
    if (lease.wish == wish.id) return id;
  }
  return std::nullopt;
}

void SessionClient::Ask(Wish& wish) {
  if (session_ == nullptr) return;  // the next session asks
  v1::SessionCommand command;
  command.set_id(next_id_++);
  *command.mutable_acquire()->add_locks() = SpecOf(wish);
  command.mutable_acquire()->set_request_id(requests_ + LabelOf(wish));
  session_->leases[command.id()] = {.wish = wish.id};
  Send(*session_, std::move(command));
}

void SessionClient::GiveUp(Wish& wish) {
  const std::optional<int64_t> id = AcquireOf(wish);
  if (id && session_->leases.at(*id).state == State::kWaiting) {
    v1::SessionCommand command;
    command.mutable_cancel()->set_acquire_id(*id);
    Send(*session_, std::move(command));
  } else if (id) {
    Release(*id, /*lapsed=*/false, 0);
    ReleaseRepeated(session_->leases.at(*id));
  }
  if (id) session_->leases.erase(*id);
  Forget(wish);
}

void SessionClient::GiveBack(Wish& wish) {
  const std::optional<int64_t> id = AcquireOf(wish);
  if (!id) {
    // The next session adopts nothing that is not wanted any more; the ttl ends it.
    for (Lease& lease : moving_) {
      if (lease.wish != wish.id) continue;
      ReleaseAtFormer(lease, /*lapsed=*/false);
      ReleaseRepeated(lease);
    }
    std::erase_if(moving_, [&](const Lease& lease) { return lease.wish == wish.id; });
    return Forget(wish);
  }
  if (session_->leases.at(*id).state == State::kHeld && AsksElsewhere()) return ReleaseElsewhere(*id, wish);
  ReleaseAtFormer(session_->leases.at(*id), /*lapsed=*/false);
  const std::string lease_id = session_->leases.at(*id).lease_id;
  Release(*id, LocalTime() >= session_->leases.at(*id).deadline, wish.id);
  ReleaseRepeated(session_->leases.at(*id));
  if (env_.temper.strays > 0 && env_.dice.Chance(env_.temper.strays)) session_->strays[wish.id] = lease_id;
  session_->leases.erase(*id);
}

void SessionClient::Release(int64_t acquire, bool lapsed, int64_t wish) {
  v1::SessionCommand command;
  command.set_id(next_id_++);
  command.mutable_release()->set_acquire_id(acquire);
  command.mutable_release()->set_lapsed(lapsed);
  if (wish != 0) session_->releases[command.id()] = wish;
  Send(*session_, std::move(command));
}

bool SessionClient::Checks(Wish& wish) {
  const std::optional<int64_t> id = AcquireOf(wish);
  if (!id) {
    return std::any_of(moving_.begin(), moving_.end(),
                       [&](const Lease& lease) { return lease.wish == wish.id && LocalTime() < lease.deadline; });
  }
  if (LocalTime() < session_->leases.at(*id).deadline) return true;
  if (!wish.releasing) End(*id, EndedWhy::kDeadline);
  return false;
}

void SessionClient::Leave() {
  leaving_ = true;
  std::vector<int64_t> all;
  for (const auto& [id, wish] : wishes()) all.push_back(id);
  for (const int64_t id : all) Forget(*Find(id));
  moving_.clear();
  LeaveFormer();
  if (session_ == nullptr) return;
  v1::SessionCommand goodbye;
  goodbye.mutable_goodbye();
  Send(*session_, std::move(goodbye));
}

// ---- session.md ----

void SessionClient::SendHeartbeat(Session& session) {
  session.sent[++session.seq] = LocalTime();
  while (session.sent.size() > kRemembered) session.sent.erase(session.sent.begin());
  session.heartbeat_due = LocalTime() + session.heartbeat_interval;
  v1::SessionCommand command;
  command.mutable_heartbeat()->set_seq(session.seq);
  Send(session, std::move(command));
}

void SessionClient::OnResponse(const Ears* from, const v1::SessionResponse& response) {
  for (const v1::SessionEvent& event : response.events()) {
    if (session_ != nullptr && session_->ears.get() == from) {
      OnEvent(event);
    } else if (former_ != nullptr && former_->ears.get() == from) {
      OnFormerEvent(event);
    }
  }
  Arm();
}

void SessionClient::OnEvent(const v1::SessionEvent& event) {
  if (event.has_opened()) return OnOpened(event.opened());
  if (event.has_granted()) return OnGrant(event.id(), event.granted());
  if (event.has_heartbeat_ack()) return OnAck(event.heartbeat_ack());
  if (event.has_refused()) return OnRefusal(event.id(), event.refused());
  if (event.has_lost()) return OnLoss(event.id(), event.lost());
  if (event.has_released()) return OnRelease(event.id(), event.released());
  if (event.has_draining() && !leaving_ &&
      std::any_of(session_->leases.begin(), session_->leases.end(), [this](auto& one) {
        const Wish* const wish = Find(one.second.wish);
        return wish != nullptr && (wish->moves || (wish->stage == Stage::kAsking && KeepsPlace(*wish)));
      })) {
    MayRetire() ? Retire() : Broken();
  }
}

void SessionClient::OnOpened(const v1::SessionOpened& opened) {
  Session& session = *session_;
  session.validity = ToDuration(opened.validity());
  session.heartbeat_interval = ToDuration(opened.heartbeat_interval());
  session.deadline = session.sent.at(0) + session.validity;
  session.heartbeat_due = session.sent.at(0) + session.heartbeat_interval;
  failures_ = 0;
  if (LocalTime() - session.sent.at(0) > session.validity / 6) SendHeartbeat(*session_);
}

void SessionClient::OnGrant(int64_t id, const v1::Grant& grant) {
  const auto found = session_->leases.find(id);
  if (found == session_->leases.end()) return;
  if (found->second.state == State::kAdopting) return OnAdopted(id, grant);
  found->second.state = State::kGranted;
  found->second.token = static_cast<uint64_t>(grant.fencing_token());
  found->second.lease_id = grant.lease_id();
  const auto sent = session_->sent.find(grant.echo_seq());
  if (sent != session_->sent.end()) SetDeadline(id, sent->second + ToDuration(grant.valid_for()));
}

void SessionClient::OnAck(const v1::HeartbeatAck& ack) {
  Session& session = *session_;
  const auto sent = session.sent.find(ack.seq());
  if (sent == session.sent.end() || (session.acked && ack.seq() <= *session.acked) || LocalTime() >= session.deadline) {
    return;
  }
  session.acked = ack.seq();
  const Duration deadline = sent->second + ToDuration(ack.valid_for());
  session.deadline = std::max(session.deadline, deadline);
  std::map<int64_t, Duration> deadlines;
  for (const auto& [id, lease] : session.leases) {
    if (lease.state == State::kGranted || lease.state == State::kHeld)
      deadlines[id] = std::max(lease.deadline, deadline);
  }
  for (const v1::LeaseLimit& limit : ack.limits()) {
    if (deadlines.contains(limit.acquire_id())) {
      deadlines[limit.acquire_id()] = sent->second + ToDuration(limit.valid_for());
    }
  }
  for (const auto& [id, until] : deadlines) SetDeadline(id, until);
  // A program may move its leases whenever it likes.
  if (!leaving_ && env_.temper.moves > 0 && env_.dice.Chance(env_.temper.elsewhere > 0 ? 0.3 : 0.02) && MayRetire()) {
    MoveHome();
    Retire();
  }
}

void SessionClient::SetDeadline(int64_t id, Duration deadline) {
  const auto found = session_->leases.find(id);
  if (found == session_->leases.end()) return;
  Lease& lease = found->second;
  if (lease.state == State::kHeld && LocalTime() >= lease.deadline) return End(id, EndedWhy::kDeadline);
  lease.deadline = deadline;
  Wish* wish = Find(lease.wish);
  if (lease.state == State::kGranted && LocalTime() < deadline) {
    lease.state = State::kHeld;
    OnGranted(*wish, lease.token);
  }
  if (lease.state == State::kHeld) OnBelief(*wish, std::max(deadline, Duration(0)));
  const Duration half_way = LocalTime() + std::max((deadline - LocalTime()) / 2, kLeastPause);
  session_->heartbeat_due = std::min(session_->heartbeat_due, half_way);
}

void SessionClient::OnRefusal(int64_t id, const v1::Refusal& refusal) {
  if (const auto release = session_->releases.extract(id); !release.empty()) {
    if (Wish* wish = Find(release.mapped())) Forget(*wish);
    return;
  }
  const auto node = session_->leases.extract(id);
  if (node.empty()) return;
  if (node.mapped().state == State::kAdopting) {
    return OnAdoptionRefused(node.mapped(), static_cast<core::RefusalReason>(static_cast<int>(refusal.reason()) - 1));
  }
  if (Wish* wish = Find(node.mapped().wish)) {
    OnRefused(*wish, static_cast<core::RefusalReason>(static_cast<int>(refusal.reason()) - 1));
  }
}

void SessionClient::OnLoss(int64_t id, const v1::LeaseLost& lost) {
  const auto found = session_->leases.find(id);
  if (found == session_->leases.end()) return;
  if (found->second.state == State::kHeld) CheckMove(lost);
  if (found->second.state == State::kHeld) return End(id, EndedWhy::kLost, static_cast<int>(lost.reason()));
  Wish* const wish = Find(found->second.wish);
  session_->leases.erase(found);
  OnRefused(*wish, core::RefusalReason::kLeaseLost);
}

void SessionClient::OnRelease(int64_t id, const v1::LeaseReleased& released) {
  const auto release = session_->releases.extract(id);
  if (release.empty()) return;
  if (const auto stray = session_->strays.extract(release.mapped()); !stray.empty()) Stray(stray.mapped());
  if (Wish* wish = Find(release.mapped())) {
    OnReleased(*wish, released.outcome() == v1::RELEASE_OUTCOME_RELEASED ? core::ReleaseOutcome::kReleased
                                                                         : core::ReleaseOutcome::kAlreadyGone);
  }
}

void SessionClient::End(int64_t id, EndedWhy why, int64_t value) {
  Wish* const wish = Find(session_->leases.at(id).wish);
  ReleaseAtFormer(session_->leases.at(id), why == EndedWhy::kDeadline);
  ReleaseRepeated(session_->leases.at(id));
  session_->leases.erase(id);
  if (why == EndedWhy::kDeadline) Release(id, /*lapsed=*/true, 0);
  if (wish != nullptr) OnEnded(*wish, why, value);
}

void SessionClient::Broken() {
  const std::unique_ptr<Session> session = std::move(session_);
  session->ears->Close();
  session->wire->Close(Wire::kClient);
  for (const auto& [id, wish] : session->releases) {
    if (Wish* same = Find(wish)) Forget(*same);
  }
  for (const auto& [id, lease] : session->leases) {
    Wish* const wish = Find(lease.wish);
    if (wish == nullptr) continue;
    if (IsBelieved(lease) && wish->moves && !wish->releasing && LocalTime() < lease.deadline) {
      moving_.push_back(lease);
      moving_.back().repeated.clear();
    } else if (IsBelieved(lease)) {
      OnEnded(*wish, LocalTime() < lease.deadline ? EndedWhy::kStreamBroke : EndedWhy::kDeadline);
    } else if (!KeepsPlace(*wish)) {
      AskAnew(*wish);
    }
  }
  Arm();
  ReopenLater();
}

void SessionClient::ReopenLater() {
  const Duration bound = milliseconds(20LL << std::min(failures_++, 7));
  PostAfter(env_.dice.Between(Duration(0), bound), [this] { Open(); });
}

void SessionClient::OnTimer() {
  for (Lease& lease : std::vector<Lease>(moving_)) {
    if (LocalTime() < lease.deadline) continue;
    ReleaseAtFormer(lease, /*lapsed=*/true);
    ReleaseRepeated(lease);
    std::erase_if(moving_, [&](const Lease& one) { return one.wish == lease.wish; });
    if (Wish* const wish = Find(lease.wish)) OnEnded(*wish, EndedWhy::kDeadline);
  }
  OnFormerTimer();
  if (session_ == nullptr) return Arm();
  if (LocalTime() >= session_->deadline) return Broken();
  std::vector<int64_t> ended;
  for (const auto& [id, lease] : session_->leases) {
    if (IsBelieved(lease) && LocalTime() >= lease.deadline) ended.push_back(id);
  }
  for (const int64_t id : ended) End(id, EndedWhy::kDeadline);
  if (LocalTime() >= session_->heartbeat_due && !leaving_) SendHeartbeat(*session_);
  Arm();
}

void SessionClient::OnResumed() { OnTimer(); }

void SessionClient::Arm() {
  if (session_ == nullptr && former_ == nullptr && moving_.empty()) return;
  Duration at = Duration::max();
  for (const Lease& lease : moving_) at = std::min(at, lease.deadline);
  if (former_ != nullptr) at = std::min({at, former_->deadline, former_->heartbeat_due});
  if (session_ != nullptr) {
    at = std::min(at, leaving_ ? session_->deadline : std::min(session_->deadline, session_->heartbeat_due));
    for (const auto& [id, lease] : session_->leases) {
      if (IsBelieved(lease)) at = std::min(at, lease.deadline);
    }
  }
  PostAt(at, [this, timer = ++timer_] {
    if (timer == timer_) OnTimer();
  });
}

}  // namespace distlock::sim
