// SPDX-License-Identifier: Apache-2.0
//
// Lock libraries of Node.js, each measurement in a child process of its own: peers/peer.mjs. Main thread.
#pragma once

#include <string>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

enum class PeerWork { kPairs, kHandoff, kQueue };

// `library` is one that peer.mjs knows; `callers` is for kPairs. The values are what the script printed; whatever keeps
// it from printing them is in not_run.
Sample NodePeer(const Lab& lab, const std::string& library, PeerWork work, size_t callers = 1);

// Name and installed version of each package of peers/package.json, "" for none.
std::string NodePeerVersions();

}  // namespace distlock::bench
