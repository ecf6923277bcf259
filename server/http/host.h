// SPDX-License-Identifier: Apache-2.0
//
// The Host of a request. A page elsewhere can lead its own name to this machine, but not an address or localhost. Pure;
// any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace distlock::http {

// Whether a Host, with or without its port and nothing else around it, is an IP address, localhost or one of `names`,
// which are in lower case.
bool IsHostOf(std::string_view host, const std::vector<std::string>& names);

std::string LowerText(std::string_view text);

}  // namespace distlock::http
