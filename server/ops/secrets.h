// SPDX-License-Identifier: Apache-2.0
//
// Where secrets come from, and how things that contain one are shown. Whatever is logged, printed or served over HTTP
// goes through here first. Pure but for ReadSecretFile; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::ops {

// What somebody gave as a store URL, with *** for passwords and for every part that is not of the form its place asks for:
// it may be a password in the wrong place.
std::string RedactedUrl(std::string_view url);

// What somebody wrote in a place that is not for store URLs: RedactedUrl of it when it looks like one.
std::string RedactedText(std::string_view text);

// Eight hex digits that tell lease ids apart in a log and give away none of them.
std::string Redacted(std::string_view lease_id);

// The file's content without its last line end. An empty, binary-zero or unreadable file is an error that names it.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace distlock::ops
