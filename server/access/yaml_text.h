// SPDX-License-Identifier: Apache-2.0
//
// Reads YAML with errors that name file, line and column, and show nothing of what stands there. Any thread.
#pragma once

#include <yaml-cpp/yaml.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::access {

// A complete message.
class YamlError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class YamlText {
 public:
  explicit YamlText(std::string_view file) : file_(file) {}

  // "file:line:column: this text why".
  std::string Message(const YAML::Node& node, std::string_view why) const;
  // Throws YamlError with that message.
  [[noreturn]] void Fail(const YAML::Node& node, std::string_view why) const;
  // The node must be a map with none but these fields, each at most once.
  void Fields(const YAML::Node& node, std::initializer_list<std::string_view> allowed) const;
  // The node must be a list, or not be there, which is an empty list.
  YAML::Node List(const YAML::Node& node, std::string_view field) const;
  // The node must be a text.
  const std::string& Text(const YAML::Node& node) const;
  static std::string WhyOf(const absl::Status& status);

 private:
  const std::string_view file_;
};

// The one document of `text`, a null when there is none; InvalidArgument when it is not YAML or has several.
absl::StatusOr<YAML::Node> LoadYaml(std::string_view text, std::string_view file);

// `read` may throw YamlError.
template <typename Read>
auto ReadYaml(std::string_view text, std::string_view file, Read read)
    -> absl::StatusOr<decltype(read(std::declval<const YAML::Node&>()))> {
  auto root = LoadYaml(text, file);
  if (!root.ok()) return root.status();
  try {
    return read(*root);
  } catch (const YamlError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace distlock::access
