// SPDX-License-Identifier: Apache-2.0
//
// The output of `-o json`: values whose members keep the order in which they were added, because scripts diff them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace distlock::cli {

using Json = nlohmann::ordered_json;

// Without a line end. Bytes that are not UTF-8, which a command line may hold, become U+FFFD.
inline std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace distlock::cli
