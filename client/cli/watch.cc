// SPDX-License-Identifier: Apache-2.0
//
// watch: prints a line for each change of a lock, or of all locks of a search, until a signal. Read-only.

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <distlock/inspect.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "commands.h"
#include "end_by_signal.h"
#include "lock_view.h"
#include "other_reading.h"
#include "search_flags.h"

namespace distlock::cli {
namespace {

struct WatchArgs {
  LockFlags lock;
  ListArgs search;
  bool many = false;  // all locks of `search`, instead of `key`
};

// Now, but never before what it tells of: those times are of the store's clock, which may be ahead of this machine's.
std::string TimeOfChange(const LockInfo& lock) {
  std::string time = absl::FormatTime(kRfc3339Millis, absl::Now(), absl::UTCTimeZone());
  const auto not_before = [&](std::chrono::system_clock::time_point since) {
    time = std::max(time, FormatTime(since));
  };
  for (const Holder& holder : lock.holders) not_before(holder.acquire_time);
  for (const Waiter& waiter : lock.waiters)
    not_before(waiter.start_time.value_or(std::chrono::system_clock::time_point()));
  if (lock.block) not_before(lock.block->start_time);
  return time;
}

bool PrintChange(const Context& context, const LockInfo& lock) {
  const std::string time = TimeOfChange(lock);
  return context.Print(ChangeAsText(lock, time), LockAsJson(lock, true, Json{{"time", time}}));
}

// The last line of each lock. A watch that had to connect anew is told the present state again, and prints only the
// locks that have changed meanwhile.
class Printed {
 public:
  bool IsNew(const LockInfo& lock) {
    LockInfo timeless = lock;
    for (Holder& holder : timeless.holders) holder.time_left = holder.held_for = {};
    if (timeless.block) timeless.block->time_left = {};
    std::string now = Line(LockAsJson(timeless, true));
    std::string& last = last_[{lock.lock_namespace, lock.key}];
    if (last == now) return false;
    last = std::move(now);
    return true;
  }
  void Forget(const LockInfo& lock) { last_.erase({lock.lock_namespace, lock.key}); }

 private:
  std::map<std::pair<std::string, std::string>, std::string> last_;
};

// A watch goes on when no broker is found; the first time it is to say so.
std::optional<Refusal> Unreachable(Inspector& inspector, const WatchArgs& args) {
  const auto of = [](const auto& looked) {
    const bool unreachable = !looked.ok() && !looked.refusal().cause.empty();
    return unreachable ? std::optional(looked.refusal()) : std::nullopt;
  };
  return args.many ? of(inspector.List(args.search.prefix, args.search.name_space, "", 1))
                   : of(inspector.Look(args.lock.key, args.lock.name_space));
}

int Watch(const Context& context, const WatchArgs& args) {
  Signals signals;
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  EndBySignal end(signals);
  bool printed = true;
  bool first = !args.many;
  Printed last;
  const auto print = [&](const LockInfo& lock) {
    if (std::exchange(first, false) && IsFree(lock)) WarnOfOtherReading(context, *client, args.lock);
    if (last.IsNew(lock)) printed = printed && PrintChange(context, lock);
    if (args.many && IsFree(lock)) last.Forget(lock);
    if (!printed) end.End();
  };
  Inspector inspector(*client);
  if (const auto why = Unreachable(inspector, args)) return context.Fail(FailureFrom(context, *why));
  const Refusal why = args.many ? inspector.WatchAll(args.search.prefix, print, end.token(), args.search.name_space)
                                : inspector.Watch(args.lock.key, print, end.token(), args.lock.name_space);
  if (!printed) return kExitInternal;
  return why.reason == RefusalReason::kCancelled ? kExitOk : context.Fail(FailureFrom(context, why));
}

}  // namespace

void AddWatch(CLI::App& app, Context& context) {
  auto* watch = app.add_subcommand("watch", "Print a line for each change of a lock's holders and waiters");
  auto watched = std::make_shared<WatchArgs>();
  auto* watched_key =
      watch->add_option("KEY", watched->lock.key, "Name of the lock: KEY, or NAMESPACE:KEY")->option_text(" ");
  AddSearchFlags(*watch, watched->search, "Namespace of the lock or the prefix", "Watch all locks that begin with P");
  AddContextFlags(*watch, context);
  watch->footer(
      "The first line shows the present state. Renewals print nothing, and several fast changes may print one line.\n"
      "Of --prefix and -A: first a line for each lock that is taken, in any order. A lock that is taken later is "
      "found\n"
      "by looking at the store once a second, and less often in a large store.\n"
      "When the broker goes away, drains, or something between cuts the connection, it goes on at a broker that\n"
      "answers, and prints what has changed meanwhile; of --prefix and -A not which locks have become free.\n"
      "Exit code: 0 ended by a signal; 69 no broker answered at the start.\n\n"
      "Examples:\n"
      "  distlockctl watch deploy\n"
      "  distlockctl watch deploy -o json | jq -r '[.time, .holders[].owner] | @tsv'\n"
      "  distlockctl watch --prefix deploy/\n"
      "  distlockctl watch -A");
  watch->callback([&context, watch, watched, watched_key] {
    watched->many = watch->count("--prefix") + watch->count("--all-namespaces") > 0;
    if (watched->many == (watched_key->count() > 0)) {
      throw CLI::ValidationError("KEY", "give one KEY, or --prefix or -A instead");
    }
    watched->lock.name_space = watched->search.name_space;
    watched->many ? ReadSearch(watched->search) : ReadNames(watched->lock, watched_key);
    context.command = [&context, watched] { return Watch(context, *watched); };
  });
}

}  // namespace distlock::cli
