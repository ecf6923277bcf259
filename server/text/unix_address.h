// SPDX-License-Identifier: Apache-2.0
//
// A unix socket to listen on, as text: unix:///path or unix:///path?mode=0660&group=locks. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "text/text.h"

namespace distlock::text {

struct UnixAddress {
  std::string path;
  unsigned mode = 0660;  // of the socket's file: who may connect
  std::string group;     // of the socket's file, by name or number; "": the process's own
  std::string problem;   // "": none. Else what is wrong and what to write instead; the rest is then of no use
};

inline bool IsUnixAddress(std::string_view address) { return address.starts_with("unix:"); }

namespace unix_address {

inline std::string SetMode(std::string_view value, UnixAddress& address) {
  const bool is_octal = value.size() >= 3 && value.size() <= 4 && value.find_first_not_of("01234567") == value.npos;
  address.mode = 0;
  for (const char digit : value) address.mode = address.mode * 8 + static_cast<unsigned>(digit - '0');
  if (is_octal && address.mode <= 0777 && (address.mode & 0600) == 0600) return "";
  return Cat("has mode=", value, ": write four octal digits that let the owner read and write, such as mode=0660");
}

}  // namespace unix_address

// Parses an address that IsUnixAddress. The path is not checked.
inline UnixAddress ParseUnixAddress(std::string_view text) {
  UnixAddress address;
  text.remove_prefix(std::string_view("unix:").size());
  if (text.starts_with("//")) text.remove_prefix(2);
  const size_t query = text.find('?');
  address.path = std::string(text.substr(0, query));
  if (query == text.npos) return address;
  for (const std::string_view part : Split(text.substr(query + 1), "&")) {
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = equals == part.npos ? "" : part.substr(equals + 1);
    if (name == "mode") {
      address.problem = unix_address::SetMode(value, address);
    } else if (name == "group" && !value.empty()) {
      address.group = std::string(value);
    } else {
      address.problem =
          "has after its '?' something else than mode= and group=: write unix:///path?mode=0660&group=NAME";
    }
    if (!address.problem.empty()) break;
  }
  return address;
}

}  // namespace distlock::text
