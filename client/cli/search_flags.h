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
  std::string name_space;  // after ReadSearch never empty
  bool all_namespaces = false;
  std::string prefix;
  bool all = false;  // ls only: also beyond the first thousand
};

// --namespace, --prefix and -A. A prefix may be NAMESPACE:PREFIX. `args` must outlive the parsing of `command`.
void AddSearchFlags(CLI::App& command, ListArgs& args, const std::string& of_namespace, const std::string& of_prefix);

// After the parsing: puts the namespace in, that of the prefix or the default. Throws CLI::ValidationError.
void ReadSearch(ListArgs& args);

}  // namespace distlock::cli
