// SPDX-License-Identifier: Apache-2.0
#include "exhaustive/setting.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace distlock::sim {
namespace {

constexpr const char* kVerbs[] = {"acquire", "release", "cancel",  "break", "reconnect", "run",  "reply",
                                  "lose",    "late",    "connect", "hear",  "miss",      "pass", "leap"};

bool OfNobody(Verb verb) { return verb == Verb::kPass || verb == Verb::kLeap; }

}  // namespace

std::string PathText(const Path& path) {
  std::string text;
  for (const Action& action : path) {
    if (!text.empty()) text += ", ";
    text += kVerbs[static_cast<size_t>(action.verb)];
    if (!OfNobody(action.verb)) text += " " + std::to_string(action.who);
  }
  return text;
}

std::optional<Path> ReadPath(const std::string& text) {
  Path path;
  std::string spaced = text;
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  std::istringstream words(spaced);
  for (std::string word; words >> word;) {
    const auto found = std::find(std::begin(kVerbs), std::end(kVerbs), word);
    if (found == std::end(kVerbs)) return std::nullopt;
    Action action{static_cast<Verb>(found - std::begin(kVerbs)), 0};
    unsigned who = 0;
    if (!OfNobody(action.verb) && !(words >> who)) return std::nullopt;
    action.who = static_cast<uint8_t>(who);
    path.push_back(action);
  }
  return path;
}

}  // namespace distlock::sim
