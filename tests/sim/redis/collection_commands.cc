// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "redis/server.h"
#include "store/text.h"

namespace distlock::sim::commands {
namespace {

bool ReadScore(std::string_view text, double& score) {
  const std::string copy(text);
  char* end = nullptr;
  score = std::strtod(copy.c_str(), &end);
  return !copy.empty() && copy.front() != ' ' && end == copy.c_str() + copy.size() && !std::isnan(score);
}

// One end of a range of scores; "(" before it excludes it.
struct Bound {
  double score = 0;
  bool exclusive = false;
};
bool ReadBound(std::string_view text, Bound& bound) {
  bound.exclusive = !text.empty() && text.front() == '(';
  return ReadScore(text.substr(bound.exclusive ? 1 : 0), bound.score);
}

std::string ScoreText(double score) {
  if (std::isinf(score)) return score > 0 ? "inf" : "-inf";
  if (std::abs(score) < 1e15 && std::trunc(score) == score) return store::Cat(static_cast<int64_t>(score));
  char text[64];
  return {text, static_cast<size_t>(std::snprintf(text, sizeof(text), "%.17g", score))};
}

auto FindMember(ZsetValue& zset, std::string_view member) {
  return std::find_if(zset.begin(), zset.end(), [&](const auto& one) { return one.second == member; });
}

// 1 when the member is new; sets `changed` when the set was changed.
int64_t AddMember(ZsetValue& zset, double score, std::string_view member, bool& changed) {
  const auto old = FindMember(zset, member);
  const bool is_new = old == zset.end();
  if (!is_new && old->first == score) return 0;
  if (!is_new) zset.erase(old);
  std::pair<double, std::string> added(score, member);
  zset.insert(std::upper_bound(zset.begin(), zset.end(), added), std::move(added));
  changed = true;
  return is_new ? 1 : 0;
}

// The part of `size` elements between two indexes, as in LRANGE and ZRANGE: negative ones count from the end, both ends
// are included.
struct Slice {
  size_t first = 0;
  size_t count = 0;
};
bool ReadSlice(Call& call, int64_t& start, int64_t& stop) {
  return ReadInteger(call, call.arg(2), start) && ReadInteger(call, call.arg(3), stop);
}
Slice CutSlice(size_t size, int64_t start, int64_t stop) {
  const auto length = static_cast<int64_t>(size);
  if (start < 0) start = std::max<int64_t>(0, start + length);
  if (stop < 0) stop += length;
  stop = std::min(stop, length - 1);
  if (start > stop) return {};
  return {static_cast<size_t>(start), static_cast<size_t>(stop - start + 1)};
}

// After elements were removed from a collection: deletes it when it is empty.
void NoteRemoval(Call& call, int64_t removed, bool empty) {
  const std::string_view key = call.arg(1);
  if (removed > 0) {
    if (empty) {
      call.keys().Delete(key);
    } else {
      call.keys().NoteWritten(key);
    }
    call.keys().Record(call.argv);
  }
  call.reply.Integer(removed);
}

void NoteAddition(Call& call, int64_t added, bool changed) {
  if (changed) {
    call.keys().NoteWritten(call.arg(1));
    call.keys().Record(call.argv);
  }
  call.reply.Integer(added);
}

template <typename T>
void Size(Call& call) {
  T* value = nullptr;
  if (!FindValue(call, call.arg(1), value)) return;
  call.reply.Integer(value == nullptr ? 0 : static_cast<int64_t>(value->size()));
}

void ReplyField(Call& call, const HashValue* hash, std::string_view field) {
  if (hash != nullptr) {
    const auto found = hash->find(field);
    if (found != hash->end()) return call.reply.Bulk(found->second);
  }
  call.reply.Null();
}

}  // namespace

void ZAdd(Call& call) {
  const bool only_new = SameWord(call.arg(2), "nx");
  const size_t first = only_new ? 3 : 2;
  const size_t pairs = (call.argv.size() - first) / 2;
  if (pairs == 0 || (call.argv.size() - first) % 2 != 0) return call.reply.Error(kSyntax);
  std::vector<double> scores(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    if (!ReadScore(call.arg(first + 2 * i), scores[i])) return call.reply.Error("ERR value is not a valid float");
  }
  ZsetValue* zset = nullptr;
  if (!FindOrMakeValue(call, call.arg(1), zset)) return;
  int64_t added = 0;
  bool changed = false;
  for (size_t i = 0; i < pairs; ++i) {
    const std::string_view member = call.arg(first + 2 * i + 1);
    if (only_new && FindMember(*zset, member) != zset->end()) continue;
    added += AddMember(*zset, scores[i], member, changed);
  }
  NoteAddition(call, added, changed);
}

void ZRem(Call& call) {
  ZsetValue* zset = nullptr;
  if (!FindValue(call, call.arg(1), zset)) return;
  if (zset == nullptr) return call.reply.Integer(0);
  int64_t removed = 0;
  for (const std::string_view member : call.argv.subspan(2)) {
    const auto at = FindMember(*zset, member);
    if (at == zset->end()) continue;
    zset->erase(at);
    ++removed;
  }
  NoteRemoval(call, removed, zset->empty());
}

void ZRange(Call& call) {
  int64_t start = 0;
  int64_t stop = 0;
  const bool with_scores = call.argv.size() == 5 && SameWord(call.arg(4), "withscores");
  if (call.argv.size() > 4 && !with_scores) return call.reply.Error(kSyntax);
  ZsetValue* zset = nullptr;
  if (!ReadSlice(call, start, stop) || !FindValue(call, call.arg(1), zset)) return;
  const Slice slice = CutSlice(zset == nullptr ? 0 : zset->size(), start, stop);
  call.reply.Array(slice.count * (with_scores ? 2 : 1));
  for (size_t i = slice.first; i < slice.first + slice.count; ++i) {
    call.reply.Bulk((*zset)[i].second);
    if (with_scores) call.reply.Bulk(ScoreText((*zset)[i].first));
  }
}

void ZCard(Call& call) { Size<ZsetValue>(call); }

void ZRank(Call& call) {
  ZsetValue* zset = nullptr;
  if (!FindValue(call, call.arg(1), zset)) return;
  const auto at = zset == nullptr ? ZsetValue::iterator() : FindMember(*zset, call.arg(2));
  if (zset == nullptr || at == zset->end()) return call.reply.Null();
  call.reply.Integer(at - zset->begin());
}

void ZCount(Call& call) {
  Bound low;
  Bound high;
  if (!ReadBound(call.arg(2), low) || !ReadBound(call.arg(3), high)) {
    return call.reply.Error("ERR min or max is not a float");
  }
  ZsetValue* zset = nullptr;
  if (!FindValue(call, call.arg(1), zset)) return;
  const auto inside = [&](const auto& one) {
    return (one.first > low.score || (one.first == low.score && !low.exclusive)) &&
           (one.first < high.score || (one.first == high.score && !high.exclusive));
  };
  call.reply.Integer(zset == nullptr ? 0 : std::count_if(zset->begin(), zset->end(), inside));
}

void HSet(Call& call) {
  if (call.argv.size() % 2 != 0) return call.reply.Error("ERR wrong number of arguments for 'hset' command");
  HashValue* hash = nullptr;
  if (!FindOrMakeValue(call, call.arg(1), hash)) return;
  int64_t added = 0;
  for (size_t i = 2; i < call.argv.size(); i += 2) {
    added += hash->insert_or_assign(std::string(call.arg(i)), std::string(call.arg(i + 1))).second ? 1 : 0;
  }
  NoteAddition(call, added, true);
}

void HGet(Call& call) {
  HashValue* hash = nullptr;
  if (FindValue(call, call.arg(1), hash)) ReplyField(call, hash, call.arg(2));
}

void HExists(Call& call) {
  HashValue* hash = nullptr;
  if (!FindValue(call, call.arg(1), hash)) return;
  call.reply.Integer(hash != nullptr && hash->contains(call.arg(2)) ? 1 : 0);
}

void HMGet(Call& call) {
  HashValue* hash = nullptr;
  if (!FindValue(call, call.arg(1), hash)) return;
  call.reply.Array(call.argv.size() - 2);
  for (const std::string_view field : call.argv.subspan(2)) ReplyField(call, hash, field);
}

void HDel(Call& call) {
  HashValue* hash = nullptr;
  if (!FindValue(call, call.arg(1), hash)) return;
  if (hash == nullptr) return call.reply.Integer(0);
  int64_t removed = 0;
  for (const std::string_view field : call.argv.subspan(2)) {
    const auto at = hash->find(field);
    if (at == hash->end()) continue;
    hash->erase(at);
    ++removed;
  }
  NoteRemoval(call, removed, hash->empty());
}

void HLen(Call& call) { Size<HashValue>(call); }

// In the order of fields; a real server's order is undefined.
void HGetAll(Call& call) {
  HashValue* hash = nullptr;
  if (!FindValue(call, call.arg(1), hash)) return;
  call.reply.Array(hash == nullptr ? 0 : 2 * hash->size());
  if (hash == nullptr) return;
  for (const auto& [field, value] : *hash) {
    call.reply.Bulk(field);
    call.reply.Bulk(value);
  }
}

void LPush(Call& call) {
  ListValue* list = nullptr;
  if (!FindOrMakeValue(call, call.arg(1), list)) return;
  for (const std::string_view value : call.argv.subspan(2)) list->insert(list->begin(), std::string(value));
  NoteAddition(call, static_cast<int64_t>(list->size()), true);
}

void LRange(Call& call) {
  int64_t start = 0;
  int64_t stop = 0;
  ListValue* list = nullptr;
  if (!ReadSlice(call, start, stop) || !FindValue(call, call.arg(1), list)) return;
  const Slice slice = CutSlice(list == nullptr ? 0 : list->size(), start, stop);
  call.reply.Array(slice.count);
  for (size_t i = slice.first; i < slice.first + slice.count; ++i) call.reply.Bulk((*list)[i]);
}

void SAdd(Call& call) {
  SetValue* set = nullptr;
  if (!FindOrMakeValue(call, call.arg(1), set)) return;
  int64_t added = 0;
  for (const std::string_view member : call.argv.subspan(2)) added += set->insert(std::string(member)).second ? 1 : 0;
  NoteAddition(call, added, added > 0);
}

// Sorted; a real server's order is undefined.
void SMembers(Call& call) {
  SetValue* set = nullptr;
  if (!FindValue(call, call.arg(1), set)) return;
  call.reply.Array(set == nullptr ? 0 : set->size());
  if (set == nullptr) return;
  for (const std::string& member : *set) call.reply.Bulk(member);
}

}  // namespace distlock::sim::commands
