// SPDX-License-Identifier: Apache-2.0
//
// The sections that set other lock systems beside ours: two lock libraries of Node.js on the same Redis, and etcd. A
// peer that is not installed or gives no numbers has its rows say so, and fails nothing. Values; main thread.
#pragma once

#include <string>
#include <vector>

#include "bench/rows.h"

namespace distlock::bench {

// Nothing without Setup::peers.
void AppendPeers(const Setup& setup, std::vector<Section>* sections);

// Of those that are installed.
std::string PeerVersions();

}  // namespace distlock::bench
