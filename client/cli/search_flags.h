// SPDX-License-Identifier: Apache-2.0
//
// The flags that say which locks to look at; ls and watch share them.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace distlock::cli {

struct ListArgs {
  std::string name_space;
  bool all_namespaces = false;
  std::string prefix;
  bool all = false;  // ls only: also beyond the first thousand
};

// --namespace, --prefix and -A. `args` must outlive the parsing of `command`.
void AddSearchFlags(CLI::App& command, ListArgs& args, const std::string& of_namespace, const std::string& of_prefix);

}  // namespace distlock::cli
