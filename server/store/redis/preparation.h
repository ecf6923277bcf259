// SPDX-License-Identifier: Apache-2.0
//
// What every new command connection goes through before the first command: the server's fitness, all scripts loaded,
// its clock read, and one empty notice published to ourselves: may we, and does the server know our subscription? One
// pipeline, one round trip. Thread: the loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types.h"
#include "store/redis/link.h"
#include "store/redis/server_identity.h"

namespace distlock::store {

struct Prepared {
  core::StoreTime time;
  ServerIdentity identity;
  int64_t listeners = 0;  // subscribers of our channel, as PUBLISH counts them
  std::vector<std::string> warnings;
};

// `done` runs once, unless the connection is lost first: then the link has told its owner.
void Prepare(Link& link, const std::string& grant_channel, std::function<void(absl::StatusOr<Prepared>)> done);

}  // namespace distlock::store
