// SPDX-License-Identifier: Apache-2.0
//
// acquire, renew, release: a lease that belongs to no stream, so that one process can take it and another release it.

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <random>

#include "commands.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "lock_flags.h"

namespace distlock::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct LeaseArgs {
  LockFlags lock;
  std::string request_id;
  std::string lease_file;
  std::string lease_id;
};

// By a clock that goes on while the machine is suspended.
Millis BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::duration_cast<Millis>(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

Millis LeftOf(Millis deadline) { return std::max(deadline - BootNow(), Millis(0)); }

std::string RandomUuid() {
  std::random_device random;
  uint32_t word[4];
  for (uint32_t& w : word) w = random();
  word[1] = (word[1] & 0xffff0fffU) | 0x00004000U;
  word[2] = (word[2] & 0x3fffffffU) | 0x80000000U;
  char text[37];
  std::snprintf(text, sizeof(text), "%08x-%04x-%04x-%04x-%04x%08x", word[0], word[1] >> 16, word[1] & 0xffff,
                word[2] >> 16, word[2] & 0xffff, word[3]);
  return text;
}

// In the format that systemd's EnvironmentFile= and a shell's `.` read; no value needs quoting.
std::string GrantAsEnvironment(const v1::Grant& grant) {
  return absl::StrCat("DISTLOCK_LEASE_ID=", grant.lease_id(), "\nDISTLOCK_TOKEN=", grant.fencing_token(),
                      "\nDISTLOCK_HOLDER_ID=", grant.holder_id(),
                      "\nDISTLOCK_TTL=", FormatDuration(FromProto(grant.ttl())));
}

// `left`: how long the lease may still be believed in.
Json GrantAsJson(const v1::Grant& grant, Millis left) {
  return Json()
      .Text("namespace", grant.namespace_())
      .Text("key", grant.key())
      .Text("lease_id", grant.lease_id())
      .Text("holder_id", grant.holder_id())
      .Number("token", grant.fencing_token())
      .Number("ttl_ms", FromProto(grant.ttl()).count())
      .Number("valid_for_ms", left.count())
      .Number("waited_ms", FromProto(grant.waited()).count());
}

bool WriteAndClose(int fd, const std::string& content) {
  if (fd < 0) return false;
  const bool written = ::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  return ::close(fd) == 0 && written;
}

// Replaces a regular file atomically, readable by its owner only; follows a symbolic link. Writes into a pipe or device
// in place, and does not wait for a reader of the pipe, because the lease is running.
bool WriteSecretFile(const std::string& path, const std::string& content) {
  struct stat found{};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  bool good = false;
  if (exists && !S_ISREG(found.st_mode)) {
    good = WriteAndClose(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), content);
  } else {
    char* const resolved = exists ? ::realpath(path.c_str(), nullptr) : nullptr;
    const std::string target = resolved != nullptr ? resolved : path;
    std::free(resolved);
    const std::string draft = absl::StrCat(target, ".", ::getpid());
    const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    good = WriteAndClose(fd, content) && ::rename(draft.c_str(), target.c_str()) == 0;
    if (!good && fd >= 0) {
      const int why = errno;
      ::unlink(draft.c_str());
      errno = why;
    }
  }
  if (!good) std::fprintf(stderr, "distlockctl: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
  return good;
}

bool IsBroken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && !FailureFrom(status).from_broker;
}

// Repeats the request under the same request_id when the connection breaks, since the lock may be granted already.
// `sent`: when the last one was sent, by BootNow.
grpc::Status AcquireUntilAnswered(const Context& context, std::shared_ptr<grpc::Channel>& channel,
                                  v1::AcquireRequest& request, const LockFlags& flags, v1::AcquireResponse* response,
                                  Millis* sent) {
  const auto give_up_waiting = Clock::now() + flags.max_wait.value_or(Millis(0));
  while (true) {
    *sent = BootNow();
    grpc::ClientContext call;
    if (flags.max_wait) {
      const auto left = std::max(Millis(0), std::chrono::duration_cast<Millis>(give_up_waiting - Clock::now()));
      *request.mutable_locks(0)->mutable_max_wait() = ToProto(left);
      call.set_deadline(std::chrono::system_clock::now() + left + context.connect_timeout);
    }
    const grpc::Status status = v1::LockService::NewStub(channel)->Acquire(&call, request, response);
    if (!IsBroken(status)) return status;
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + context.connect_timeout)) return status;
  }
}

