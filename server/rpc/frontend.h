// SPDX-License-Identifier: Apache-2.0
//
// The objects that every call works with. Owned by the Server; outlives every reactor. The shards outlive the Server,
// so a sink may post to them after its call has ended. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "acceptor/deaths.h"
#include "contract/limits.h"
#include "rpc/admission.h"
#include "rpc/authorizer.h"
#include "rpc/inside.h"
#include "rpc/known_callers.h"
#include "rpc/listings.h"
#include "shard/shard_set.h"

namespace distlock::rpc {

// Why a stream was closed.
enum class StreamClose {
  kClient,    // the client ended it: Goodbye or half-close
  kBroken,    // cancelled or cut off
  kLapsed,    // no heartbeat
  kOverflow,  // the client did not read
  kDrained,
  kQuota,
  kFinished,  // a Hold whose lease ended or was refused
  kProtocol,  // the client broke the protocol
  kDenied,    // the caller may not open it
  kRevoked,   // it was open when the policy withdrew what it needs, or watched when its caller's proof ended
};

// A ForceRelease and its outcome.
struct ForcedRelease {
  std::string caller;
  core::LockName name;
  std::string holders;  // public ids
  std::string reason;
  std::string outcome;
};

// Gets events of calls that the cores do not report, for metrics. Any thread; must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnStreamClosed(StreamClose why) = 0;
  virtual void OnRefusedHere(core::RefusalReason reason) = 0;
  virtual void OnQueued(uint32_t position) = 0;
  // A session released a lease that it does not hold.
  virtual void OnReleasedNothing() = 0;
  // A ForceRelease was answered; for the audit log.
  virtual void OnForceRelease(const ForcedRelease& /*forced*/) {}
};

struct Frontend {
  Frontend(shard::ShardSet& shards_in, const contract::Limits& limits_in, std::string broker_id_in,
           CallObserver* observer_in, Authorizer& gate_in, access::UnixPeerOf unix_peer_of_in)
      : shards(shards_in),
        limits(limits_in),
        broker_id(std::move(broker_id_in)),
        observer(observer_in),
        admission(limits),
        authorizer(gate_in),
        unix_peer_of(std::move(unix_peer_of_in)) {}

  shard::ShardSet& shards;
  const contract::Limits limits;
  const std::string broker_id;
  CallObserver* const observer;  // may be null
  Admission admission;
  const std::shared_ptr<Listings> listings = std::make_shared<Listings>();  // calls may outlive the frontend
  Authorizer& authorizer;
  const access::UnixPeerOf unix_peer_of;  // in place of what the acceptor knows; may be empty
  Inside inside;
  KnownCallers known_callers;
  std::function<std::string()> store_id;  // of BrokerFacts; may be empty
  std::function<bool()> store_held_off;   // SessionOpened.store_held_off; may be empty
  acceptor::Deaths* deaths = nullptr;     // set before the first call; null: no process is watched

  // For contract::RequestOf.
  std::string OwnerIdentity(const Subject& subject) const { return authorizer.enforces() ? subject.identity() : ""; }
};

}  // namespace distlock::rpc
