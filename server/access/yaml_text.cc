// SPDX-License-Identifier: Apache-2.0
#include "access/yaml_text.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;

constexpr size_t kMostNesting = 32;

// Errors do not show the text that is wrong: a file of secrets may be given by mistake, and messages go into logs.
std::string_view KindOf(const YAML::Node& node) {
  if (node.IsScalar()) return "this text";
  return node.IsMap() ? "this map" : node.IsSequence() ? "this list" : "this value";
}

// Behind the colon yaml-cpp repeats what it has found.
std::string_view WithoutContent(std::string_view message) { return message.substr(0, message.find(':')); }

struct TooDeep : std::exception {};

// Counts documents, and refuses what is nested deeper than any file of ours, before the library builds a tree of it.
class Shape final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Enter();
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Enter();
  }
  void OnMapEnd() override { --depth_; }

 private:
  void Enter() {
    if (++depth_ > kMostNesting) throw TooDeep();
  }
  size_t depth_ = 0;
};

}  // namespace

std::string YamlText::Message(const YAML::Node& node, std::string_view why) const {
  const YAML::Mark mark = node.Mark();
  return Cat(file_, ":", std::max(mark.line, 0) + 1, ":", std::max(mark.column, 0) + 1, ": ", KindOf(node), " ", why);
}

void YamlText::Fail(const YAML::Node& node, std::string_view why) const { throw YamlError(Message(node, why)); }

void YamlText::Fields(const YAML::Node& node, std::initializer_list<std::string_view> allowed) const {
  std::string names;
  for (const std::string_view name : allowed) names += Cat(names.empty() ? "" : ", ", name);
  if (!node.IsMap()) Fail(node, Cat("is no map; its fields are ", names));
  std::set<std::string> seen;
  for (const auto& field : node) {
    const std::string& name = Text(field.first);
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      Fail(field.first, Cat("is no field here; there are ", names));
    }
    if (!seen.insert(name).second) Fail(field.first, "is given twice");
  }
}

YAML::Node YamlText::List(const YAML::Node& node, std::string_view field) const {
  if (!node.IsDefined()) return YAML::Node(YAML::NodeType::Sequence);
  if (!node.IsSequence()) Fail(node, Cat("is no list; write ", field, " as [one, another]"));
  return node;
}

const std::string& YamlText::Text(const YAML::Node& node) const {
  if (!node.IsScalar()) Fail(node, "is no text");
  return node.Scalar();
}

std::string YamlText::WhyOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

absl::StatusOr<YAML::Node> LoadYaml(std::string_view text, std::string_view file) {
  const auto bad = [file](const YAML::Mark& mark, std::string_view why) {
    return absl::InvalidArgumentError(
        Cat(file, ":", std::max(mark.line, 0) + 1, ":", std::max(mark.column, 0) + 1, ": ", why));
  };
  try {
    // Not YAML::LoadAll: after a malformed document it adds empty documents until memory is exhausted.
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    Shape shape;
    if (parser.HandleNextDocument(shape) && parser.HandleNextDocument(shape)) {
      return bad({}, "holds more than one YAML document; keep one");
    }
    return YAML::Load(std::string(text));
  } catch (const TooDeep&) {
    return bad({}, "is nested too deeply");
  } catch (const YAML::Exception& error) {
    return bad(error.mark, Cat("is not YAML: ", WithoutContent(error.msg)));
  }
}

}  // namespace distlock::access
