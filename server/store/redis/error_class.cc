// SPDX-License-Identifier: Apache-2.0
#include "store/redis/error_class.h"

#include <algorithm>

#include "store/text.h"

namespace distlock::store {
namespace {

struct Code {
  std::string_view word;
  ErrorClass meaning;
  bool also_in_script;  // true: nothing was written even when a script reports it
};

constexpr Code kCodes[] = {
    {"NOSCRIPT", ErrorClass::kNoScript, false},
    {"READONLY", ErrorClass::kWrongServer, true},
    {"MASTERDOWN", ErrorClass::kWrongServer, true},
    {"LOADING", ErrorClass::kUnavailable, false},
    {"BUSY", ErrorClass::kUnavailable, false},
    {"NOREPLICAS", ErrorClass::kUnavailable, true},
    {"MISCONF", ErrorClass::kUnavailable, true},
    {"CLUSTERDOWN", ErrorClass::kUnavailable, false},
    {"MOVED", ErrorClass::kUnavailable, false},
    {"ASK", ErrorClass::kUnavailable, false},
    {"TRYAGAIN", ErrorClass::kUnavailable, false},
    {"CROSSSLOT", ErrorClass::kUnavailable, false},
    {"OOM", ErrorClass::kFull, true},
    {"NOAUTH", ErrorClass::kDenied, false},
    {"WRONGPASS", ErrorClass::kDenied, false},
    {"NOPERM", ErrorClass::kDenied, false},
};

std::string_view FirstWord(std::string_view text) {
  const size_t end = text.find_first_of(" \r\n");
  return text.substr(0, end);
}

}  // namespace

ErrorClass ClassifyError(std::string_view text) {
  bool in_script = Contains(text, "script: ") || Contains(text, "in script");
  // Redis 6 writes "ERR Error running script (call to f_<sha>): @user_script:12: -OOM command not allowed ...", and
  // redis.pcall returns "@user_script: 12: -...".
  if (text.starts_with("ERR Error running script") || text.starts_with("@user_script:")) {
    in_script = true;
    const size_t inner = text.find(": -");
    if (inner == std::string_view::npos) return ErrorClass::kUnknown;
    text = text.substr(inner + 3);
  }
  if (text.starts_with("ERR max number of clients")) return ErrorClass::kUnavailable;
  const std::string_view word = FirstWord(text);
  const auto* code = std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& c) { return c.word == word; });
  if (code == std::end(kCodes) || (in_script && !code->also_in_script)) return ErrorClass::kUnknown;
  return code->meaning;
}

bool IsRedirect(std::string_view text) {
  const std::string_view word = FirstWord(text);
  return word == "MOVED" || word == "ASK" || word == "TRYAGAIN" || word == "CLUSTERDOWN";
}

std::string_view RefusalText(std::string_view error) {
  if (IsRedirect(error) && !error.starts_with("CLUSTERDOWN")) return "";
  return error.substr(0, error.find(" script: "));
}

bool IsNonLocalKey(std::string_view text) { return Contains(text, "non local key"); }

bool NeedsNewConnection(std::string_view text) {
  return ClassifyError(text) == ErrorClass::kWrongServer || text.starts_with("NOAUTH");
}

}  // namespace distlock::store
