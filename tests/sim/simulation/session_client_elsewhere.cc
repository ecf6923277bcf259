// SPDX-License-Identifier: Apache-2.0
//
// A session client's questions about its leases by their lease_ids, through any broker: also one that does not have the
// stream, late, and again.
#include <utility>

#include "simulation/session_client.h"

namespace distlock::sim {
namespace {

constexpr Duration kCallPatience = seconds(2);

// Hears whether a broker has downgraded a lease that it must not.
class Downgrader : public Listener {
 public:
  Downgrader(Env& env, std::string wrong) : env_(env), wrong_(std::move(wrong)) {}
  void OnDowngraded() override {
    if (!wrong_.empty()) env_.Fail(wrong_);
  }

 private:
  Env& env_;
  const std::string wrong_;
};

struct Releaser : Listener {
  void OnReleased(core::ReleaseOutcome /*outcome*/) override { answered = true; }
  bool answered = false;
};

}  // namespace

bool SessionClient::AsksElsewhere() { return env_.temper.elsewhere > 0 && env_.dice.Chance(env_.temper.elsewhere); }

// A release or a renewal that comes when the lease has been released, through any broker: whoever has the lock by then
// must not feel anything of it.
void SessionClient::Stray(const std::string& lease_id) {
  BrokerProcess* const broker = LiveBroker();
  if (broker == nullptr) return;
  const WirePtr wire = Wire::Connect(env_, *this, *broker);
  const bool renews = env_.dice.Chance(0.3);
  wire->Send(Wire::kClient, [broker, wire, renews, lease_id] {
    Front& front = broker->front();
    const core::SessionId call = front.Accept(wire, std::make_shared<Listener>());
    renews ? front.Renew(call, lease_id) : front.Release(call, lease_id);
  });
  PostAfter(kCallPatience, [wire] { wire->Close(Wire::kClient); });
}

// The broker that has the lease learns of it from the store, and goes on with the stream meanwhile. The other one may
// have asked a primary that is none any more, so the stream's is asked in the end.
void SessionClient::ReleaseElsewhere(int64_t acquire, Wish& wish) {
  const std::string lease_id = session_->leases.at(acquire).lease_id;
  session_->leases.erase(acquire);
  env_.history.leases[static_cast<size_t>(wish.lease)].released_elsewhere = true;
  ReleaseById(lease_id);
  const Duration later = env_.dice.Between(Duration(0), env_.dice.Chance(0.6) ? seconds(4) : seconds(15));
  PostAfter(later, [this, lease_id, wire = session_->wire] {
    if (session_ == nullptr || session_->wire != wire || leaving_) return;
    v1::SessionCommand command;
    command.set_id(next_id_++);
    command.mutable_release()->set_lease_id(lease_id);
    Send(*session_, std::move(command));
  });
  LeaveSoon();
  Forget(wish);
}

// Until a broker has answered. Sometimes another copy is under way at the same time.
void SessionClient::ReleaseById(const std::string& lease_id) {
  const auto ears = std::make_shared<Releaser>();
  for (int copies = env_.dice.Chance(0.3) ? 2 : 1; copies > 0; --copies) {
    BrokerProcess* const broker = LiveBroker();
    if (broker == nullptr) break;
    const WirePtr wire = Wire::Connect(env_, *this, *broker);
    wire->Send(Wire::kClient, [broker, wire, lease_id, ears] {
      broker->front().Release(broker->front().Accept(wire, ears), lease_id);
    });
    PostAfter(kCallPatience, [wire] { wire->Close(Wire::kClient); });
  }
  PostAfter(kCallPatience, [this, lease_id, ears] {
    if (!ears->answered) ReleaseById(lease_id);
  });
}

// Goodbye gives back what the session has, as far as its broker knows.
void SessionClient::LeaveSoon() {
  PostAfter(env_.dice.Between(Duration(0), seconds(8)), [this, wire = session_->wire] {
    if (session_ == nullptr || session_->wire != wire || leaving_ || former_ != nullptr) return;
    if (!session_->leases.empty() || !session_->releases.empty()) return;
    v1::SessionCommand goodbye;
    goodbye.mutable_goodbye();
    Send(*session_, std::move(goodbye));
    session_->ears->Close();
    session_.reset();
    ReopenLater();
  });
}

// The lease does not move any more: an adoption would have to name its mode.
void SessionClient::Downgrade(Wish& wish) {
  const std::optional<int64_t> id = AcquireOf(wish);
  if (env_.temper.elsewhere == 0 || !id || session_->leases.at(*id).state != State::kHeld) return;
  wish.moves = false;
  if (AsksElsewhere()) return DowngradeElsewhere(session_->leases.at(*id).lease_id);
  v1::SessionCommand command;
  command.set_id(next_id_++);
  command.mutable_downgrade()->set_acquire_id(*id);
  Send(*session_, std::move(command));
}

void SessionClient::DowngradeElsewhere(const std::string& lease_id) {
  BrokerProcess* const broker = LiveBroker();
  if (broker == nullptr) return;
  const WirePtr wire = Wire::Connect(env_, *this, *broker);
  const bool has_it = broker == session_->broker && session_->wire->open_at(Wire::kServer);
  const auto ears = std::make_shared<Downgrader>(
      env_,
      has_it ? "" : broker->name() + " has downgraded a lease of " + name() + ", whose stream another broker has");
  wire->Send(Wire::kClient, [broker, wire, ears, lease_id] {
    broker->front().Downgrade(broker->front().Accept(wire, ears), lease_id);
  });
  PostAfter(kCallPatience, [wire] { wire->Close(Wire::kClient); });
}

// Then it asks again, or another session does, maybe at another broker, while the first command may be on its way to
// the store.
void SessionClient::LosePatienceWithAdoption(int64_t id) {
  if (env_.temper.elsewhere == 0 || !env_.dice.Chance(0.5)) return;
  PostAfter(env_.dice.Between(milliseconds(1), milliseconds(500)), [this, id, wire = session_->wire] {
    if (session_ == nullptr || session_->wire != wire || leaving_) return;
    const auto lease = session_->leases.find(id);
    if (lease == session_->leases.end() || lease->second.state != State::kAdopting) return;
    if (env_.dice.Chance(0.3)) return AdoptAgain(id);
    MoveHome();
    Broken();
  });
}

// Where the store forgets nothing, only another adoption moves a lease, and the last one that was asked for is ours.
void SessionClient::CheckMove(const v1::LeaseLost& lost) {
  if (lost.reason() != v1::LOST_REASON_MOVED || env_.temper.forgets) return;
  env_.Fail(name() + " hears that a lease has moved which it has asked nobody else to adopt");
}

}  // namespace distlock::sim
