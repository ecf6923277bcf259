// SPDX-License-Identifier: Apache-2.0
//
// The name of a lock as every command takes it and every output prints it: NAMESPACE:KEY, or the bare KEY of the
// namespace that --namespace or DISTLOCK_NAMESPACE names. Pure but for the environment; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace distlock::cli {

struct LockName {
  std::string name_space;
  std::string key;

  bool operator==(const LockName&) const = default;
};

// "shop:order/7".
std::string NameOf(const std::string& name_space, const std::string& key);

// DISTLOCK_NAMESPACE, else "default".
std::string DefaultNamespace();

// A lock as a word on the command line names it. With `name_space`, that of --namespace, all of the text is the key;
// else the text before its first ':' is the namespace. `problem`: why it is no name, as it stands behind the word that
// gave it.
struct ReadName {
  LockName name;
  std::string problem;
};
ReadName ReadLockName(const std::string& text, const std::string& name_space);

// Other locks that the same text may have meant: with its first '/' or ':' between namespace and key, or as a key of
// the default namespace that has a ':' in it.
std::vector<LockName> OtherReadings(const std::string& text, const LockName& read);

}  // namespace distlock::cli
