// SPDX-License-Identifier: Apache-2.0
#include "top_picture.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "lock_name.h"
#include "lock_view.h"
#include "printable.h"

namespace distlock::cli {
namespace {

// No screen shows more, and listing locks must stay cheap for the store.
constexpr size_t kMostLocks = 2000;

bool Before(const LockInfo& a, const LockInfo& b, View::Order order) {
  const auto by = [&](const LockInfo& lock) {
    const int32_t queue = -lock.queue_length;
    const int32_t holders = -lock.holder_count;
    if (order == View::Order::kName) return std::make_tuple(0, 0, lock.key);
    if (order == View::Order::kHolders) return std::make_tuple(holders, queue, lock.key);
    return std::make_tuple(queue, holders, lock.key);
  };
  return by(a) < by(b);
}

const char* OrderName(View::Order order) {
  if (order == View::Order::kName) return "name";
  return order == View::Order::kHolders ? "holders" : "queue";
}

std::string Row(const LockInfo& lock) {
  const std::string key = Column(NameOf(lock.lock_namespace, lock.key), 40);
  std::string counts = absl::StrFormat("%s %7d %7d", key, lock.queue_length, lock.holder_count);
  if (lock.holders.empty() && !lock.block) return counts;
  if (lock.holders.empty()) {
    return absl::StrFormat("%s  %-9s %9s  %s", counts, "blocked", "",
                           absl::StrCat("for another ", FormatDuration(lock.block->time_left), ", by the ",
                                        lock.block->min_hold > Duration::zero() ? "min hold" : "lock delay", " of ",
                                        Printable(lock.block->owner)));
  }
  const Holder& holder = lock.holders.front();
  return absl::StrFormat("%s  %-9s %9s  %s%s", counts, ShareOf(lock), HeldForAsText(holder), Printable(holder.owner),
                         lock.holder_count > 1 ? absl::StrCat(" and ", lock.holder_count - 1, " more") : "");
}

std::vector<std::string> Head(const Seen& seen, const View& view) {
  const BrokerStatus& status = seen.status;
  int64_t waiting = 0;
  for (const LockInfo& lock : seen.locks) waiting += lock.queue_length;
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("distlock ", Printable(status.version), "  broker ", Printable(status.broker_id),
                               "  up ", FormatDuration(status.uptime), "  store ",
                               !status.store_up               ? "DOWN"
                               : status.store_refusal.empty() ? "up"
                                                              : "TAKES NO WRITES",
                               status.draining ? "  DRAINING" : ""));
  lines.push_back(
      absl::StrFormat("broker: %d streams, %d leases, %d waiters   namespace %s: %d%s locks, %d waiting, %.1f grants/s",
                      seen.streams, status.leases, status.waiters, Printable(view.name_space), seen.locks.size(),
                      seen.more_locks ? "+" : "", waiting, seen.grants_per_s));
  if (view.typing) {
    lines.push_back(absl::StrCat("namespace: ", Printable(*view.typing), "_"));
  } else if (seen.failure) {
    lines.push_back("! " + Printable(seen.failure->message.empty() ? seen.failure->reason : seen.failure->message));
  } else if (seen.hold_off) {
    lines.push_back("! " + HoldOffNote(*seen.hold_off));
  } else {
    lines.push_back(
        absl::StrCat("sorted by ", OrderName(view.order), view.obeys_keys ? "   q quit, s sort, n namespace" : ""));
  }
  lines.push_back(
      absl::StrFormat("%-40s %7s %7s  %-9s %9s  %s", "LOCK", "QUEUE", "HOLDERS", "MODE", "HELD FOR", "HOLDER"));
  return lines;
}

}  // namespace

LockSource::LockSource(const Context& context, Client& client)
    : context_(context), admin_(client), inspector_(client) {}

bool LockSource::Look(const std::string& name_space) {
  std::optional<Refusal> refusal = LookAtStatus();
  if (!refusal) refusal = LookAtStreams();
  if (!refusal) refusal = LookAtLocks(name_space);
  seen_.failure.reset();
  if (refusal) seen_.failure = FailureFrom(context_, *refusal);
  return !refusal;
}

std::optional<Refusal> LockSource::LookAtStatus() {
  auto status = admin_.Status();
  if (!status.ok()) return status.refusal();
  seen_.status = *std::move(status);
  return std::nullopt;
}

std::optional<Refusal> LockSource::LookAtLocks(const std::string& name_space) {
  std::vector<LockInfo> locks;
  std::string page_token;
  seen_.hold_off.reset();
  do {
    auto page = inspector_.List("", name_space, page_token);
    if (!page.ok()) return page.refusal();
    if (page->hold_off) seen_.hold_off = std::max(seen_.hold_off.value_or(Duration()), *page->hold_off);
    std::move(page->locks.begin(), page->locks.end(), std::back_inserter(locks));
    page_token = page->next_page_token;
  } while (!page_token.empty() && locks.size() < kMostLocks);
  seen_.more_locks = !page_token.empty();
  seen_.locks.swap(locks);
  CountGrants(locks);
  return std::nullopt;
}

std::optional<Refusal> LockSource::LookAtStreams() {
  size_t streams = 0;
  std::string page_token;
  do {
    const auto page = admin_.Streams(page_token);
    // An older broker cannot list its streams, but counts them.
    if (!page.ok() && page.refusal().reason == RefusalReason::kNotSupported) {
      streams = static_cast<size_t>(seen_.status.streams);
      break;
    }
    if (!page.ok()) return page.refusal();
    streams += page->streams.size();
    page_token = page->next_page_token;
  } while (!page_token.empty());
  seen_.streams = streams;
  return std::nullopt;
}

void LockSource::CountGrants(const std::vector<LockInfo>& before) {
  const auto now = std::chrono::steady_clock::now();
  std::map<std::pair<std::string, std::string>, int64_t> tokens;
  for (const LockInfo& lock : before) tokens[{lock.lock_namespace, lock.key}] = lock.fencing_token;
  size_t grants = 0;
  for (const LockInfo& lock : seen_.locks) {
    const auto known = tokens.find({lock.lock_namespace, lock.key});
    if (known == tokens.end() || known->second != lock.fencing_token) ++grants;
  }
  const double passed_s = looked_at_ ? std::chrono::duration<double>(now - *looked_at_).count() : 0;
  seen_.grants_per_s = passed_s > 0 ? static_cast<double>(grants) / passed_s : 0;
  looked_at_ = now;
}

std::vector<std::string> Picture(const Seen& seen, const View& view) {
  std::vector<std::string> lines = Head(seen, view);
  std::vector<const LockInfo*> sorted;
  for (const LockInfo& lock : seen.locks) sorted.push_back(&lock);
  std::sort(sorted.begin(), sorted.end(),
            [&](const LockInfo* a, const LockInfo* b) { return Before(*a, *b, view.order); });
  for (size_t i = view.first; i < sorted.size() && lines.size() < view.rows; ++i) lines.push_back(Row(*sorted[i]));
  if (lines.size() > view.rows) lines.resize(view.rows);
  return lines;
}

}  // namespace distlock::cli
