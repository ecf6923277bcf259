// SPDX-License-Identifier: Apache-2.0
#include "lock_view.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>

#include "printable.h"

namespace distlock::cli {
namespace {

const char* ModeName(v1::LockMode mode) {
  switch (mode) {
    case v1::LOCK_MODE_SHARED:
      return "shared";
    case v1::LOCK_MODE_PERMIT:
      return "permit";
    default:
      return "exclusive";
  }
}

// For people: the mode, or the number of permits.
std::string ShareAsText(v1::LockMode mode, int64_t permits) {
  if (mode != v1::LOCK_MODE_PERMIT) return ModeName(mode);
  return absl::StrCat(permits, permits == 1 ? " permit" : " permits");
}

Json MetadataAsJson(const google::protobuf::Map<std::string, std::string>& metadata) {
  Json json;
  for (const auto& [name, value] : std::map<std::string, std::string>(metadata.begin(), metadata.end())) {
    json.Text(name, value);
  }
  return json;
}

// Adds nothing when the broker does not know the time, since scripts could not parse an empty one.
void AddSince(Json& json, const google::protobuf::Timestamp& since) {
  if (const std::string time = FormatTime(since); !time.empty()) json.Text("since", time);
}

std::string SinceAsText(const google::protobuf::Timestamp& since) {
  const std::string time = FormatTime(since);
  return time.empty() ? "" : absl::StrCat("  since ", time);
}

Json HolderAsJson(const v1::Holder& holder) {
  Json json;
  json.Text("holder_id", holder.holder_id())
      .Text("owner", holder.owner())
      .Object("metadata", MetadataAsJson(holder.metadata()))
      .Text("mode", ModeName(holder.mode()))
      .Number("permits", holder.permits())
      .Number("token", holder.fencing_token());
  AddSince(json, holder.acquire_time());
  return json.Number("time_left_ms", FromProto(holder.time_left()).count())
      .Number("ttl_ms", FromProto(holder.ttl()).count())
      .Text("broker_id", holder.broker_id());
}

void AddBlock(Json& json, const v1::LockInfo& lock) {
  if (!lock.has_block()) return void(json.Null("block"));
  Json block;
  block.Text("owner", lock.block().owner());
  AddSince(block, lock.block().start_time());
  json.Object("block", block.Number("time_left_ms", FromProto(lock.block().time_left()).count()));
}

Json WaiterAsJson(const v1::Waiter& waiter) {
  Json json;
  json.Text("waiter_id", waiter.waiter_id())
      .Text("owner", waiter.owner())
      .Object("metadata", MetadataAsJson(waiter.metadata()))
      .Text("mode", ModeName(waiter.mode()))
      .Number("permits", waiter.permits());
  AddSince(json, waiter.start_time());
  return json.Text("broker_id", waiter.broker_id());
}

int UnlistedHolders(const v1::LockInfo& lock) { return lock.holder_count() - lock.holders_size(); }

// The mode or the permits of all holders together.
std::string HeldShareAsText(const v1::LockInfo& lock) {
  const v1::LockMode mode = lock.holders(0).mode();
  if (UnlistedHolders(lock) > 0) return ModeName(mode);
  int64_t permits = 0;
  for (const v1::Holder& holder : lock.holders()) permits += holder.permits();
  return ShareAsText(mode, permits);
}

std::string MetadataAsText(const google::protobuf::Map<std::string, std::string>& metadata) {
  std::string out;
  for (const auto& [name, value] : std::map<std::string, std::string>(metadata.begin(), metadata.end())) {
    absl::StrAppend(&out, " ", name, "=", value);
  }
  return out;
}

std::string StateName(const v1::LockInfo& lock) {
  if (!lock.holders().empty()) return "held";
  return lock.has_block() ? "blocked" : "free";
}

std::string HolderAsText(const v1::Holder& holder) {
  return absl::StrCat("  holder ", holder.owner(), "  ", ShareAsText(holder.mode(), holder.permits()),
                      SinceAsText(holder.acquire_time()), "  left ", FormatDuration(FromProto(holder.time_left())),
                      "  token ", holder.fencing_token(), "  id ", holder.holder_id(),
                      MetadataAsText(holder.metadata()));
}

}  // namespace

Json LockAsJson(const v1::LockInfo& lock, bool with_waiters, Json json) {
  std::vector<Json> holders;
  for (const v1::Holder& holder : lock.holders()) holders.push_back(HolderAsJson(holder));
  json.Text("namespace", lock.namespace_())
      .Text("key", lock.key())
      .Number("token", lock.fencing_token())
      .Number("queue_length", lock.queue_length())
      .Number("holder_count", lock.holder_count());
  AddBlock(json, lock);
  json.List("holders", holders);
  if (!with_waiters) return json;
  std::vector<Json> waiters;
  for (const v1::Waiter& waiter : lock.waiters()) waiters.push_back(WaiterAsJson(waiter));
  return json.List("waiters", waiters);
}

std::vector<std::string> LockAsText(const v1::LockInfo& lock) {
  std::vector<std::string> lines = {
      absl::StrCat(lock.namespace_(), "/", lock.key(), "  ", StateName(lock), ", ", lock.queue_length(), " waiting")};
  for (const v1::Holder& holder : lock.holders()) lines.push_back(HolderAsText(holder));
  if (UnlistedHolders(lock) > 0) lines.push_back(absl::StrCat("  and ", UnlistedHolders(lock), " more holders"));
  if (lock.has_block()) {
    lines.push_back(absl::StrCat("  blocked for another ", FormatDuration(FromProto(lock.block().time_left())),
                                 " (lock delay of ", lock.block().owner(), ")"));
  }
  int place = 0;
  for (const v1::Waiter& waiter : lock.waiters()) {
    lines.push_back(absl::StrCat("  waiter ", ++place, " ", waiter.owner(), "  ",
                                 ShareAsText(waiter.mode(), waiter.permits()), SinceAsText(waiter.start_time()),
                                 "  id ", waiter.waiter_id(), MetadataAsText(waiter.metadata())));
  }
  const int unseen = lock.queue_length() - lock.waiters_size();
  if (unseen > 0) lines.push_back(absl::StrCat("  and ", unseen, " more waiters"));
  return lines;
}

std::string LockAsRow(const v1::LockInfo& lock, const std::string& name) {
  const std::string share = lock.holders().empty() ? "" : HeldShareAsText(lock);
  std::string row = absl::StrFormat("%s %-8s %-10s %5d waiting", name, StateName(lock), share, lock.queue_length());
  if (lock.holders().empty() && !lock.has_block()) return row;
  const auto& left = lock.holders().empty() ? lock.block().time_left() : lock.holders(0).time_left();
  const std::string& owner = lock.holders().empty() ? lock.block().owner() : lock.holders(0).owner();
  const std::string others = lock.holder_count() > 1 ? absl::StrCat(" and ", lock.holder_count() - 1, " more") : "";
  return absl::StrFormat("%s  left %-8s %s%s", row, FormatDuration(FromProto(left)), owner, others);
}

std::string NameAsColumns(const v1::LockInfo& lock, bool with_namespace_column) {
  if (with_namespace_column) return Column(lock.namespace_(), 20) + " " + Column(lock.key(), 40);
  return Column(absl::StrCat(lock.namespace_(), "/", lock.key()), 40);
}

std::string ChangeAsText(const v1::LockInfo& lock, const std::string& time) {
  constexpr int kHolders = 16;
  std::string out = absl::StrCat(time, "  ", lock.namespace_(), "/", lock.key(), "  ", StateName(lock), ", ",
                                 lock.queue_length(), " waiting");
  for (int i = 0; i < std::min(lock.holders_size(), kHolders); ++i) {
    const v1::Holder& holder = lock.holders(i);
    absl::StrAppend(&out, "; holder ", holder.owner(), "  ", ShareAsText(holder.mode(), holder.permits()), "  token ",
                    holder.fencing_token(), "  id ", holder.holder_id());
  }
  if (lock.holder_count() > kHolders) absl::StrAppend(&out, "; and ", lock.holder_count() - kHolders, " more holders");
  if (lock.has_block()) absl::StrAppend(&out, "; lock delay of ", lock.block().owner());
  return out;
}

}  // namespace distlock::cli
