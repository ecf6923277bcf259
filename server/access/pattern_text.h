// SPDX-License-Identifier: Apache-2.0
//
// The texts of a policy: principals in `who`, locks in `locks`. Errors are half a sentence that follows the text.
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "access/policy.h"

namespace distlock::access {

// How the text of a principal of this kind begins: "uid:", "spiffe://".
std::string_view HeadOf(Kind kind);

// A principal or one of the words `authenticated`, `anonymous`, `anyone`; no group.
absl::StatusOr<WhoPattern> ParseWho(std::string_view text);

// "namespace:key", "namespace:prefix*" or "*".
absl::StatusOr<LockPattern> ParseLock(std::string_view text);
// The same, in two parts. ':' is literal in both.
absl::StatusOr<LockPattern> ParseLock(std::string_view ns, std::string_view key);

// As its file would write it: for messages.
std::string Show(const LockPattern& pattern);

// The subject of a service account's token: kServiceAccount, and then NAMESPACE:NAME.
inline constexpr std::string_view kServiceAccount = "system:serviceaccount:";
// Whether a JSON web token of this subject makes its caller jwt:ISSUER|SUBJECT; else NameInPlaceOfJwt says what it is.
bool IsJwtSubject(std::string_view subject);
std::string NameInPlaceOfJwt(std::string_view subject);

// A principal without wildcards, such as `--as` names: nullopt when no caller can have it.
std::optional<Principal> ParsePrincipal(std::string_view text);

// [A-Za-z0-9._-]{1,64}: the name of a static token, and of a rule or a group.
bool IsName(std::string_view text);

// "" and "default" are one namespace.
inline constexpr std::string_view kDefaultNamespace = "default";
inline std::string_view NamespaceOf(std::string_view text) { return text.empty() ? kDefaultNamespace : text; }

}  // namespace distlock::access
