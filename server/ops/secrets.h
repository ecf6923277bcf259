// SPDX-License-Identifier: Apache-2.0
//
// Where secrets come from, and how things that contain one are shown. Whatever is logged, printed or served over HTTP
// goes through here first. Pure but for ReadSecretFile; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::ops {

// A store URL with its passwords replaced by ***; everything before the last '@' counts as one when in doubt.
std::string RedactedUrl(std::string_view url);

// What somebody wrote in a place that is not for URLs: RedactedUrl of it when it looks like one with a password.
std::string RedactedText(std::string_view text);

// Eight hex digits that tell lease ids apart in a log and give away none of them.
std::string Redacted(std::string_view lease_id);

// The file's content without its last line end. An empty, binary-zero or unreadable file is an error that names it.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace distlock::ops
