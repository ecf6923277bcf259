// SPDX-License-Identifier: Apache-2.0
//
// --http-api: the HTTP face before the gRPC server. Called at start, by main's thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "ops/options.h"
#include "rpc/server.h"
#include "web/api.h"

namespace distlock {

// nullptr: it is off. It must end before `server` does; better after it has stopped, so that it can tell how each call
// has ended.
absl::StatusOr<std::unique_ptr<web::Api>> StartHttpFace(const ops::Options& options, rpc::Server& server);

}  // namespace distlock
