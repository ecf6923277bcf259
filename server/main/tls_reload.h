// SPDX-License-Identifier: Apache-2.0
//
// The TLS files as a unit of the reloader. Connections go on with what they began with; new ones get what was read
// last.
#pragma once

#include "main/metrics.h"
#include "main/reload.h"
#include "ops/options.h"
#include "rpc/tls.h"

namespace distlock {

// Does nothing without --tls-cert. All arguments outlive the reloader.
void AddTlsUnit(const ops::Options& options, rpc::TlsShelf& shelf, Metrics& metrics, Reloader& reloader);

}  // namespace distlock
