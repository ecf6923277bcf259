// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "redis/server.h"
#include "store/text.h"

namespace distlock::sim::commands {
namespace {

constexpr std::string_view kTypeNames[] = {"none", "string", "list", "set", "zset", "hash"};

struct SetOptions {
  bool only_if_absent = false;
  std::optional<std::string_view> expiry;
  bool absolute = false;  // milliseconds since 1970, not from now
};

bool ParseSetOptions(Call& call, SetOptions& options) {
  for (size_t i = 3; i < call.argv.size(); ++i) {
    const bool relative = SameWord(call.arg(i), "px");
    if (SameWord(call.arg(i), "nx")) {
      options.only_if_absent = true;
    } else if ((relative || SameWord(call.arg(i), "pxat")) && !options.expiry && i + 1 < call.argv.size()) {
      options.expiry = call.arg(++i);
      options.absolute = !relative;
    } else {
      call.reply.Error(kSyntax);
      return false;
    }
  }
  return true;
}

bool ParseExpiry(Call& call, const SetOptions& options, int64_t& expires_ms) {
  if (!options.expiry) return true;
  if (!ReadInteger(call, *options.expiry, expires_ms)) return false;
  const int64_t base = options.absolute ? 0 : call.keys().now_ms();
  const bool good = expires_ms > 0 && expires_ms <= std::numeric_limits<int64_t>::max() - base;
  if (good) {
    expires_ms += base;
  } else {
    call.reply.Error("ERR invalid expire time in 'set' command");
  }
  return good;
}

// An expiry in the past deletes the key at once. Not on a replica, where only the primary's commands delete.
void ExpireAt(Call& call, int64_t base) {
  int64_t when = 0;
  if (call.argv.size() > 3) return call.reply.Error("ERR Unsupported option " + std::string(call.arg(3)));
  if (!ReadInteger(call, call.arg(2), when)) return;
  if (when > std::numeric_limits<int64_t>::max() - base) {
    return call.reply.Error("ERR invalid expire time in 'pexpire' command");
  }
  when += base;
  const std::string_view key = call.arg(1);
  Entry* entry = call.keys().Find(key);
  if (entry == nullptr) return call.reply.Integer(0);
  if (when <= call.keys().now_ms() && !call.keys().replica) {
    call.keys().Delete(key);
    call.keys().Record(std::array<std::string_view, 2>{"DEL", key});
  } else {
    call.keys().SetExpiry(key, *entry, when);
    call.keys().Record(std::array<std::string_view, 3>{"PEXPIREAT", key, store::Cat(when)});
  }
  call.reply.Integer(1);
}

void DeleteAll(Call& call, ChangeKind why) {
  int64_t deleted = 0;
  for (const std::string_view key : call.argv.subspan(1)) deleted += call.keys().Delete(key, why) ? 1 : 0;
  if (deleted > 0) call.keys().Record(call.argv);
  call.reply.Integer(deleted);
}

}  // namespace

void Get(Call& call) {
  std::string* value = nullptr;
  if (!FindValue(call, call.arg(1), value)) return;
  if (value == nullptr) return call.reply.Null();
  call.reply.Bulk(*value);
}

void MGet(Call& call) {
  call.reply.Array(call.argv.size() - 1);
  for (const std::string_view key : call.argv.subspan(1)) {
    const Entry* entry = call.keys().Find(key);
    const auto* value = entry == nullptr ? nullptr : std::get_if<std::string>(&entry->value);
    if (value == nullptr) {
      call.reply.Null();
    } else {
      call.reply.Bulk(*value);
    }
  }
}

void Set(Call& call) {
  SetOptions options;
  int64_t expires_ms = kNeverMs;
  if (!ParseSetOptions(call, options) || !ParseExpiry(call, options, expires_ms)) return;
  const std::string_view key = call.arg(1);
  const std::string_view value = call.arg(2);
  if (options.only_if_absent && call.keys().Find(key) != nullptr) return call.reply.Null();
  call.keys().Put(key, std::string(value), expires_ms);
  if (options.expiry) {
    call.keys().Record(std::array<std::string_view, 5>{"SET", key, value, "PXAT", store::Cat(expires_ms)});
  } else {
    call.keys().Record(std::array<std::string_view, 3>{"SET", key, value});
  }
  call.reply.Status("OK");
}

void Del(Call& call) { DeleteAll(call, ChangeKind::kDeleted); }
void Unlink(Call& call) { DeleteAll(call, call.keys().applying() ? ChangeKind::kExpired : ChangeKind::kDeleted); }

void Exists(Call& call) {
  int64_t count = 0;
  for (const std::string_view key : call.argv.subspan(1)) count += call.keys().Find(key) != nullptr ? 1 : 0;
  call.reply.Integer(count);
}

void Type(Call& call) {
  const Entry* entry = call.keys().Find(call.arg(1));
  call.reply.Status(kTypeNames[entry == nullptr ? 0 : static_cast<size_t>(entry->type())]);
}

void PExpire(Call& call) { ExpireAt(call, call.keys().now_ms()); }
void PExpireAt(Call& call) { ExpireAt(call, 0); }

void PTtl(Call& call) {
  const Entry* entry = call.keys().Find(call.arg(1));
  if (entry == nullptr) return call.reply.Integer(-2);
  if (entry->expires_ms == kNeverMs) return call.reply.Integer(-1);
  call.reply.Integer(std::max<int64_t>(0, entry->expires_ms - call.keys().now_ms()));
}

void PExpireTime(Call& call) {
  const Entry* entry = call.keys().Find(call.arg(1));
  if (entry == nullptr) return call.reply.Integer(-2);
  call.reply.Integer(entry->expires_ms == kNeverMs ? -1 : entry->expires_ms);
}

void Keys(Call& call) {
  if (call.arg(1) != "*") return call.reply.Error("ERR only KEYS * is modelled");
  std::vector<std::string_view> found;
  for (const auto& [key, entry] : call.keys().entries()) {
    if (!call.keys().IsExpired(entry)) found.push_back(key);
  }
  call.reply.Array(found.size());
  for (const std::string_view key : found) call.reply.Bulk(key);
}

void FlushAll(Call& call) {
  call.server.was_emptied = true;
  call.keys().Clear();
  call.keys().Record(call.argv);
  call.reply.Status("OK");
}

}  // namespace distlock::sim::commands
