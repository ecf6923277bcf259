// SPDX-License-Identifier: Apache-2.0
//
// The sections that compare distlock with other lock systems: two lock libraries of Node.js on the same Redis, and
// etcd. When a peer is not installed or gives no numbers, its rows say so, and the bench does not fail. Values; main
// thread.
#pragma once

#include <string>
#include <vector>

#include "bench/rows.h"

namespace distlock::bench {

// Adds nothing without Setup::peers.
void AppendPeers(const Setup& setup, std::vector<Section>* sections);

// The versions of the installed peers.
std::string PeerVersions();

}  // namespace distlock::bench
