// SPDX-License-Identifier: Apache-2.0
//
// Lock libraries of Node.js, each measurement in a child process of its own: peers/peer.mjs. Main thread.
#pragma once

#include <string>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

enum class PeerWork { kPairs, kHandoff, kQueue };

// `library`: a name that peer.mjs knows; `callers`: for kPairs. The values are those that the script printed; if it
// printed none, not_run has the reason.
Sample NodePeer(const Lab& lab, const std::string& library, PeerWork work, size_t callers = 1);

// Name and installed version of each package of peers/package.json, "" for none.
std::string NodePeerVersions();

}  // namespace distlock::bench
