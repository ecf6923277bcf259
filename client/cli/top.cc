// SPDX-License-Identifier: Apache-2.0
//
// top: shows the locks with the longest queues, live. Picture (top_picture.h) makes the lines on the screen.

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "commands.h"
#include "lock_flags.h"
#include "lock_name.h"
#include "screen.h"
#include "signals.h"
#include "top_picture.h"

namespace distlock::cli {
namespace {

struct TopArgs {
  std::string name_space;
  Millis interval{1000};
  bool once = false;
};

class Top {
 public:
  Top(const Context& context, const TopArgs& args, Signals& signals, Client& client)
      : args_(args), signals_(signals), source_(context, client) {
    view_.name_space = args.name_space;
  }

  int Run() {
    const Screen screen;
    if (!screen.ok()) {
      std::fprintf(stderr, "distlockctl: this kind of terminal (TERM) is not known; --once prints plain text\n");
      return kExitInternal;
    }
    auto next = std::chrono::steady_clock::now();
    while (!done_) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next) {
        source_.Look(view_.name_space);
        next = now + args_.interval;
      }
      view_.rows = screen.height();
      screen.Draw(Picture(source_.seen(), view_), kHeadingRow);
      const auto left = std::chrono::ceil<Millis>(next - std::chrono::steady_clock::now());
      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
      ::poll(fds, 2, static_cast<int>(std::max<int64_t>(left.count(), 0)));
      TakeSignals(screen);
      if ((fds[0].revents & POLLIN) != 0) TakeKeys(screen);
      if ((fds[0].revents & (POLLHUP | POLLERR)) != 0) done_ = true;
      if (looked_elsewhere_) next = std::chrono::steady_clock::now();
      looked_elsewhere_ = false;
    }
    return exit_code_;
  }

 private:
  void TakeSignals(const Screen& screen) {
    while (const auto signo = signals_.Take()) {
      if (*signo == SIGTSTP) {
        screen.Suspend();
        StopAsBy(SIGTSTP);
        screen.Resume();
      }
      if (*signo == SIGWINCH) {
        screen.Suspend();
        screen.Resume();
      }
      if (!EndsAProcess(*signo)) continue;
      done_ = true;
      exit_code_ = *signo == SIGINT ? kExitOk : kExitSignalBase + *signo;
    }
  }

  void TakeKeys(const Screen& screen) {
    while (const auto key = screen.TakeKey()) view_.typing ? TypeNamespace(*key) : Obey(*key);
  }

  void Obey(int key) {
    const size_t page = view_.rows / 2;
    if (key == 'q') done_ = true;
    if (key == 's') view_.order = static_cast<View::Order>((static_cast<int>(view_.order) + 1) % View::kOrders);
    if (key == 'n') view_.typing.emplace();
    if (key == kKeyDown) ++view_.first;
    if (key == kKeyUp && view_.first > 0) --view_.first;
    if (key == kKeyPageDown) view_.first += page;
    if (key == kKeyPageUp) view_.first -= std::min(view_.first, page);
    const size_t locks = source_.seen().locks.size();
    view_.first = std::min(view_.first, locks == 0 ? 0 : locks - 1);
  }

  void TypeNamespace(int key) {
    constexpr int kEscape = 27;
    if (key == kKeyEnter) {
      view_.name_space = view_.typing->empty() ? DefaultNamespace() : *view_.typing;
      view_.first = 0;
      view_.typing.reset();
      looked_elsewhere_ = true;
    } else if (key == kEscape) {
      view_.typing.reset();
    } else if (key == kKeyErase) {
      if (!view_.typing->empty()) view_.typing->pop_back();
    } else if (key >= ' ' && key < 256) {
      view_.typing->push_back(static_cast<char>(key));
    }
  }

  const TopArgs& args_;
  Signals& signals_;
  LockSource source_;
  View view_;
  bool done_ = false;
  bool looked_elsewhere_ = false;
  int exit_code_ = kExitOk;
};

int PrintOnce(const Context& context, const TopArgs& args, Client& client) {
  LockSource source(context, client);
  if (!source.Look(args.name_space)) return context.Fail(*source.seen().failure);
  View view;
  view.name_space = args.name_space;
  view.obeys_keys = false;
  view.rows = source.seen().locks.size() + kHeadingRow + 1;
  for (const std::string& line : Picture(source.seen(), view)) {
    if (std::fprintf(stdout, "%s\n", line.c_str()) < 0) return kExitInternal;
  }
  return std::fflush(stdout) == 0 ? kExitOk : kExitInternal;
}

int RunTop(const Context& context, const TopArgs& args) {
  if (context.json)
    return context.Fail(
        UsageFailure("top shows text only; `ls --output json` and `watch --output json` are for programs"));
  if (!args.once && (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)) {
    return context.Fail(UsageFailure("top needs a terminal; --once prints one frame as plain text"));
  }
  Signals signals;
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  if (args.once) return PrintOnce(context, args, *client);
  // A broker that cannot be reached is reported before there is a screen.
  if (const auto first = Admin(*client).Status(); !first.ok() && !first.refusal().cause.empty()) {
    return context.Fail(FailureFrom(context, first.refusal()));
  }
  return Top(context, args, signals, *client).Run();
}

}  // namespace

void AddTop(CLI::App& app, Context& context) {
  auto* top = app.add_subcommand("top", "Show the locks with the longest queues, live on the terminal");
  auto args = std::make_shared<TopArgs>();
  AddNamespaceFlag(*top, args->name_space, "Namespace to watch");
  AddDurationFlag(
      *top, "--interval",
      [args](Millis value) {
        if (value < Millis(100)) throw CLI::ValidationError("--interval", "is less than 100ms");
        args->interval = value;
      },
      "Time between two updates (default 1s, at least 100ms)");
  top->add_flag("--once", args->once, "Print one frame as plain text, and exit");
  AddContextFlags(*top, context);
  top->footer(
      "Keys: q quits; arrows and page keys scroll; s sorts by queue, holders or name; n asks for another namespace.\n\n"
      "Examples:\n"
      "  distlockctl top --namespace billing\n"
      "  distlockctl top --once | head -20");
  top->callback([&context, args] {
    if (args->name_space.empty()) args->name_space = DefaultNamespace();
    context.command = [&context, args] { return RunTop(context, *args); };
  });
}

}  // namespace distlock::cli
