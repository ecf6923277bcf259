// SPDX-License-Identifier: Apache-2.0
//
// A program that uses the C++ library: the production's lock table on simulated streams. Events replace the threads and
// the gRPC of the library's Core: one stream, one write in flight, deadlines, heartbeats, reconnects.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "lock_table.h"
#include "simulation/client_process.h"

namespace distlock::sim {

class LibraryClient : public ClientProcess {
 public:
  LibraryClient(Env& env, int number, Neighbours neighbours);
  ~LibraryClient() override;

  void Start() override;
  void Leave() override;

 private:
  class Ears;
  // One stream, from its start until it is replaced.
  struct Stream {
    WirePtr wire;
    BrokerProcess* broker = nullptr;
    ListenerPtr ears;
    std::shared_ptr<core::SessionId> id = std::make_shared<core::SessionId>(0);
    std::optional<grpc::Status> status;
    bool writing = false;
  };

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Downgrade(Wish& wish) override;
  void Vanish() override;
  bool Checks(Wish& wish) override;
  bool by_heartbeat() const override { return true; }
  bool takes_together() const override { return true; }
  void AskTogether(const std::vector<int64_t>& ids) override;
  size_t most_wishes() const override { return most_wishes_; }

  // The second acquire of a reentrant wish.
  struct Twin {
    internal::RequestPtr request;
    internal::LeasePtr lease;
    bool held = false;
  };

  internal::SpecPtr SpecFor(const Wish& wish) const;
  void OnAnswer(int64_t id, const internal::LeasePtr& lease, const Refusal& refusal);
  void AskTwin(const Wish& wish, const internal::SpecPtr& spec);
  void OnTwin(int64_t id, const internal::LeasePtr& lease);
  void LeaveTwin(int64_t id);
  const std::string& LabelOnWire(int64_t lease_id);

  int64_t Now() const { return LocalTime().count(); }
  void Connect();
  void Flush();
  void OnResponse(const v1::SessionResponse& response);
  void OnStreamOver();
  static void StopListening(Stream& stream);
  void Break(EndCause cause, const char* why, const std::optional<Refusal>& failure);
  void ReconnectLater();
  void OnTimer();
  void Arm();
  void Settle();
  void SyncBeliefs();
  void OnResumed() override;

  const size_t most_wishes_;
  std::unique_ptr<internal::LockTable> table_;
  internal::Effects fx_;
  std::map<int64_t, internal::RequestPtr> requests_;  // by wish, until they are answered
  std::map<int64_t, internal::LeasePtr> leases_;      // by wish, from the grant on
  std::map<int64_t, Twin> twins_;                     // by wish
  std::map<int64_t, int64_t> asked_for_;              // wishes, also ended ones, by the ids of leases in the table
  std::map<int64_t, std::string> labels_;             // by the table's lease id: the last label that was sent
  std::unique_ptr<Stream> stream_;
  int failures_ = 0;
  int64_t reconnect_at_ns_ = 0;
  int64_t armed_ns_ = 0;
  uint64_t timer_ = 0;
  bool settling_ = false;
  bool leaving_ = false;
};

}  // namespace distlock::sim
