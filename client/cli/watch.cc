// SPDX-License-Identifier: Apache-2.0
//
// watch: prints a line for each change of a lock, or of all locks of a search, until a signal. Read-only.

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <thread>

#include "commands.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "lock_view.h"
#include "search_flags.h"
#include "signals.h"

namespace distlock::cli {
namespace {

struct WatchArgs {
  std::string key;
  ListArgs search;
  bool many = false;  // all locks of `search`, instead of `key`
};

// Cancels a call when a signal comes that would end the process. Its thread ends with this object.
class EndBySignal {
 public:
  EndBySignal(Signals& signals, grpc::ClientContext& call)
      : signals_(signals), call_(call), over_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { Wait(); }) {}
  ~EndBySignal() {
    ::eventfd_write(over_, 1);
    thread_.join();
    ::close(over_);
  }
  bool came() const { return came_; }

 private:
  void Wait() {
    pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {over_, POLLIN, 0}};
    while (::poll(fds, 2, -1) < 0 || fds[1].revents == 0) {
      while (const auto signo = signals_.Take()) {
        if (*signo == SIGTSTP) StopAsBy(SIGTSTP);
        if (!EndsAProcess(*signo)) continue;
        came_ = true;
        call_.TryCancel();
      }
    }
  }

  Signals& signals_;
  grpc::ClientContext& call_;
  const int over_;
  std::atomic<bool> came_ = false;
  std::thread thread_;
};

// Now, but never before what it tells of: those times are of the store's clock, which may be ahead of this machine's.
std::string TimeOfChange(const v1::LockInfo& lock) {
  std::string time = absl::FormatTime(kRfc3339Millis, absl::Now(), absl::UTCTimeZone());
  const auto not_before = [&](const google::protobuf::Timestamp& since) { time = std::max(time, FormatTime(since)); };
  for (const v1::Holder& holder : lock.holders()) not_before(holder.acquire_time());
  for (const v1::Waiter& waiter : lock.waiters()) not_before(waiter.start_time());
  if (lock.has_block()) not_before(lock.block().start_time());
  return time;
}

bool PrintChange(const Context& context, const v1::LockInfo& lock) {
  const std::string time = TimeOfChange(lock);
  return context.Print(ChangeAsText(lock, time), LockAsJson(lock, true, Json().Text("time", time)));
}

bool PrintChange(const Context& context, const v1::WatchLockResponse& change) {
  return PrintChange(context, change.lock());
}

bool PrintChange(const Context& context, const v1::WatchLocksResponse& changes) {
  return std::ranges::all_of(changes.locks(), [&](const auto& lock) { return PrintChange(context, lock); });
}

// Reads and prints until the stream of `call` or this process is to end.
template <typename Response>
int PrintChanges(const Context& context, Signals& signals, grpc::ClientContext& call,
                 const std::unique_ptr<grpc::ClientReader<Response>>& stream) {
  EndBySignal end(signals, call);
  bool printed = true;
  Response change;
  while (printed && stream->Read(&change)) printed = PrintChange(context, change);
  if (!printed) call.TryCancel();
  const grpc::Status status = stream->Finish();
  if (!printed) return kExitInternal;
  return end.came() || status.ok() ? kExitOk : context.Fail(FailureFrom(status));
}

int Watch(const Context& context, const WatchArgs& args) {
  Signals signals;
  const auto [channel, failed] = Connect(context, Patience::kLong);
  if (!channel) return failed;
  const auto stub = v1::LockService::NewStub(channel);
  grpc::ClientContext call;
  if (!args.many) {
    v1::WatchLockRequest request;
    request.set_namespace_(args.search.name_space);
    request.set_key(args.key);
    return PrintChanges(context, signals, call, stub->WatchLock(&call, request));
  }
  v1::WatchLocksRequest request;
  request.set_namespace_(args.search.all_namespaces ? kAllNamespaces : args.search.name_space);
  request.set_key_prefix(args.search.prefix);
  return PrintChanges(context, signals, call, stub->WatchLocks(&call, request));
}

}  // namespace

void AddWatch(CLI::App& app, Context& context) {
  auto* watch = app.add_subcommand("watch", "Print a line for each change of a lock's holders and waiters");
  auto watched = std::make_shared<WatchArgs>();
  auto* watched_key = watch->add_option("KEY", watched->key, "Key of the lock")->option_text(" ");
  AddSearchFlags(*watch, watched->search, "Namespace of the lock or the prefix", "Watch all locks that begin with P");
  AddContextFlags(*watch, context);
  watch->footer(
      "The first line shows the present state. Renewals print nothing, and several fast changes may print one line.\n"
      "Of --prefix and -A: first a line for each lock that is taken, in any order. A lock that is taken later is "
      "found\n"
      "by looking at the store once a second, and less often in a large store.\n"
      "Exit code: 0 ended by a signal; 69 the broker went away or drains: start again with another broker.\n\n"
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
    context.command = [&context, watched] { return Watch(context, *watched); };
  });
}

}  // namespace distlock::cli
