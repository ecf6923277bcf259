// SPDX-License-Identifier: Apache-2.0
//
// The files that say who may call and do what: policy, static tokens, keys of JSON web tokens. Main's thread.
#pragma once

#include "main/reload.h"
#include "ops/options.h"
#include "rpc/authorizer.h"

namespace distlock {

// Adds a unit for each file that the options name. `authorizer` and `options` outlive the reloader.
void AddAccessUnits(const ops::Options& options, rpc::Authorizer& authorizer, Reloader& reloader);

}  // namespace distlock
