// SPDX-License-Identifier: Apache-2.0
#include "lock_name.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>

namespace distlock::cli {
namespace {

constexpr char kDefault[] = "default";

}  // namespace

std::string NameOf(const std::string& name_space, const std::string& key) {
  return absl::StrCat(name_space.empty() ? std::string(kDefault) : name_space, ":", key);
}

std::string DefaultNamespace() {
  const char* const named = std::getenv("DISTLOCK_NAMESPACE");
  return named != nullptr && *named != '\0' ? named : kDefault;
}

ReadName ReadLockName(const std::string& text, const std::string& name_space) {
  if (text.empty()) return {{}, "is empty; name the lock, as KEY or NAMESPACE:KEY"};
  if (!name_space.empty()) return {{name_space, text}, ""};
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {{DefaultNamespace(), text}, ""};
  ReadName read{{text.substr(0, colon), text.substr(colon + 1)}, ""};
  if (read.name.name_space.empty() || read.name.key.empty()) {
    const char* const lacks = read.name.name_space.empty() ? "namespace before" : "key behind";
    read.problem = absl::StrCat("'", text, "' has no ", lacks,
                                " its ':'; write NAMESPACE:KEY, or give --namespace and the key as it is");
  }
  return read;
}

std::vector<LockName> OtherReadings(const std::string& text, const LockName& read) {
  std::vector<LockName> others;
  const auto add = [&](LockName name) {
    if (name.key.empty() || name.name_space.empty() || name == read) return;
    if (std::ranges::find(others, name) == others.end()) others.push_back(std::move(name));
  };
  for (const char mark : {':', '/'}) {
    const size_t at = text.find(mark);
    if (at != std::string::npos) add({text.substr(0, at), text.substr(at + 1)});
  }
  add({DefaultNamespace(), text});
  add({kDefault, text});
  return others;
}

}  // namespace distlock::cli
