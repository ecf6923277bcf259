// SPDX-License-Identifier: Apache-2.0
//
// show, ls, watch: print who holds a lock and who waits for it. Read-only.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <google/protobuf/util/time_util.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <thread>

#include "commands.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "lock_flags.h"
#include "signals.h"

namespace distlock::cli {
namespace {

// ls prints at most so many locks without --all.
constexpr int kListedLocks = 1000;

struct ListArgs {
  std::string name_space;
  std::string prefix;
  bool all = false;
};

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
std::string ShareAsText(v1::LockMode mode, uint64_t permits) {
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
      .Number("token", static_cast<int64_t>(holder.fencing_token()));
  AddSince(json, holder.since());
  return json.Number("time_left_ms", FromProto(holder.time_left()).count())
      .Number("ttl_ms", FromProto(holder.ttl()).count())
      .Text("broker_id", holder.broker_id())
      .Flag("blocked", holder.blocked());
}

Json WaiterAsJson(const v1::Waiter& waiter) {
  Json json;
  json.Text("waiter_id", waiter.waiter_id())
      .Text("owner", waiter.owner())
      .Object("metadata", MetadataAsJson(waiter.metadata()))
      .Text("mode", ModeName(waiter.mode()))
      .Number("permits", waiter.permits());
  AddSince(json, waiter.since());
  return json.Text("broker_id", waiter.broker_id());
}

// The number of holders; the answer may list fewer. An older broker leaves holder_count 0.
uint32_t HolderCount(const v1::LockInfo& lock) {
  return std::max(lock.holder_count(), static_cast<uint32_t>(lock.holders_size()));
}

uint32_t UnlistedHolders(const v1::LockInfo& lock) {
  return HolderCount(lock) - static_cast<uint32_t>(lock.holders_size());
}

// The mode or the permits of all holders together.
std::string HeldShareAsText(const v1::LockInfo& lock) {
  const v1::LockMode mode = lock.holders(0).mode();
  if (UnlistedHolders(lock) > 0) return ModeName(mode);
  uint64_t permits = 0;
  for (const v1::Holder& holder : lock.holders()) permits += holder.permits();
  return ShareAsText(mode, permits);
}

// Appends to `json`.
Json LockAsJson(const v1::LockInfo& lock, bool with_waiters, Json json = {}) {
  std::vector<Json> holders;
  for (const v1::Holder& holder : lock.holders()) holders.push_back(HolderAsJson(holder));
  json.Text("namespace", lock.namespace_())
      .Text("key", lock.key())
      .Number("token", static_cast<int64_t>(lock.fencing_token()))
      .Number("queue_length", lock.queue_length())
      .Number("holder_count", HolderCount(lock))
      .List("holders", holders);
  if (!with_waiters) return json;
  std::vector<Json> waiters;
  for (const v1::Waiter& waiter : lock.waiters()) waiters.push_back(WaiterAsJson(waiter));
  return json.List("waiters", waiters);
}

std::string MetadataAsText(const google::protobuf::Map<std::string, std::string>& metadata) {
  std::string out;
  for (const auto& [name, value] : std::map<std::string, std::string>(metadata.begin(), metadata.end())) {
    absl::StrAppend(&out, " ", name, "=", value);
  }
  return out;
}

std::string StateName(const v1::LockInfo& lock) {
  if (lock.holders().empty()) return "free";
  const bool nobody = std::all_of(lock.holders().begin(), lock.holders().end(),
                                  [](const v1::Holder& holder) { return holder.blocked(); });
  return nobody ? "blocked" : "held";
}

std::string HolderAsText(const v1::Holder& holder) {
  if (holder.blocked()) {
    return absl::StrCat("  blocked for another ", FormatDuration(FromProto(holder.time_left())), " (lock delay of ",
                        holder.owner(), ")");
  }
  return absl::StrCat("  holder ", holder.owner(), "  ", ShareAsText(holder.mode(), holder.permits()),
                      SinceAsText(holder.since()), "  left ", FormatDuration(FromProto(holder.time_left())), "  token ",
                      holder.fencing_token(), "  id ", holder.holder_id(), MetadataAsText(holder.metadata()));
}

std::vector<std::string> LockAsText(const v1::LockInfo& lock) {
  std::vector<std::string> lines = {
      absl::StrCat(lock.namespace_(), "/", lock.key(), "  ", StateName(lock), ", ", lock.queue_length(), " waiting")};
  for (const v1::Holder& holder : lock.holders()) lines.push_back(HolderAsText(holder));
  if (UnlistedHolders(lock) > 0) lines.push_back(absl::StrCat("  and ", UnlistedHolders(lock), " more holders"));
  int place = 0;
  for (const v1::Waiter& waiter : lock.waiters()) {
    lines.push_back(absl::StrCat("  waiter ", ++place, " ", waiter.owner(), "  ",
                                 ShareAsText(waiter.mode(), waiter.permits()), SinceAsText(waiter.since()), "  id ",
                                 waiter.waiter_id(), MetadataAsText(waiter.metadata())));
  }
  const int unseen = static_cast<int>(lock.queue_length()) - lock.waiters_size();
  if (unseen > 0) lines.push_back(absl::StrCat("  and ", unseen, " more waiters"));
  return lines;
}

std::string LockAsRow(const v1::LockInfo& lock) {
  const std::string name = absl::StrCat(lock.namespace_(), "/", lock.key());
  if (lock.holders().empty()) {
    return absl::StrFormat("%-40s %-8s %-10s %5d waiting", name, StateName(lock), "", lock.queue_length());
  }
  const v1::Holder& holder = lock.holders(0);
  const std::string others = HolderCount(lock) > 1 ? absl::StrCat(" and ", HolderCount(lock) - 1, " more") : "";
  return absl::StrFormat("%-40s %-8s %-10s %5d waiting  left %-8s %s%s", name, StateName(lock), HeldShareAsText(lock),
                         lock.queue_length(), FormatDuration(FromProto(holder.time_left())), holder.owner(), others);
}

// One line with at most kHolders holders.
std::string ChangeAsText(const v1::LockInfo& lock, const std::string& time) {
  constexpr int kHolders = 16;
  std::string out = absl::StrCat(time, "  ", lock.namespace_(), "/", lock.key(), "  ", StateName(lock), ", ",
                                 lock.queue_length(), " waiting");
  for (int i = 0; i < std::min(lock.holders_size(), kHolders); ++i) {
    const v1::Holder& holder = lock.holders(i);
    absl::StrAppend(&out, holder.blocked() ? "; lock delay of " : "; holder ", holder.owner(), "  ",
                    ShareAsText(holder.mode(), holder.permits()), "  token ", holder.fencing_token());
    if (!holder.holder_id().empty()) absl::StrAppend(&out, "  id ", holder.holder_id());
  }
  if (HolderCount(lock) > kHolders) absl::StrAppend(&out, "; and ", HolderCount(lock) - kHolders, " more holders");
  return out;
}

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

int Watch(const Context& context, const LockFlags& flags) {
  Signals signals;
  const auto channel = Connect(context, Patience::kLong);
  if (!channel) return kExitUnavailable;
  v1::WatchLockRequest request;
  request.set_namespace_(flags.name_space);
  request.set_key(flags.key);
  grpc::ClientContext call;
  const auto stream = v1::LockService::NewStub(channel)->WatchLock(&call, request);
  EndBySignal end(signals, call);
  bool printed = true;
  v1::WatchLockResponse change;
  while (printed && stream->Read(&change)) {
    const std::string time = FormatTime(google::protobuf::util::TimeUtil::GetCurrentTime());
    const Json json = LockAsJson(change.lock(), true, Json().Text("time", time));
    printed = context.Print(ChangeAsText(change.lock(), time), json);
  }
  if (!printed) call.TryCancel();
  const grpc::Status status = stream->Finish();
  if (!printed) return kExitInternal;
  return end.came() || status.ok() ? kExitOk : context.Fail(FailureFrom(status));
}

int Show(const Context& context, const LockFlags& flags) {
  const auto channel = Connect(context);
  if (!channel) return kExitUnavailable;
  v1::GetLockRequest request;
  request.set_namespace_(flags.name_space);
  request.set_key(flags.key);
  v1::GetLockResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  const grpc::Status status = v1::LockService::NewStub(channel)->GetLock(&call, request, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  const bool printed = context.PrintLines(LockAsText(response.lock()), LockAsJson(response.lock(), true));
  return printed ? kExitOk : kExitInternal;
}

int List(const Context& context, const ListArgs& args) {
  const auto channel = Connect(context);
  if (!channel) return kExitUnavailable;
  const auto stub = v1::LockService::NewStub(channel);
  v1::ListLocksRequest request;
  request.set_namespace_(args.name_space);
  request.set_key_prefix(args.prefix);
  request.set_page_size(1000);
  int printed = 0;
  // A page may be empty although more pages follow: only an empty page token is the end.
  do {
    v1::ListLocksResponse page;
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
    const grpc::Status status = stub->ListLocks(&call, request, &page);
    if (!status.ok()) return context.Fail(FailureFrom(status));
    for (const v1::LockInfo& lock : page.locks()) {
      if (!args.all && printed == kListedLocks) {
        context.Warn(absl::StrCat("there are more than these ", kListedLocks, " locks: --all lists every one"));
        return kExitOk;
      }
      if (!context.Print(LockAsRow(lock), LockAsJson(lock, false))) return kExitInternal;
      ++printed;
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return kExitOk;
}

}  // namespace

void AddInspectCommands(CLI::App& app, Context& context) {
  auto* show = app.add_subcommand("show", "Print who holds a lock and who waits for it");
  auto flags = std::make_shared<LockFlags>();
  AddKeyFlags(*show, *flags);
  AddContextFlags(*show, context);
  show->footer(
      "Examples:\n"
      "  distlockctl show deploy\n"
      "  distlockctl show deploy -o json | jq -r '.holders[].owner'");
  show->callback([&context, flags] { context.command = [&context, flags] { return Show(context, *flags); }; });

  auto* watch = app.add_subcommand("watch", "Print a line for each change of a lock's holders and waiters");
  auto watched = std::make_shared<LockFlags>();
  AddKeyFlags(*watch, *watched);
  AddContextFlags(*watch, context);
  watch->footer(
      "The first line shows the present state. Renewals print nothing, and several fast changes may print one line.\n"
      "Exit code: 0 ended by a signal; 69 the broker went away or drains: start again with another broker.\n\n"
      "Examples:\n"
      "  distlockctl watch deploy\n"
      "  distlockctl watch deploy -o json | jq -r '[.time, .holders[].owner] | @tsv'");
  watch->callback([&context, watched] { context.command = [&context, watched] { return Watch(context, *watched); }; });

  auto* list = app.add_subcommand("ls", "List the locks that are held");
  auto args = std::make_shared<ListArgs>();
  list->add_option("--namespace", args->name_space, "Namespace to list (default \"default\")")->type_name("NAME");
  list->add_option("--prefix", args->prefix, "List only keys that begin with P")->type_name("P");
  list->add_flag("--all", args->all, "List every lock, not only the first 1000");
  AddContextFlags(*list, context);
  list->footer(
      "Examples:\n"
      "  distlockctl ls --prefix deploy/\n"
      "  distlockctl ls --all -o json | jq -r .key");
  list->callback([&context, args] { context.command = [&context, args] { return List(context, *args); }; });
}

}  // namespace distlock::cli
