// SPDX-License-Identifier: Apache-2.0
//
// The files that say who may call and do what: policy, static tokens, keys of JSON web tokens. Main's thread.
#pragma once

#include "main/reload.h"
#include "ops/options.h"
#include "rpc/gate.h"

namespace distlock {

// Adds a unit for each file that the options name. `gate` and `options` outlive the reloader.
void AddAccessUnits(const ops::Options& options, rpc::Gate& gate, Reloader& reloader);

}  // namespace distlock
