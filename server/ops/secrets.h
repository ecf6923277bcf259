// SPDX-License-Identifier: Apache-2.0
//
// Reads secrets, and masks them in text. Everything that is logged, printed or served over HTTP and may contain a
// secret passes through here. Pure, except ReadSecretFile; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::ops {

// A text that was given as a store URL. Replaces passwords by ***, and also each part that does not have the form
// expected at its place, because it may be a misplaced password.
std::string RedactedUrl(std::string_view url);

// Whether a store URL has a part before its '@' that may be a password.
bool HasPassword(std::string_view url);

// A text that should not be a store URL; masked by RedactedUrl when it looks like one.
std::string RedactedText(std::string_view text);

// Eight hex digits that identify a lease id in a log without revealing it.
std::string Redacted(std::string_view lease_id);

// The file's content without its last line end. The error names the file: no regular file, larger than 4 KiB,
// unreadable, empty, or with a zero byte.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace distlock::ops
