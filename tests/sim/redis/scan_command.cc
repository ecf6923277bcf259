// SPDX-License-Identifier: Apache-2.0
//
// SCAN. A server walks its hash table; the model walks its keys in the order of a hash. The cursor is the hash at which
// the next call goes on. So each complete scan finds every key that exists all the time, as a real server promises.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "redis/glob.h"
#include "redis/server.h"
#include "store/text.h"

namespace distlock::sim::commands {
namespace {

constexpr int64_t kDefaultCount = 10;

struct ScanOptions {
  uint64_t cursor = 0;
  std::string_view pattern = "*";
  int64_t count = kDefaultCount;
};

// FNV-1a. Never 0, which as a cursor means beginning and end. Within 63 bits, because clients may read a cursor into a
// signed number.
uint64_t PlaceOf(std::string_view key) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return std::max<uint64_t>(1, hash >> 1);
}

// When an option is wrong, answers the call with an error.
bool ParseScanOptions(Call& call, ScanOptions& options) {
  const std::string_view cursor = call.arg(1);
  const auto read = std::from_chars(cursor.data(), cursor.data() + cursor.size(), options.cursor);
  if (read.ec != std::errc() || read.ptr != cursor.data() + cursor.size()) {
    call.reply.Error("ERR invalid cursor");
    return false;
  }
  for (size_t i = 2; i < call.argv.size(); i += 2) {
    const bool has_value = i + 1 < call.argv.size();
    if (has_value && SameWord(call.arg(i), "match")) {
      options.pattern = call.arg(i + 1);
    } else if (has_value && SameWord(call.arg(i), "count")) {
      if (!ReadInteger(call, call.arg(i + 1), options.count)) return false;
      if (options.count >= 1) continue;
      call.reply.Error(kSyntax);
      return false;
    } else {
      call.reply.Error(kSyntax);
      return false;
    }
  }
  return true;
}

}  // namespace

void Scan(Call& call) {
  ScanOptions options;
  if (!ParseScanOptions(call, options)) return;
  std::vector<std::pair<uint64_t, std::string>> ahead;
  for (const auto& [key, entry] : call.keys().entries()) {
    const uint64_t place = PlaceOf(key);
    if (place >= options.cursor) ahead.emplace_back(place, key);
  }
  std::sort(ahead.begin(), ahead.end());
  size_t end = std::min(ahead.size(), static_cast<size_t>(options.count));
  // Keys with the same hash must be returned together, since the cursor cannot tell them apart.
  while (end < ahead.size() && ahead[end].first == ahead[end - 1].first) ++end;
  const uint64_t next = end < ahead.size() ? ahead[end].first : 0;
  ahead.resize(end);
  // As in Redis, an expired key is found and deleted only when it matches the pattern.
  std::erase_if(ahead, [&](const auto& one) {
    return !MatchesKey(options.pattern, one.second) || call.keys().Find(one.second) == nullptr;
  });
  call.reply.Array(2);
  call.reply.Bulk(store::Cat(next));
  call.reply.Array(ahead.size());
  for (const auto& [place, key] : ahead) call.reply.Bulk(key);
}

}  // namespace distlock::sim::commands
