// SPDX-License-Identifier: Apache-2.0
//
// acquire, renew, release: a lease that belongs to no stream, so that one process can take it and another release it.

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <distlock/detached.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "commands.h"
#include "lock_flags.h"

namespace distlock::cli {
namespace {

struct LeaseArgs {
  LockFlags lock;
  std::string request_id;
  std::string lease_file;
  std::string lease_id;
};

// A caller that gives a lock's name where a lease is wanted has no lease, and often means force-release.
constexpr char kForceInstead[] = "; distlockctl force-release NAME takes a lock from whoever holds it";

// In the format that systemd's EnvironmentFile= and a shell's `.` read; no value needs quoting.
std::string LeaseAsEnvironment(const DetachedLease& lease) {
  return absl::StrCat("DISTLOCK_LEASE_ID=", lease.lease_id, "\nDISTLOCK_TOKEN=", lease.token,
                      "\nDISTLOCK_HOLDER_ID=", lease.holder_id, "\nDISTLOCK_TTL=", FormatDuration(lease.ttl));
}

Json LeaseAsJson(const LockFlags& lock, const DetachedLease& lease) {
  return Json{{"namespace", lock.name_space},
              {"key", lock.key},
              {"lease_id", lease.lease_id},
              {"holder_id", lease.holder_id},
              {"token", lease.token},
              {"ttl_ms", InMillis(lease.ttl)},
              {"valid_for_ms", InMillis(lease.time_left())},
              {"waited_ms", InMillis(lease.waited)}};
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

DetachedMode ModeOf(const LockFlags& flags) {
  if (flags.limit > 0) return {.mode = LockMode::kPermit, .permits = flags.permits, .limit = flags.limit};
  return {.mode = flags.shared ? LockMode::kShared : LockMode::kExclusive};
}

int Acquire(const Context& context, const LeaseArgs& args) {
  const bool waits_alone = !args.lock.shared && args.lock.limit == 0 && args.lock.max_wait != Millis(0);
  if (const auto own = waits_alone ? HeldByOwnJob(args.lock) : std::nullopt) context.Warn(*own);
  const Millis patience = args.lock.Patience(context);
  const auto [client, failed] = Open(context, patience);
  if (!client) return failed;
  DetachedLocks locks(*client);
  const auto lease = locks.Acquire(args.lock.key, args.lock.Options(), ModeOf(args.lock), args.request_id);
  if (!lease.ok()) return FailToTake(context, args.lock, FailureFrom(context, lease.refusal(), patience));
  const std::string text = LeaseAsEnvironment(*lease) + "\n";
  const std::string json = Line(LeaseAsJson(args.lock, *lease)) + "\n";
  const bool told =
      args.lease_file.empty() ? context.PrintText(context.json ? json : text) : WriteSecretFile(args.lease_file, text);
  if (told) return kExitOk;
  // The lease_id was not written, so no program could release the lock before its ttl ends.
  static_cast<void>(locks.Release(lease->lease_id));
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
  const std::string lease_id = LeaseIdFrom(args);
  if (lease_id.empty()) return NoLeaseId(context);
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto renewed = DetachedLocks(*client).Renew(lease_id);
  if (!renewed.ok()) return context.Fail(FailureFrom(context, renewed.refusal()));
  const Duration left = DetachedLease{.valid_until = renewed->valid_until}.time_left();
  const bool printed =
      context.Print(absl::StrCat("renewed, valid for ", FormatDuration(left)),
                    Json{{"outcome", "renewed"}, {"valid_for_ms", InMillis(left)}, {"ttl_ms", InMillis(renewed->ttl)}});
  return printed ? kExitOk : kExitInternal;
}

int Downgrade(const Context& context, const LeaseArgs& args) {
  const std::string lease_id = LeaseIdFrom(args);
  if (lease_id.empty()) return NoLeaseId(context);
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  if (const auto refusal = DetachedLocks(*client).Downgrade(lease_id)) {
    return context.Fail(FailureFrom(context, *refusal));
  }
  return context.Print("downgraded", Json{{"outcome", "downgraded"}}) ? kExitOk : kExitInternal;
}

int Release(const Context& context, const LeaseArgs& args) {
  const std::string lease_id = LeaseIdFrom(args);
  if (lease_id.empty()) return NoLeaseId(context);
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto released = DetachedLocks(*client).Release(lease_id);
  if (!released.ok()) {
    Failure failure = FailureFrom(context, released.refusal());
    if (released.refusal().reason == RefusalReason::kInvalidArgument) {
      for (auto& [field, problem] : failure.fields) problem += kForceInstead;
      failure.message += kForceInstead;
    }
    return context.Fail(failure);
  }
  const std::string outcome = absl::AsciiStrToLower(std::string(Name(*released)));
  return context.Print(outcome, Json{{"outcome", outcome}}) ? kExitOk : kExitInternal;
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
      "Exit code: 0 it is shared, also when it already was; 75 it is not held any more; 69 it cannot be shared.\n\n"
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
      "LEASE_ID names a lease and no lock: distlockctl force-release NAME takes a lock from whoever holds it.\n\n"
      "Examples:\n"
      "  distlockctl release                     # DISTLOCK_LEASE_ID\n"
      "  distlockctl release - < /run/nightly/lease");
  release->callback([&context, release_args] {
    context.command = [&context, release_args] { return Release(context, *release_args); };
  });
}

}  // namespace distlock::cli
