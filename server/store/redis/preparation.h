// SPDX-License-Identifier: Apache-2.0
//
// Prepares a new command connection: judges the server's fitness, loads the scripts, reads the server's clock, and
// publishes one empty notice to this broker's own channel, which shows whether it may and whether the server knows the
// subscription. One pipeline, one round trip. Thread: the loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types.h"
#include "lua/scripts_data.h"
#include "store/redis/link.h"
#include "store/redis/server_identity.h"

namespace distlock::store {

struct Prepared {
  core::StoreTime time;  // read after `sent` and before `received`
  core::Instant sent{};
  core::Instant received{};
  ServerIdentity identity;
  core::StoreTime started;            // when its process began, by its clock and to the second; us = 0: not known
  int64_t listeners = 0;              // subscribers of our channel, as PUBLISH counts them
  std::string no_shard_channels;      // why scripts cannot send to the shard's channel; "": they can
  std::vector<std::string> warnings;  // of locks that a restart forgets
};

// TIME answers with seconds and microseconds.
absl::StatusOr<core::StoreTime> ReadTime(const redisReply& reply);

struct PreparationOptions {
  std::string grant_channel;
  std::vector<const lua::ScriptSource*> scripts;  // to load
  bool of_cluster = false;
  std::string probe_key;  // not "": the channel is a shard's, and scripts are tried that have this key
};

// `done` runs once, or never when the connection is lost first: then the link tells its owner.
void Prepare(Link& link, const PreparationOptions& options, std::function<void(absl::StatusOr<Prepared>)> done);

}  // namespace distlock::store