void GiveBack(const Context& context, const std::shared_ptr<grpc::Channel>& channel, const std::string& lease_id) {
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  v1::ReleaseResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  v1::LockService::NewStub(channel)->Release(&call, request, &response);
}

Failure NotOneGrant(int grants) {
  Failure failure;
  failure.reason = "INTERNAL";
  failure.message = absl::StrCat("the broker answered the request for one lock with ", grants, " grants");
  return failure;
}

int Acquire(const Context& context, const LeaseArgs& args) {
  // Without -w the call has no deadline: only keepalive pings show that the broker's machine is gone.
  const bool waits_alone = !args.lock.shared && args.lock.limit == 0 && args.lock.max_wait != Millis(0);
  if (const auto own = waits_alone ? HeldByOwnJob(args.lock) : std::nullopt) context.Warn(*own);
  auto [channel, failed] = Connect(context, Patience::kLong);
  if (!channel) return failed;
  v1::AcquireRequest request;
  *request.add_locks() = args.lock.ToSpec();
  request.set_request_id(args.request_id.empty() ? RandomUuid() : args.request_id);
  v1::AcquireResponse response;
  Millis sent{};
  const grpc::Status status = AcquireUntilAnswered(context, channel, request, args.lock, &response, &sent);
  if (IsBroken(status)) return context.Fail(Unreachable(context, status.error_message(), context.connect_timeout));
  if (!status.ok()) return FailToTake(context, args.lock, FailureFrom(status));

  if (response.grants_size() != 1) return context.Fail(NotOneGrant(response.grants_size()));
  const v1::Grant& grant = response.grants(0);
  const std::string text = GrantAsEnvironment(grant) + "\n";
  const Millis left = LeftOf(sent + FromProto(grant.waited()) + FromProto(grant.valid_for()));
  const std::string json = GrantAsJson(grant, left).Line() + "\n";
  const bool told =
      args.lease_file.empty() ? context.PrintText(context.json ? json : text) : WriteSecretFile(args.lease_file, text);
  if (told) return kExitOk;
  // The lease_id was not written, so no program could release the lock before its ttl ends.
  GiveBack(context, channel, grant.lease_id());
  return kExitInternal;
}

// "" when there is none. Also reads stdin and the environment, because other users of the machine can read argv.
std::string LeaseIdFrom(const LeaseArgs& args) {
  if (args.lease_id == "-") {
    std::string line;
    std::getline(std::cin, line);
    line = std::string(absl::StripAsciiWhitespace(line));
    constexpr std::string_view kName = "DISTLOCK_LEASE_ID=";
    return line.rfind(kName, 0) == 0 ? line.substr(kName.size()) : line;
  }
  if (!args.lease_id.empty()) return args.lease_id;
  const char* from_env = std::getenv("DISTLOCK_LEASE_ID");
  return from_env != nullptr ? from_env : "";
}

int NoLeaseId(const Context& context) {
  return context.Fail(
      UsageFailure("no lease: give LEASE_ID, '-' to read it from stdin, or set DISTLOCK_LEASE_ID (see --help)"));
}

