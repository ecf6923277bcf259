// SPDX-License-Identifier: Apache-2.0
//
// Builds every key and channel name from the prefix and the lock's name; lua/README.md is the schema. An escaped name
// has no brace in it, so it is a safe hash tag. A value; const after construction, any thread. The prefix must not
// contain ":{".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/lock_name.h"
#include "store/text.h"

namespace distlock::store {

class Keys {
 public:
  explicit Keys(std::string prefix) : prefix_(std::move(prefix)) {}

  // The last letter of a key; the keys of one lock differ in nothing else.
  static constexpr char kHolder = 'h', kToken = 't', kQueue = 'q', kWaiters = 'w';

  std::string Holder(const core::LockName& name) const { return Key(name, kHolder); }
  std::string Token(const core::LockName& name) const { return Key(name, kToken); }
  std::string Queue(const core::LockName& name) const { return Key(name, kQueue); }
  std::string Waiters(const core::LockName& name) const { return Key(name, kWaiters); }
  // Since when the server's data are known to have been complete. `tag`, braces included, puts the key into a slot of a
  // Cluster's node; "" where there are no slots.
  std::string Marker(std::string_view tag = "") const { return Cat(prefix_, ":", tag, tag.empty() ? "" : ":", "m"); }
  // When a broker was last here, and what is known of the server whatever became of it. `tag` as of Marker.
  std::string Heartbeat(std::string_view tag = "") const {
    return Cat(prefix_, ":", tag, tag.empty() ? "" : ":", "beat");
  }
  // Which shape the keys have: schema.h. `tag` as of Marker.
  std::string Schema(std::string_view tag = "") const {
    return Cat(prefix_, ":", tag, tag.empty() ? "" : ":", "schema");
  }
  // On one of several independent servers: they were marked as a new quorum a moment ago.
  std::string MembersAreNew() const { return Cat(prefix_, ":set-new"); }
  // On one of several independent servers: which ones belong together.
  std::string Members() const { return Cat(prefix_, ":set"); }
  std::string GrantChannel(std::string_view broker_id, std::string_view tag = "") const {
    return Cat(prefix_, ":grant:", broker_id, tag.empty() ? "" : ":", tag);
  }

  // For SCAN: matches the holder keys of a namespace, of locks whose keys begin with a prefix. Both are escaped
  // already.
  std::string HolderPattern(std::string_view escaped_namespace, std::string_view escaped_key_prefix) const {
    if (escaped_namespace.empty()) return Cat(GlobEscape(prefix_), ":{*}:h");
    return Cat(GlobEscape(prefix_), ":{", GlobEscape(escaped_namespace), "/", GlobEscape(escaped_key_prefix), "*}:h");
  }

  std::optional<core::LockName> NameOfHolder(std::string_view key) const {
    const std::string head = Cat(prefix_, ":{");
    if (!key.starts_with(head) || !key.ends_with("}:h") || key.size() < head.size() + 3) {
      return std::nullopt;
    }
    return core::LockName::FromEscaped(key.substr(head.size(), key.size() - head.size() - 3));
  }

 private:
  std::string Key(const core::LockName& name, char what) const {
    return Cat(prefix_, ":{", name.escaped(), "}:", std::string_view(&what, 1));
  }

  static std::string GlobEscape(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^' || c == '-') out += '\\';
      out += c;
    }
    return out;
  }

  std::string prefix_;
};

}  // namespace distlock::store
