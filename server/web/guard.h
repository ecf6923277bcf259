// SPDX-License-Identifier: Apache-2.0
//
// Which requests are refused before they are read: those that a web page elsewhere has made a browser send. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/request.h"

namespace distlock::web {

// nullopt: none of these.
// - 421: Host is neither an IP address, nor localhost, nor one of `hosts` (in lower case): the name of a page whose
//   owner lets it point here (DNS rebinding).
// - 403: Origin is not this host, or Sec-Fetch-Site says that a page of another site asks.
// - 415: a body that is no application/json, which pages elsewhere can only send after asking.
std::optional<http::Reply> RefusedAtOnce(const http::Request& request, const std::vector<std::string>& hosts);

}  // namespace distlock::web
