// SPDX-License-Identifier: Apache-2.0
//
// hold: holds a lock until a signal or the end of stdin, and prints each event of the lock, for people and for programs
// that read it through a pipe.

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>

#include "commands.h"
#include "held_lock.h"

namespace distlock::cli {
namespace {

struct HoldArgs {
  LockFlags lock;
  bool until_eof = false;
};

class Holding {
 public:
  Holding(const Context& context, const HoldArgs& args, LockKeeper& keeper, Signals& signals)
      : context_(context), args_(args), keeper_(keeper), signals_(signals) {}

  void PrintEvent(const LockEvent& event) {
    if (event.kind == LockEvent::kDraining) {
      Print(absl::StrCat("draining: the broker goes down in ", FormatDuration(event.time_left)),
            args_.lock.Event("draining", {{"time_left_ms", event.time_left.count()}}));
      return;
    }
    Print("queued: " + QueuedAsText(args_.lock, event.queued), QueuedEvent(args_.lock, event.queued));
  }

  int KeepUntilTheEnd(MultiGuard guard) {
    Print(absl::StrCat("granted: ", args_.lock.Name(), ", token ", guard.token(0), ", holder ",
                       guard.part(0).holder_id()),
          GrantedEvent(args_.lock, guard));
    keeper_.WatchEnd(guard);
    while (printing_works_ && !wanted_to_end_ && Alive(guard)) WaitForEvent();
    if (!Alive(guard)) return Lost(guard);
    return GiveBack(guard);
  }

 private:
  // Whether the lock is still held. Prints at_risk and renewed, for which the library has no callback.
  bool Alive(const MultiGuard& guard) {
    const LockState state = guard.state();
    if (state != LockState::kHeld && state != LockState::kAtRisk) return false;
    const bool at_risk = state == LockState::kAtRisk;
    if (at_risk != at_risk_) {
      at_risk_ = at_risk;
      Print(
          at_risk ? "at risk: the lease could not be renewed, it may be lost soon" : "renewed: the lease is safe again",
          args_.lock.Event(at_risk ? "at_risk" : "renewed"));
    }
    return true;
  }

  void WaitForEvent() {
    constexpr int kBetweenLooksAtStateMs = 200;
    pollfd fds[3] = {
        {keeper_.fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}, {args_.until_eof ? STDIN_FILENO : -1, POLLIN, 0}};
    ::poll(fds, 3, kBetweenLooksAtStateMs);
    keeper_.Clear();
    while (const auto event = keeper_.TakeEvent()) PrintEvent(*event);
    while (const auto signo = signals_.Take()) {
      if (*signo == SIGTSTP) StopAsBy(SIGTSTP);
      if (EndsAProcess(*signo)) wanted_to_end_ = true;
    }
    if (fds[2].revents != 0) SkipInput();
  }

  void SkipInput() {
    char ignored[4096];
    const ssize_t n = ::read(STDIN_FILENO, ignored, sizeof(ignored));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) wanted_to_end_ = true;
  }

  int Lost(const MultiGuard& guard) {
    const std::string message = guard.end_message();
    Print(absl::StrCat("lost: ", EndReason(guard), message.empty() ? "" : ", ", message),
          args_.lock.Event("lost", {{"reason", EndReason(guard)}, {"message", message}}));
    return kExitLost;
  }

  int GiveBack(MultiGuard& guard) {
    const ReleaseOutcome outcome = guard.Release();
    Print("released: " + OutcomeName(outcome), args_.lock.Event("released", {{"outcome", OutcomeName(outcome)}}));
    if (outcome == ReleaseOutcome::kAlreadyGone) return kExitLost;
    return printing_works_ ? kExitOk : kExitInternal;
  }

  void Print(std::string_view text, const Json& json) {
    if (printing_works_) printing_works_ = context_.Print(text, json);
  }

  const Context& context_;
  const HoldArgs& args_;
  LockKeeper& keeper_;
  Signals& signals_;
  bool at_risk_ = false;
  bool wanted_to_end_ = false;
  bool printing_works_ = true;
};

int Hold(const Context& context, const HoldArgs& args) {
  Signals signals;
  LockKeeper keeper(context, args.lock, /*ends_with_process=*/true);
  Holding holding(context, args, keeper, signals);
  auto outcome = keeper.Wait(signals, [&](const LockEvent& event) { holding.PrintEvent(event); });
  if (const auto* interrupted = std::get_if<LockKeeper::Interrupted>(&outcome)) {
    return kExitSignalBase + interrupted->signo;
  }
  if (const auto* failure = std::get_if<Failure>(&outcome)) return FailToTake(context, args.lock, *failure);
  return holding.KeepUntilTheEnd(std::move(std::get<MultiGuard>(outcome)));
}

}  // namespace

void AddHold(CLI::App& app, Context& context) {
  auto* hold = app.add_subcommand("hold", "Hold a lock until a signal, and print each event of it");
  auto args = std::make_shared<HoldArgs>();
  AddLockFlags(*hold, args->lock);
  AddResumeFlag(*hold, args->lock);
  hold->add_flag("--until-eof", args->until_eof, "Also release the lock when stdin ends");
  AddContextFlags(*hold, context);
  hold->footer(
      "Prints one line per event: queued, granted, at_risk, renewed, draining, and at the end lost or released.\n"
      "Exit code: 0 released while it was held; 75 the lock was lost; 1 another holds it; 128 + the signal that came\n"
      "before the grant.\n\n"
      "Examples:\n"
      "  distlockctl hold maintenance --metadata why='disk swap' --max-hold 1h\n"
      "  distlockctl hold catalog --shared --policy reader-preferring\n"
      "  distlockctl hold encode --limit 4 --permits 2\n"
      "  program | distlockctl hold feed --until-eof -o json");
  hold->callback([&context, args] { context.command = [&context, args] { return Hold(context, *args); }; });
}

}  // namespace distlock::cli
