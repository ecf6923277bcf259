// SPDX-License-Identifier: Apache-2.0
//
// Whether a node's server may be used, and for what: a new connection is prepared, the schema's mark is read, and the
// census is taken, before the first command; mark and census again from time to time. The hold-off is asked for here.
//
// Thread: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/census_round.h"
#include "store/redis/node_context.h"
#include "store/redis/preparation.h"
#include "store/redis/schema_mark.h"

namespace distlock::store {

class ServerChecks : private CensusRound::Owner, private SchemaMark::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Once after each Begin that no Stop follows, unless the next comes: commands can be sent.
    virtual void OnServerFit(const Prepared& prepared) = 0;
    // This connection must not be used, as SchemaMark says it.
    virtual void OnServerUnfit(const absl::Status& why) = 0;
    // As of CensusRound.
    virtual void OnHoldOffChanged() = 0;
    virtual void OnCensusTaken() = 0;
    virtual void OnCensusRefused(const std::string& cause) = 0;
  };

  // `more_scripts`, `ttls`: as of ServerNode.
  ServerChecks(NodeContext& context, const std::vector<const lua::ScriptSource*>& more_scripts,
               std::shared_ptr<AssertedTtls> ttls, Owner* owner);

  void AskReplicasBy(CensusRound::AskReplicas ask) { census_.AskReplicasBy(std::move(ask)); }
  // The link is connected.
  void Begin();
  // The connection has ended.
  void Stop();
  // The node's own keys are at this slot's tag of a Cluster from now on.
  void MarkAt(const std::string& tag);
  // So many servers there are, by those who know: the census counts with it.
  void CountServers(int count) { census_.Servers(count); }
  void OnClockStep(core::Duration by) { census_.OnClockStep(by); }
  // The census hears the ttls of leases: before the command that writes one is sent, and when a renewal is answered.
  void OnSent(const core::StoreCommand& command);
  void OnAnswered(const SentCommand& sent, const core::StoreReply& reply);

  const Census& census() const { return census_.census(); }
  // As Census::Left.
  core::Duration HoldOffLeft() const { return census().Left(context_.clock.ShownBy(context_.timers->Now())); }
  // As core::LockView::held_off.
  core::Duration HeldOffFor() const {
    const core::Duration left = HoldOffLeft();
    return left == core::Duration::max() ? kLookAtOpenEnd : left;
  }
  const std::vector<ReplicaStatus>& replicas() const { return census_.replicas(); }
  // Why the server did not write what the checks wrote last; "": it did.
  const std::string& refusal() const { return census_.on() ? census_.refusal() : schema_.refusal(); }

 private:
  void OnPrepared(const absl::StatusOr<Prepared>& prepared);
  void OnSchemaRead() override;
  void OnSchemaRefused(const absl::Status& why) override { owner_->OnServerUnfit(why); }
  void OnCensusReady() override { owner_->OnServerFit(Prepared(prepared_)); }
  void OnHoldOffChanged() override { owner_->OnHoldOffChanged(); }
  void OnCensusTaken() override { owner_->OnCensusTaken(); }
  void OnServerLeft(const std::string& cause) override { context_.leave_server(cause); }
  void OnCensusRefused(const std::string& cause) override { owner_->OnCensusRefused(cause); }
  void OnCensusWarning(const std::string& warning) override;
  void OnReplicated() override;

  // Const after construction.
  NodeContext& context_;
  Owner* const owner_;
  std::vector<const lua::ScriptSource*> scripts_to_load_;

  Prepared prepared_;  // while the schema's mark or the census is awaited
  SchemaMark schema_;
  CensusRound census_;
};

}  // namespace distlock::store
