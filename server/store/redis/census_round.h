// SPDX-License-Identifier: Apache-2.0
//
// Takes the census of one server, at each preparation and then every second: asks who the server is and what its
// replicas do, writes the marker, has the replicas confirm it where that counts, and keeps the hold-off that follows.
// While the answers of a census are late, who the server is is asked every second all the same, so that a store which
// is only slow does not make what is known too old.
//
// Thread: the loop's. Ownership: the sender, caller and timers outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/node_status.h"
#include "store/redis/census.h"
#include "store/redis/codec.h"
#include "store/redis/script_caller.h"
#include "store/redis/server_identity.h"
#include "store/redis/transport.h"

namespace distlock::store {

class CensusRound {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The first census since Begin has been answered, or refused.
    virtual void OnCensusReady() = 0;
    // There is a hold-off, or another one, or none any more: whoever waits is to look again.
    virtual void OnHoldOffChanged() = 0;
    // A census after the first has ended.
    virtual void OnCensusTaken() = 0;
    // This is not the server that was prepared any more.
    virtual void OnServerLeft(const std::string& cause) = 0;
    virtual void OnCensusRefused(const std::string& cause) = 0;
    virtual void OnCensusWarning(const std::string& warning) = 0;
    // The server has, or had, replicas, which is new.
    virtual void OnReplicated() = 0;
  };
  // Asks the replicas to confirm all that was sent before, and tells how many have. Replaces a plain WAIT.
  using AskReplicas = std::function<void(std::function<void(int confirmed)> done)>;

  // `ttls` as of Census.
  CensusRound(CommandSender* sender, ScriptCaller* scripts, const std::shared_ptr<Timers>& timers,
              const StoreOptions& options, std::shared_ptr<AssertedTtls> ttls, Owner* owner);

  void AskReplicasBy(AskReplicas ask) { ask_replicas_ = std::move(ask); }

  // The connection is ready to be used, and leads to `server`, whose process began at `started` (us = 0: not known) and
  // whose clock has shown `time`. OnCensusReady follows, later, unless Stop comes first.
  // REQUIRES: on().
  void Begin(const ServerIdentity& server, core::StoreTime started, core::StoreTime time);
  // The connection has ended.
  void Stop();
  // The marker and the heartbeat are these keys from the next census on.
  void MarkAt(std::string marker, std::string heartbeat) {
    marker_ = std::move(marker);
    heartbeat_ = std::move(heartbeat);
    census_.OnOtherKeys();
  }
  // So many servers there are, by those who know.
  void Servers(int count) { census_.Servers(count); }

  bool on() const { return census_.on(); }
  const Census& census() const { return census_; }
  const std::vector<ReplicaStatus>& replicas() const { return replicas_; }
  // Why the server did not write the marker last; "": it did.
  const std::string& refusal() const { return refusal_; }

  void OnClockStep(core::Duration by) { census_.OnClockStep(by); }
  // A lease is written with this ttl. It may be longer than what this broker grants now.
  void OnTtl(core::Duration ttl) { census_.OnTtl(ttl, timers_->Now()); }

 private:
  void OnTimer();
  void Ask();
  // `then` takes the answer of the server that was prepared; another one ends the round.
  void AskReplication(std::function<void(const redisReply&)> then);
  // False: it is not the server that was prepared, or does not say.
  bool IsSame(const Answer& answer);
  // Each takes one answer of the round under way.
  void ReadReplication(const redisReply& reply);
  void ReadConfig(const redisReply& reply);
  // Its policy may have been changed since it was prepared.
  void ReadMemory(const redisReply& reply);
  void Judge();
  void Count();
  // `marker`: where it was written.
  void OnCounted(core::Duration own_longest, const std::string& marker, const Answer& answer);
  void TellLost();
  // Each census finds it again; only the first one tells the owner.
  void TellReplicated();
  // Each text once.
  void Warn(const std::string& warning);
  void Confirm();
  void EndRound();
  // Wraps a handler so that it runs only in the round that asked.
  CommandSender::Done InRound(std::function<void(const Answer&)> handler);

  // Const after construction.
  CommandSender* const sender_;
  ScriptCaller* const scripts_;
  Owner* const owner_;
  const std::shared_ptr<Timers> timers_;
  const int wait_replicas_;
  const core::Duration wait_timeout_;
  const core::Duration usual_ttl_;
  const bool warns_of_ttl_;  // the longest ttl stays what it is when the server turns out to be replicated

  std::string marker_;
  std::string heartbeat_;
  Census census_;
  AskReplicas ask_replicas_;
  uint64_t connection_ = 0;  // counts Begin and Stop
  bool ready_ = false;       // OnCensusReady was called
  bool under_way_ = false;   // a round
  bool told_replicated_ = false;
  ServerIdentity server_;
  core::StoreTime started_;
  core::StoreTime time_;  // of its clock, as heard last
  CensusFacts facts_;     // of the round under way
  std::vector<ReplicaStatus> replicas_;
  std::string refusal_;
  core::StoreTime held_off_until_;  // as of the round before
  std::set<std::string> warned_;
  const std::unique_ptr<Timer> timer_;
};

}  // namespace distlock::store
