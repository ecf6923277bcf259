// SPDX-License-Identifier: Apache-2.0
//
// The label of a lock whose program gives none. Any thread.
#pragma once

#include <string>

namespace distlock::internal {

// user@host:pid, valid UTF-8 of at most 256 bytes.
std::string DefaultOwner();

}  // namespace distlock::internal
