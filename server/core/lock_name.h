// SPDX-License-Identifier: Apache-2.0
//
// The name of a lock, (namespace, key), in the one escaped form that the whole daemon and the store use. User keys are
// hostile: `{`, `}`, `%`, control bytes, and `/` inside the namespace are written %XX, so that the form is a safe hash
// tag, has one line, and splits at its first `/`.
//
// A value; safe on any thread. Encode and Decode are exact inverses for all byte strings.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace distlock::core {

class LockName {
 public:
  LockName() = default;  // no lock

  // `ns` must not be empty; the caller has put the default in.
  static LockName Encode(std::string_view ns, std::string_view key);

  // From the escaped form; nullopt when Encode cannot have made it.
  static std::optional<LockName> FromEscaped(std::string_view escaped);

  const std::string& escaped() const { return escaped_; }
  bool empty() const { return escaped_.empty(); }

  // The namespace and key as the user wrote them. Must not be empty().
  std::pair<std::string, std::string> Decode() const;

  friend bool operator==(const LockName&, const LockName&) = default;
  friend auto operator<=>(const LockName&, const LockName&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const LockName& name) {
    return H::combine(std::move(h), name.escaped_);
  }

 private:
  explicit LockName(std::string escaped) : escaped_(std::move(escaped)) {}
  std::string escaped_;
};

// The escaped form of a key prefix, for searching names by prefix.
std::string EscapeKey(std::string_view key);
std::string EscapeNamespace(std::string_view ns);

}  // namespace distlock::core
