// SPDX-License-Identifier: Apache-2.0
#include "lock_view.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>

#include "lock_name.h"
#include "printable.h"

namespace distlock::cli {
namespace {

using Time = std::chrono::system_clock::time_point;

// For people: the mode, or the number of permits.
std::string ShareAsText(LockMode mode, int64_t permits) {
  if (mode != LockMode::kPermit) return ModeName(mode);
  return absl::StrCat(permits, permits == 1 ? " permit" : " permits");
}

// Adds nothing when the broker does not know the time, since scripts could not parse an empty one.
void AddSince(Json& json, Time since) {
  if (const std::string time = FormatTime(since); !time.empty()) json["since"] = time;
}

std::string SinceAsText(Time since) {
  const std::string time = FormatTime(since);
  return time.empty() ? "" : absl::StrCat("  since ", time);
}

Json HolderAsJson(const Holder& holder) {
  Json json{{"holder_id", holder.holder_id}, {"owner", holder.owner},     {"metadata", holder.metadata},
            {"mode", ModeName(holder.mode)}, {"permits", holder.permits}, {"token", holder.fencing_token}};
  AddSince(json, holder.acquire_time);
  json["limit"] = holder.limit;
  json["held_for_ms"] = InMillis(holder.held_for);
  json["detached"] = holder.detached;
  json["time_left_ms"] = InMillis(holder.time_left);
  json["ttl_ms"] = InMillis(holder.ttl);
  json["broker_id"] = holder.broker_id;
  return json;
}

// null: there is none.
Json BlockAsJson(const LockInfo& lock) {
  if (!lock.block) return nullptr;
  Json block{{"owner", lock.block->owner}};
  AddSince(block, lock.block->start_time);
  block["time_left_ms"] = InMillis(lock.block->time_left);
  if (lock.block->min_hold > Duration::zero()) {
    block["min_hold_ms"] = InMillis(lock.block->min_hold);
    if (const std::string time = FormatTime(lock.block->acquire_time); !time.empty()) block["granted"] = time;
  }
  return block;
}

Json WaiterAsJson(const Waiter& waiter) {
  Json json{{"waiter_id", waiter.waiter_id},
            {"owner", waiter.owner},
            {"metadata", waiter.metadata},
            {"mode", ModeName(waiter.mode)},
            {"permits", waiter.permits}};
  AddSince(json, waiter.start_time.value_or(Time()));
  json["broker_id"] = waiter.broker_id;
  return json;
}

int UnlistedHolders(const LockInfo& lock) { return lock.holder_count - static_cast<int>(lock.holders.size()); }

std::string MetadataAsText(const std::map<std::string, std::string>& metadata) {
  std::string out;
  for (const auto& [name, value] : metadata) {
    absl::StrAppend(&out, " ", name, "=", value);
  }
  return out;
}

std::string StateName(const LockInfo& lock) {
  if (!lock.holders.empty()) {
    const auto permits = PermitsOf(lock);
    return permits && permits->free.value_or(0) > 0 ? absl::StrCat(*permits->free, " free") : "held";
  }
  if (lock.block) return "blocked";
  return lock.hold_off ? "held off" : "free";
}

std::string BlockAsText(const LockBlock& block) {
  const bool has_run = block.min_hold > Duration::zero();
  if (!has_run) return "lock delay of " + block.owner;
  return absl::StrCat("min hold of ", block.owner, ", granted ", FormatTime(block.acquire_time));
}

// The share of a holder, and since when. The time that is left is shown only of a lease that no broker renews.
std::string HolderAsText(const Holder& holder) {
  const std::string left = holder.detached ? absl::StrCat("  left ", FormatDuration(holder.time_left)) : "";
  return absl::StrCat("  holder ", holder.owner, "  ", ShareAsText(holder.mode, holder.permits), "  for ",
                      HeldForAsText(holder), SinceAsText(holder.acquire_time), left, "  token ", holder.fencing_token,
                      "  id ", holder.holder_id, MetadataAsText(holder.metadata));
}

}  // namespace

std::string ModeName(LockMode mode) {
  if (mode == LockMode::kShared) return "shared";
  return mode == LockMode::kPermit ? "permit" : "exclusive";
}

std::string HeldForAsText(const Holder& holder) {
  auto held = std::chrono::duration_cast<Millis>(holder.held_for);
  // An older broker does not tell it, and the clocks may differ.
  if (held <= Millis(0) && holder.acquire_time != Time()) {
    held =
        std::max(std::chrono::duration_cast<Millis>(std::chrono::system_clock::now() - holder.acquire_time), Millis(0));
  }
  return FormatDuration(held < std::chrono::seconds(10) ? held : std::chrono::floor<std::chrono::seconds>(held));
}

std::optional<Permits> PermitsOf(const LockInfo& lock) {
  if (lock.holders.empty() || lock.holders.front().mode != LockMode::kPermit) return std::nullopt;
  Permits permits{.limit = lock.holders.front().limit};
  if (permits.limit == 0 || UnlistedHolders(lock) > 0) return std::nullopt;
  int64_t taken = 0;
  for (const Holder& holder : lock.holders) taken += holder.permits;
  if (!lock.block) permits.free = std::max<int64_t>(permits.limit - taken, 0);
  return permits;
}

std::string ShareOf(const LockInfo& lock) {
  if (lock.holders.empty()) return "";
  const Holder& first = lock.holders.front();
  if (UnlistedHolders(lock) > 0) return ModeName(first.mode);
  int64_t permits = 0;
  for (const Holder& holder : lock.holders) permits += holder.permits;
  if (first.mode == LockMode::kPermit && first.limit > 0) return absl::StrCat(permits, " of ", first.limit);
  return ShareAsText(first.mode, permits);
}

Json LockAsJson(const LockInfo& lock, bool with_waiters, Json json) {
  json.update({{"namespace", lock.lock_namespace},
               {"key", lock.key},
               {"token", lock.fencing_token},
               {"queue_length", lock.queue_length},
               {"holder_count", lock.holder_count}});
  const auto permits = PermitsOf(lock);
  json["limit"] = permits ? Json(permits->limit) : nullptr;
  json["free"] = permits && permits->free ? Json(*permits->free) : nullptr;
  json["block"] = BlockAsJson(lock);
  if (lock.hold_off) json["hold_off_ms"] = InMillis(*lock.hold_off);
  Json& holders = json["holders"] = Json::array();
  for (const Holder& holder : lock.holders) holders.push_back(HolderAsJson(holder));
  if (!with_waiters) return json;
  Json& waiters = json["waiters"] = Json::array();
  for (const Waiter& waiter : lock.waiters) waiters.push_back(WaiterAsJson(waiter));
  return json;
}

std::vector<std::string> LockAsText(const LockInfo& lock) {
  const auto permits = PermitsOf(lock);
  const std::string taken = permits ? absl::StrCat(", ", ShareOf(lock), " permits taken") : "";
  std::vector<std::string> lines = {absl::StrCat(NameOf(lock.lock_namespace, lock.key), "  ", StateName(lock), taken,
                                                 ", ", lock.queue_length, " waiting")};
  for (const Holder& holder : lock.holders) lines.push_back(HolderAsText(holder));
  if (UnlistedHolders(lock) > 0) lines.push_back(absl::StrCat("  and ", UnlistedHolders(lock), " more holders"));
  if (lock.block) {
    lines.push_back(absl::StrCat("  blocked for another ", FormatDuration(lock.block->time_left), " (",
                                 BlockAsText(*lock.block), ")"));
  }
  if (lock.hold_off) {
    lines.push_back("  " + HoldOffNote(*lock.hold_off));
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

std::string LockAsRow(const LockInfo& lock) {
  const std::string name = Column(NameOf(lock.lock_namespace, lock.key), 40);
  std::string row =
      absl::StrFormat("%s %-8s %-10s %5d waiting", name, StateName(lock), ShareOf(lock), lock.queue_length);
  if (lock.holders.empty()) {
    if (!lock.block) return row;
    return absl::StrFormat("%s  left %-8s %s", row, FormatDuration(lock.block->time_left), lock.block->owner);
  }
  const Holder& first = lock.holders.front();
  const std::string others = lock.holder_count > 1 ? absl::StrCat(" and ", lock.holder_count - 1, " more") : "";
  return absl::StrFormat("%s  for %-9s %s%s", row, HeldForAsText(first), first.owner, others);
}

std::string HoldOffNote(Duration left) {
  return absl::StrCat("nobody is newly granted a lock for another ", FormatDuration(left),
                      ": the store may have forgotten a holder (hold-off)");
}

std::string ChangeAsText(const LockInfo& lock, const std::string& time) {
  constexpr size_t kHolders = 16;
  std::string out = absl::StrCat(time, "  ", NameOf(lock.lock_namespace, lock.key), "  ", StateName(lock), ", ",
                                 lock.queue_length, " waiting");
  for (const Holder& holder : lock.holders) {
    if (&holder == lock.holders.data() + kHolders) break;
    absl::StrAppend(&out, "; holder ", holder.owner, "  ", ShareAsText(holder.mode, holder.permits), "  token ",
                    holder.fencing_token, "  id ", holder.holder_id);
  }
  const auto shown = static_cast<int>(std::min(lock.holders.size(), kHolders));
  if (lock.holder_count > shown) absl::StrAppend(&out, "; and ", lock.holder_count - shown, " more holders");
  if (lock.block) absl::StrAppend(&out, "; ", BlockAsText(*lock.block));
  return out;
}

}  // namespace distlock::cli
