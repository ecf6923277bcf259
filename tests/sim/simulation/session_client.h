// SPDX-License-Identifier: Apache-2.0
//
// A program that speaks Session without the library. It does what the pseudo code of proto/distlock/v1/session.md says,
// under the same names, and nothing more. It moves its leases when a broker drains, when a stream breaks, and at will.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distlock/v1/lock_service.pb.h"
#include "simulation/client_process.h"

namespace distlock::sim {

class SessionClient : public ClientProcess {
 public:
  SessionClient(Env& env, int number, Neighbours neighbours)
      : ClientProcess(env, number, "session client", neighbours) {}

  void Start() override;
  void Leave() override;

 private:
  class Ears : public Listener {
   public:
    explicit Ears(SessionClient* client) : client_(client) {}
    void OnSession(const v1::SessionResponse& response) override {
      if (client_ != nullptr) client_->OnResponse(this, response);
    }
    void Close() { client_ = nullptr; }

   private:
    SessionClient* client_;
  };
  enum class State : uint8_t { kWaiting, kGranted, kHeld, kAdopting };
  struct Lease {
    int64_t wish = 0;
    State state = State::kWaiting;
    uint64_t token = 0;
    Duration deadline{};
    std::string lease_id;
    std::string request_id;  // of the adoption that is not answered
    int64_t former = 0;      // its acquire in the former session, while that extends it
    // The adoptions of this session that were repeated, and count no more.
    std::vector<int64_t> repeated;
  };
  // One session, from Open on.
  struct Session {
    WirePtr wire;
    std::shared_ptr<Ears> ears;
    std::shared_ptr<core::SessionId> id = std::make_shared<core::SessionId>(0);
    BrokerProcess* broker = nullptr;
    std::map<int64_t, Duration> sent;  // by seq
    int64_t seq = 0;
    std::optional<int64_t> acked;
    Duration deadline{};
    Duration validity{};
    Duration heartbeat_interval{};
    Duration heartbeat_due = Duration::max();
    std::map<int64_t, Lease> leases;        // by the id of the acquire
    std::map<int64_t, int64_t> releases;    // wishes, by the id of the release
    std::map<int64_t, std::string> strays;  // lease ids that come again when they have been released, by wish
  };

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Downgrade(Wish& wish) override;
  void Vanish() override;
  bool Checks(Wish& wish) override;
  bool by_heartbeat() const override { return true; }
  bool can_move() const override { return true; }
  bool keeps_place(const Wish&) const override { return true; }
  size_t most_wishes() const override { return 2; }
  void OnResumed() override;

  void Open();
  void Send(Session& session, v1::SessionCommand command);
  void Release(int64_t acquire, bool lapsed, int64_t wish);
  void Stray(const std::string& lease_id);
  bool AsksElsewhere();
  void ReleaseElsewhere(int64_t acquire, Wish& wish);
  void ReleaseById(const std::string& lease_id);
  void DowngradeElsewhere(const std::string& lease_id);
  void LeaveSoon();
  void LosePatienceWithAdoption(int64_t id);
  void AdoptAgain(int64_t id);
  void ReleaseRepeated(Lease& lease);
  void CheckMove(const v1::LeaseLost& lost);
  void SendHeartbeat(Session& session);
  void OnResponse(const Ears* from, const v1::SessionResponse& response);
  void OnEvent(const v1::SessionEvent& event);
  void OnOpened(const v1::SessionOpened& opened);
  void OnGrant(int64_t id, const v1::Grant& grant);
  void OnAck(const v1::HeartbeatAck& ack);
  void OnAdopted(int64_t id, const v1::Grant& grant);
  void OnAdoptionRefused(Lease lease, core::RefusalReason reason);
  void AdoptAll();
  bool MayRetire() const;
  void Retire();
  std::vector<Lease*> OfFormer();
  bool HasFormer() { return !OfFormer().empty(); }
  void OnFormerEvent(const v1::SessionEvent& event);
  void OnFormerAck(const v1::HeartbeatAck& ack);
  void OnFormerTimer();
  void EndMoving(const Lease& lease, EndedWhy why, int64_t value);
  void ReleaseAtFormer(const Lease& lease, bool lapsed);
  void LeaveFormer();
  void CloseFormer();
  void OnRefusal(int64_t id, const v1::Refusal& refusal);
  void OnLoss(int64_t id, const v1::LeaseLost& lost);
  void OnRelease(int64_t id, const v1::LeaseReleased& released);
  void SetDeadline(int64_t id, Duration deadline);
  void End(int64_t id, EndedWhy why, int64_t value = 0);
  void Broken();
  void ReopenLater();
  void OnTimer();
  void Arm();
  std::optional<int64_t> AcquireOf(const Wish& wish) const;
  static bool IsBelieved(const Lease& lease) { return lease.state == State::kHeld || lease.state == State::kAdopting; }

  static constexpr Duration kLeastPause = milliseconds(10);
  static Duration ToDuration(const google::protobuf::Duration& proto) {
    return seconds(proto.seconds()) + std::chrono::nanoseconds(proto.nanos());
  }

  std::unique_ptr<Session> session_;  // null: none
  std::unique_ptr<Session> former_;   // goes on until all that it had has moved; null: none
  std::vector<Lease> moving_;         // believed in, and for the next session to adopt
  int64_t next_id_ = 1;
  int32_t sessions_ = 0;  // opened so far
  int64_t next_request_ = 1;
  std::string requests_;
  uint64_t timer_ = 0;
  int failures_ = 0;
  bool leaving_ = false;
};

}  // namespace distlock::sim
