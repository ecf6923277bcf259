// SPDX-License-Identifier: Apache-2.0
//
// What a node does between a new connection and the first command: it prepares the connection, reads the schema's mark,
// and takes the census.
#include <utility>

#include "store/redis/server_node.h"

namespace distlock::store {

void ServerNode::OnLinkConnected() {
  PreparationOptions options{.grant_channel = codec_.grant_channel(),
                             .scripts = scripts_to_load_,
                             .of_cluster = shard_.has_value(),
                             .probe_key = {}};
  if (HasShardChannel()) options.probe_key = codec_.keys().Marker(shard_->other_tag);
  Prepare(link_, options, [this](const absl::StatusOr<Prepared>& prepared) { OnPrepared(prepared); });
}

void ServerNode::OnPrepared(const absl::StatusOr<Prepared>& prepared) {
  if (!prepared.ok()) return link_.Reconnect(prepared.status());
  prepared_ = *prepared;
  if (schema_.on()) return schema_.Begin();
  OnSchemaRead();
}

void ServerNode::OnSchemaRead() {
  if (census_.on()) return census_.Begin(prepared_->identity, prepared_->started, prepared_->time);
  OnCensusReady();
}

void ServerNode::OnSchemaRefused(const absl::Status& why) {
  up_ = false;
  census_.Stop();
  down_cause_ = std::string(why.message());
  link_.Reconnect(why);
}

void ServerNode::OnCensusReady() {
  const Prepared prepared = *std::exchange(prepared_, std::nullopt);
  BecomeUp(prepared);
}

}  // namespace distlock::store
