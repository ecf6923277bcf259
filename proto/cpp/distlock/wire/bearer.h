// SPDX-License-Identifier: Apache-2.0
//
// The bearer token that a client shows to its broker: the content of a file, which the program or DISTLOCK_TOKEN_FILE
// names. It is read anew for each call, because whoever issues tokens replaces the file before the old one expires. Any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace distlock::wire {

inline constexpr char kTokenFileVariable[] = "DISTLOCK_TOKEN_FILE";
inline constexpr char kAuthorization[] = "authorization";

// The value of `authorization` for a call to `address`, a gRPC target or tls://host:port, from `file` ("": the one that
// the variable names). nullopt: none is named, the file has no token that can be sent (the broker then says what it
// misses), or the token would leave this machine in plain text.
std::optional<std::string> BearerFor(std::string_view address, const std::string& file = "");

// "Bearer " and the token in the file at `path`, without the white space around it.
std::optional<std::string> ReadBearer(const std::string& path);

// Why `file`, or the one that the variable names, holds no token to show, in one line: it cannot be read, has two
// lines, or holds the broker's line, with a hash. "": it holds one, none is named, or none of the addresses (with
// commas between them) is shown a token.
std::string TokenFileProblem(std::string_view addresses, const std::string& file = "");

// Bytes for this address stay on this machine.
bool StaysHere(std::string_view address);

}  // namespace distlock::wire
