// SPDX-License-Identifier: Apache-2.0
#include "lock_view.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>

#include "printable.h"

namespace distlock::cli {
namespace {

using Time = std::chrono::system_clock::time_point;

// For people: the mode, or the number of permits.
std::string ShareAsText(LockMode mode, int64_t permits) {
  if (mode != LockMode::kPermit) return ModeName(mode);
  return absl::StrCat(permits, permits == 1 ? " permit" : " permits");
}

Json MetadataAsJson(const std::map<std::string, std::string>& metadata) {
  Json json;
  for (const auto& [name, value] : metadata) {
    json.Text(name, value);
  }
  return json;
}

// Adds nothing when the broker does not know the time, since scripts could not parse an empty one.
void AddSince(Json& json, Time since) {
  if (const std::string time = FormatTime(since); !time.empty()) json.Text("since", time);
}

std::string SinceAsText(Time since) {
  const std::string time = FormatTime(since);
  return time.empty() ? "" : absl::StrCat("  since ", time);
}

Json HolderAsJson(const Holder& holder) {
  Json json;
  json.Text("holder_id", holder.holder_id)
      .Text("owner", holder.owner)
      .Object("metadata", MetadataAsJson(holder.metadata))
      .Text("mode", ModeName(holder.mode))
      .Number("permits", holder.permits)
      .Number("token", holder.fencing_token);
  AddSince(json, holder.acquire_time);
  return json.Number("time_left_ms", InMillis(holder.time_left))
      .Number("ttl_ms", InMillis(holder.ttl))
      .Text("broker_id", holder.broker_id);
}

void AddBlock(Json& json, const LockInfo& lock) {
  if (!lock.block) return void(json.Null("block"));
  Json block;
  block.Text("owner", lock.block->owner);
  AddSince(block, lock.block->start_time);
  json.Object("block", block.Number("time_left_ms", InMillis(lock.block->time_left)));
}

Json WaiterAsJson(const Waiter& waiter) {
  Json json;
  json.Text("waiter_id", waiter.waiter_id)
      .Text("owner", waiter.owner)
      .Object("metadata", MetadataAsJson(waiter.metadata))
      .Text("mode", ModeName(waiter.mode))
      .Number("permits", waiter.permits);
  AddSince(json, waiter.start_time.value_or(Time()));
  return json.Text("broker_id", waiter.broker_id);
}

int UnlistedHolders(const LockInfo& lock) { return lock.holder_count - static_cast<int>(lock.holders.size()); }

// The mode or the permits of all holders together.
std::string HeldShareAsText(const LockInfo& lock) {
  const LockMode mode = lock.holders.front().mode;
  if (UnlistedHolders(lock) > 0) return ModeName(mode);
  int64_t permits = 0;
  for (const Holder& holder : lock.holders) permits += holder.permits;
  return ShareAsText(mode, permits);
}

std::string MetadataAsText(const std::map<std::string, std::string>& metadata) {
  std::string out;
  for (const auto& [name, value] : metadata) {
    absl::StrAppend(&out, " ", name, "=", value);
  }
  return out;
}

std::string StateName(const LockInfo& lock) {
  if (!lock.holders.empty()) return "held";
  return lock.block ? "blocked" : "free";
}

std::string HolderAsText(const Holder& holder) {
  return absl::StrCat("  holder ", holder.owner, "  ", ShareAsText(holder.mode, holder.permits),
                      SinceAsText(holder.acquire_time), "  left ", FormatDuration(holder.time_left), "  token ",
                      holder.fencing_token, "  id ", holder.holder_id, MetadataAsText(holder.metadata));
}

}  // namespace

std::string ModeName(LockMode mode) {
  if (mode == LockMode::kShared) return "shared";
  return mode == LockMode::kPermit ? "permit" : "exclusive";
}

Json LockAsJson(const LockInfo& lock, bool with_waiters, Json json) {
  std::vector<Json> holders;
  for (const Holder& holder : lock.holders) holders.push_back(HolderAsJson(holder));
  json.Text("namespace", lock.lock_namespace)
      .Text("key", lock.key)
      .Number("token", lock.fencing_token)
      .Number("queue_length", lock.queue_length)
      .Number("holder_count", lock.holder_count);
  AddBlock(json, lock);
  json.List("holders", holders);
  if (!with_waiters) return json;
  std::vector<Json> waiters;
  for (const Waiter& waiter : lock.waiters) waiters.push_back(WaiterAsJson(waiter));
  return json.List("waiters", waiters);
}

std::vector<std::string> LockAsText(const LockInfo& lock) {
  std::vector<std::string> lines = {
      absl::StrCat(lock.lock_namespace, "/", lock.key, "  ", StateName(lock), ", ", lock.queue_length, " waiting")};
  for (const Holder& holder : lock.holders) lines.push_back(HolderAsText(holder));
  if (UnlistedHolders(lock) > 0) lines.push_back(absl::StrCat("  and ", UnlistedHolders(lock), " more holders"));
  if (lock.block) {
    lines.push_back(absl::StrCat("  blocked for another ", FormatDuration(lock.block->time_left), " (lock delay of ",
                                 lock.block->owner, ")"));
  }
  int place = 0;
  for (const Waiter& waiter : lock.waiters) {
    lines.push_back(absl::StrCat(
        "  waiter ", ++place, " ", waiter.owner, "  ", ShareAsText(waiter.mode, waiter.permits),
        SinceAsText(waiter.start_time.value_or(Time())), "  id ", waiter.waiter_id, MetadataAsText(waiter.metadata)));
  }
  const int unseen = lock.queue_length - static_cast<int>(lock.waiters.size());
  if (unseen > 0) lines.push_back(absl::StrCat("  and ", unseen, " more waiters"));
  return lines;
}

std::string LockAsRow(const LockInfo& lock, const std::string& name) {
  const std::string share = lock.holders.empty() ? "" : HeldShareAsText(lock);
  std::string row = absl::StrFormat("%s %-8s %-10s %5d waiting", name, StateName(lock), share, lock.queue_length);
  if (lock.holders.empty() && !lock.block) return row;
  const auto& left = lock.holders.empty() ? lock.block->time_left : lock.holders.front().time_left;
  const std::string& owner = lock.holders.empty() ? lock.block->owner : lock.holders.front().owner;
  const std::string others = lock.holder_count > 1 ? absl::StrCat(" and ", lock.holder_count - 1, " more") : "";
  return absl::StrFormat("%s  left %-8s %s%s", row, FormatDuration(left), owner, others);
}

std::string NameAsColumns(const LockInfo& lock, bool with_namespace_column) {
  if (with_namespace_column) return Column(lock.lock_namespace, 20) + " " + Column(lock.key, 40);
  return Column(absl::StrCat(lock.lock_namespace, "/", lock.key), 40);
}

std::string ChangeAsText(const LockInfo& lock, const std::string& time) {
  constexpr size_t kHolders = 16;
  std::string out = absl::StrCat(time, "  ", lock.lock_namespace, "/", lock.key, "  ", StateName(lock), ", ",
                                 lock.queue_length, " waiting");
  for (const Holder& holder : lock.holders) {
    if (&holder == lock.holders.data() + kHolders) break;
    absl::StrAppend(&out, "; holder ", holder.owner, "  ", ShareAsText(holder.mode, holder.permits), "  token ",
                    holder.fencing_token, "  id ", holder.holder_id);
  }
  const auto shown = static_cast<int>(std::min(lock.holders.size(), kHolders));
  if (lock.holder_count > shown) absl::StrAppend(&out, "; and ", lock.holder_count - shown, " more holders");
  if (lock.block) absl::StrAppend(&out, "; lock delay of ", lock.block->owner);
  return out;
}

}  // namespace distlock::cli