int Renew(const Context& context, const LeaseArgs& args) {
  v1::RenewRequest request;
  request.set_lease_id(LeaseIdFrom(args));
  if (request.lease_id().empty()) return NoLeaseId(context);
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::RenewResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  const Millis sent = BootNow();
  const grpc::Status status = v1::LockService::NewStub(channel)->Renew(&call, request, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  const Millis valid_for = LeftOf(sent + FromProto(response.valid_for()));
  const Millis ttl = FromProto(response.ttl());
  const bool printed = context.Print(
      absl::StrCat("renewed, valid for ", FormatDuration(valid_for)),
      Json().Text("outcome", "renewed").Number("valid_for_ms", valid_for.count()).Number("ttl_ms", ttl.count()));
  return printed ? kExitOk : kExitInternal;
}

int Downgrade(const Context& context, const LeaseArgs& args) {
  v1::DowngradeRequest request;
  request.set_lease_id(LeaseIdFrom(args));
  if (request.lease_id().empty()) return NoLeaseId(context);
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::DowngradeResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  const grpc::Status status = v1::LockService::NewStub(channel)->Downgrade(&call, request, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  return context.Print("downgraded", Json().Text("outcome", "downgraded")) ? kExitOk : kExitInternal;
}

const char* OutcomeName(v1::ReleaseOutcome outcome) {
  switch (outcome) {
    case v1::RELEASE_OUTCOME_RELEASED:
      return "released";
    case v1::RELEASE_OUTCOME_STILL_HELD:
      return "still_held";
    case v1::RELEASE_OUTCOME_ALREADY_GONE:
      return "already_gone";
    default:
      return "unknown";
  }
}

int Release(const Context& context, const LeaseArgs& args) {
  v1::ReleaseRequest request;
  request.set_lease_id(LeaseIdFrom(args));
  if (request.lease_id().empty()) return NoLeaseId(context);
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::ReleaseResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  const grpc::Status status = v1::LockService::NewStub(channel)->Release(&call, request, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  const char* const outcome = OutcomeName(response.outcome());
  return context.Print(outcome, Json().Text("outcome", outcome)) ? kExitOk : kExitInternal;
}

void AddAcquire(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("acquire", "Take a lock and print its lease, which the caller must renew and release");
  auto args = std::make_shared<LeaseArgs>();
  AddLockFlags(*command, args->lock);
  command
      ->add_option("--request-id", args->request_id,
                   "16 to 64 characters; a repeat gets the same grant while it lasts (default: a random UUID)")
      ->type_name("ID");
  command->add_option("--lease-file", args->lease_file, "Write the lease to this file (mode 0600) instead of stdout")
      ->type_name("FILE");
  AddContextFlags(*command, context);
  command->footer(
      "The broker does not renew this lease: renew it within its ttl, or choose a ttl that covers the work.\n"
      "LEASE_ID is a secret: everybody who knows it can release the lock.\n\n"
      "Examples:\n"
      "  lease=$(distlockctl acquire backup -w 30s --ttl 10m) && export $lease; ...; distlockctl release\n"
      "  lease=$(distlockctl acquire encode --limit 4 --permits 2 --ttl 10m)\n"
      "  ExecStartPre=distlockctl acquire nightly -n --ttl 1h --lease-file /run/nightly/lease\n"
      "  EnvironmentFile=-/run/nightly/lease\n"
      "  ExecStopPost=distlockctl release");
  command->callback([&context, args] { context.command = [&context, args] { return Acquire(context, *args); }; });
}

void AddLeaseId(CLI::App& command, LeaseArgs& args) {
  command
      .add_option("LEASE_ID", args.lease_id,
                  "The lease id that acquire printed; '-' reads it from stdin (default: DISTLOCK_LEASE_ID)")
      ->option_text(" ");
}

}  // namespace

void AddLeaseCommands(CLI::App& app, Context& context) {
  AddAcquire(app, context);

  auto* renew = app.add_subcommand("renew", "Extend a lease by its ttl; exit code 75 when it is not held any more");
  auto renew_args = std::make_shared<LeaseArgs>();
  AddLeaseId(*renew, *renew_args);
  AddContextFlags(*renew, context);
  renew->footer(
      "Examples:\n"
      "  distlockctl renew                       # DISTLOCK_LEASE_ID\n"
      "  distlockctl renew - < /run/nightly/lease");
  renew->callback(
      [&context, renew_args] { context.command = [&context, renew_args] { return Renew(context, *renew_args); }; });

  auto* downgrade =
      app.add_subcommand("downgrade", "Make an exclusive lease a shared one, so that readers enter beside it");
  auto downgrade_args = std::make_shared<LeaseArgs>();
  AddLeaseId(*downgrade, *downgrade_args);
  AddContextFlags(*downgrade, context);
  downgrade->footer(
      "The lease keeps its token and its ttl, and nobody holds the lock alone in between. There is no way back.\n"
      "Exit code: 0 it is shared, also when it already was; 75 it is not held any more; 64 it cannot be shared.\n\n"
      "Examples:\n"
      "  distlockctl downgrade                   # DISTLOCK_LEASE_ID\n"
      "  distlockctl downgrade - < /run/nightly/lease");
  downgrade->callback([&context, downgrade_args] {
    context.command = [&context, downgrade_args] { return Downgrade(context, *downgrade_args); };
  });

  auto* release = app.add_subcommand("release", "Release a lease; exit code 0 also when it has already ended");
  auto release_args = std::make_shared<LeaseArgs>();
  AddLeaseId(*release, *release_args);
  AddContextFlags(*release, context);
  release->footer(
      "Examples:\n"
      "  distlockctl release                     # DISTLOCK_LEASE_ID\n"
      "  distlockctl release - < /run/nightly/lease");
  release->callback([&context, release_args] {
    context.command = [&context, release_args] { return Release(context, *release_args); };
  });
}

}  // namespace distlock::cli
