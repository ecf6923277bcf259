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
  bool all_namespaces = false;
  std::string prefix;
  bool all = false;
};

struct WatchArgs {
  std::string key;
  ListArgs search;
  bool many = false;  // all locks of `search`, instead of `key`
};

// As a namespace of ListLocks and WatchLocks.
constexpr char kAllNamespaces[] = "-";

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

// Appends to `json`.
Json LockAsJson(const v1::LockInfo& lock, bool with_waiters, Json json = {}) {
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

// `name`: the first columns.
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
  if (with_namespace_column) return absl::StrFormat("%-20s %-40s", lock.namespace_(), lock.key());
  return absl::StrFormat("%-40s", absl::StrCat(lock.namespace_(), "/", lock.key()));
}

// One line with at most kHolders holders.
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

bool PrintChange(const Context& context, const v1::LockInfo& lock) {
  const std::string time = FormatTime(google::protobuf::util::TimeUtil::GetCurrentTime());
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
  const auto channel = Connect(context, Patience::kLong);
  if (!channel) return kExitUnavailable;
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
  request.set_namespace_(args.all_namespaces ? kAllNamespaces : args.name_space);
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
      const std::string row = LockAsRow(lock, NameAsColumns(lock, args.all_namespaces));
      if (!context.Print(row, LockAsJson(lock, false))) return kExitInternal;
      ++printed;
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return kExitOk;
}

// --namespace, --prefix and -A.
void AddSearchFlags(CLI::App& command, ListArgs& args, const std::string& of_namespace, const std::string& of_prefix) {
  auto* one = command.add_option("--namespace", args.name_space, of_namespace + " (default \"default\")");
  auto* prefix = command.add_option("--prefix", args.prefix, of_prefix);
  one->option_text("NAME");
  prefix->option_text("P");
  command.add_flag("-A,--all-namespaces", args.all_namespaces, "All namespaces")
      ->excludes(one)
      ->excludes(prefix)
      ->option_text(" ");
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

  auto* list = app.add_subcommand("ls", "List the locks that are held");
  auto args = std::make_shared<ListArgs>();
  AddSearchFlags(*list, *args, "Namespace to list", "List only keys that begin with P");
  list->add_flag("--all", args->all, "List every lock, not only the first 1000");
  AddContextFlags(*list, context);
  list->footer(
      "Examples:\n"
      "  distlockctl ls --prefix deploy/\n"
      "  distlockctl ls --all -o json | jq -r .key\n"
      "  distlockctl ls -A");
  list->callback([&context, args] { context.command = [&context, args] { return List(context, *args); }; });
}

}  // namespace distlock::cli
