// SPDX-License-Identifier: Apache-2.0
#include "flag_words.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cctype>

namespace distlock::cli {
namespace {

struct FlagWord {
  const char* field;
  const char* flag;
};

// The last name of a field's path.
constexpr FlagWord kFlagWords[] = {
    {"namespace", "--namespace"},
    {"key", "KEY"},
    {"key_prefix", "--prefix"},
    {"limit", "--limit"},
    {"permits", "--permits"},
    {"max_wait", "-w"},
    {"max_hold", "--max-hold"},
    {"ttl", "--ttl"},
    {"lock_delay", "--lock-delay"},
    {"policy", "--policy"},
    {"owner", "--owner"},
    {"metadata", "--metadata"},
    {"min_hold", "--once-per"},
    {"request_id", "--request-id"},
    {"resume", "--resume"},
    {"lease_id", "LEASE_ID"},
    {"fencing_token", "TOKEN"},
    {"holder_id", "--holder-id"},
    {"reason", "--reason"},
    {"timeout", "--timeout"},
    {"all_brokers_stopped", "--all-brokers-stopped"},
    {"to", "--to"},
    {"locks", "-k"},
};

std::string_view FlagOf(std::string_view field) {
  const auto* known = std::ranges::find_if(kFlagWords, [&](const FlagWord& word) { return word.field == field; });
  return known == std::end(kFlagWords) ? std::string_view() : known->flag;
}

// "acquire.locks[1].key" -> "-k": the first lock is KEY, others come from -k.
std::string FlagOfPath(const std::string& path) {
  const size_t dot = path.rfind('.');
  std::string_view last = std::string_view(path).substr(dot == std::string::npos ? 0 : dot + 1);
  last = last.substr(0, last.find('['));
  const size_t index = path.find('[');
  const bool first = index == std::string::npos || path.compare(index, 3, "[0]") == 0;
  if (last == "key" && !first) return "-k";
  const std::string_view flag = FlagOf(last);
  return flag.empty() ? path : std::string(flag);
}

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Only whole words with "_" in them: the others are words of English, or part of somebody's key or label.
std::string WithoutFieldNames(std::string_view text) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    size_t end = i;
    while (end < text.size() && IsNameCharacter(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    const bool starts = i == 0 || text[i - 1] == ' ' || text[i - 1] == '(';
    const bool ends = end == text.size() || std::string_view(" ,;:.)").find(text[end]) != std::string_view::npos;
    const std::string_view flag = starts && ends && word.find('_') != std::string_view::npos ? FlagOf(word) : "";
    out += flag.empty() ? word : flag;
    if (end < text.size()) out += text[end++];
    i = end;
  }
  return out;
}

}  // namespace

void SpeakOfFlags(Failure& failure) {
  failure.message = WithoutFieldNames(failure.message);
  if (failure.fields.empty()) return;
  failure.message.clear();
  for (auto& [field, problem] : failure.fields) {
    field = FlagOfPath(field);
    problem = WithoutFieldNames(problem);
    absl::StrAppend(&failure.message, failure.message.empty() ? "" : "; ", field, " ", problem);
  }
}

}  // namespace distlock::cli
