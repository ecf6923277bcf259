// SPDX-License-Identifier: Apache-2.0
//
// show, ls: print who holds a lock and who waits for it. Read-only.

#include <absl/strings/str_cat.h>
#include <distlock/inspect.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "commands.h"
#include "lock_flags.h"
#include "lock_name.h"
#include "lock_view.h"
#include "other_reading.h"
#include "search_flags.h"

namespace distlock::cli {
namespace {

// ls prints at most so many locks without --all.
constexpr int kListedLocks = 1000;

int Show(const Context& context, const LockFlags& flags) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto lock = Inspector(*client).Look(flags.key, flags.name_space);
  if (!lock.ok()) return context.Fail(FailureFrom(context, lock.refusal()));
  if (!context.PrintLines(LockAsText(*lock), LockAsJson(*lock, true))) return kExitInternal;
  if (IsFree(*lock)) WarnOfOtherReading(context, *client, flags);
  return kExitOk;
}

std::string NothingHeld(const ListArgs& args) {
  if (args.all_namespaces) return "no lock is held";
  const std::string with_prefix = args.prefix.empty() ? "" : absl::StrCat(" whose key begins with ", args.prefix);
  return absl::StrCat("no lock", with_prefix, " is held in namespace ",
                      args.name_space.empty() ? "default" : args.name_space, "; -A shows all");
}

int List(const Context& context, const ListArgs& args) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  Inspector inspector(*client);
  std::string page_token;
  int printed = 0;
  bool told_hold_off = false;
  do {
    const auto page = inspector.List(args.prefix, args.name_space, page_token);
    if (!page.ok()) return context.Fail(FailureFrom(context, page.refusal()));
    if (page->hold_off && !std::exchange(told_hold_off, true)) context.Warn(HoldOffNote(*page->hold_off));
    for (const LockInfo& lock : page->locks) {
      if (!args.all && printed == kListedLocks) {
        context.Warn(absl::StrCat("there are more than these ", kListedLocks, " locks: --all lists every one"));
        return kExitOk;
      }
      if (!context.Print(LockAsRow(lock), LockAsJson(lock, false))) return kExitInternal;
      ++printed;
    }
    page_token = page->next_page_token;
  } while (!page_token.empty());
  if (printed == 0 && !told_hold_off && !context.json) context.Warn(NothingHeld(args));
  return kExitOk;
}

}  // namespace

void AddSearchFlags(CLI::App& command, ListArgs& args, const std::string& of_namespace, const std::string& of_prefix) {
  auto* one = AddNamespaceFlag(command, args.name_space, of_namespace);
  auto* prefix = command.add_option("--prefix", args.prefix, of_prefix)->option_text("P");
  command.add_flag("-A,--all-namespaces", args.all_namespaces, "All namespaces")
      ->excludes(one)
      ->excludes(prefix)
      ->option_text(" ");
}

void ReadSearch(ListArgs& args) {
  if (args.all_namespaces) {
    args.name_space = kAllNamespaces;
  } else if (args.name_space.empty()) {
    const size_t colon = args.prefix.find(':');
    args.name_space = colon == std::string::npos ? DefaultNamespace() : args.prefix.substr(0, colon);
    if (args.name_space.empty()) throw CLI::ValidationError("'" + args.prefix + "' has no namespace before its ':'");
    if (colon != std::string::npos) args.prefix.erase(0, colon + 1);
  }
}

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

  auto* list = app.add_subcommand("ls", "List the locks that are held");
  auto args = std::make_shared<ListArgs>();
  AddSearchFlags(*list, *args, "Namespace to list", "List only keys that begin with P");
  list->add_option("PREFIX", args->prefix, "As --prefix")->excludes("--prefix")->excludes("-A")->option_text(" ");
  list->add_flag("--all", args->all, "List every lock, not only the first 1000");
  AddContextFlags(*list, context);
  list->footer(
      "Examples:\n"
      "  distlockctl ls deploy/                  # the keys of the default namespace that begin so\n"
      "  distlockctl ls shop:                    # all of the namespace shop\n"
      "  distlockctl ls --all -o json | jq -r .key\n"
      "  distlockctl ls -A");
  list->callback([&context, args] {
    ReadSearch(*args);
    context.command = [&context, args] { return List(context, *args); };
  });
}

}  // namespace distlock::cli
