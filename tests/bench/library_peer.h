// SPDX-License-Identifier: Apache-2.0
//
// Lock libraries, other people's and this project's packages: each measurement in a child process of its own, a program
// in the library's language that does the works below. Main thread.
#pragma once

#include <string>
#include <vector>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

enum class PeerWork { kPairs, kHandoff, kQueue };

struct Library {
  std::string name;      // of its rows
  std::string language;  // names the program
  std::string system;    // what the program calls it
  bool only_pairs = false;
  std::string beside;       // the library of this language that its row is compared with; "" = none
  bool has_quorum = false;  // it can keep a lock at several servers
};

// In the order of the report.
const std::vector<Library>& Libraries();

// Of a lock at all servers of the lab. `callers`: for kPairs. The values are those that the program printed; if it
// printed none, not_run has the reason.
Sample LibraryPeer(const Lab& lab, const Library& library, PeerWork work, size_t callers = 1);

// Name and version of each library whose version is pinned here; "" for none.
std::string LibraryVersions();

}  // namespace distlock::bench
