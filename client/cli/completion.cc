// SPDX-License-Identifier: Apache-2.0
//
// completion: makes a bash script from the parser's own flags, so that the script is never out of date.

#include <absl/strings/str_cat.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "commands.h"

namespace distlock::cli {
namespace {

std::string FlagsOf(const CLI::App& command) {
  std::string flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) absl::StrAppend(&flags, flags.empty() ? "" : " ", "--", name);
    for (const std::string& name : option->get_snames()) absl::StrAppend(&flags, flags.empty() ? "" : " ", "-", name);
  }
  return flags;
}

// The words after "--" are another command, which bash can complete by itself.
constexpr char kHead[] = R"(# bash completion of distlockctl; load it with: source <(distlockctl completion bash)
_distlockctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      declare -F _command_offset > /dev/null && _command_offset $((i + 1))
      return
    fi
    case ${COMP_WORDS[i]} in
      --server|-o|--output|--timeout|--connect-timeout|--namespace|--holder-id|--reason) ((i++)) ;;
      -*) ;;
      *) [[ -z $command ]] && command=${COMP_WORDS[i]} ;;
    esac
  done
  case $prev in
    -o|--output) COMPREPLY=($(compgen -W 'text json' -- "$cur")); return ;;
    --policy) COMPREPLY=($(compgen -W 'fair writer-preferring reader-preferring adaptive' -- "$cur")); return ;;
    --lease-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
  esac
  local words
  case $command in
)";

constexpr char kTail[] = R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _distlockctl distlockctl
)";

std::string BashScript(const CLI::App& app) {
  std::string script = kHead;
  std::string names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    absl::StrAppend(&names, command->get_name(), " ");
    const std::string extra = command->get_name() == "completion" ? " bash" : "";
    absl::StrAppend(&script, "    ", command->get_name(), ") words='", FlagsOf(*command), extra, "' ;;\n");
  }
  absl::StrAppend(&script, "    *) words='", names, FlagsOf(app), "' ;;\n", kTail);
  return script;
}

}  // namespace

void AddCompletion(CLI::App& app, Context& context) {
  auto* completion = app.add_subcommand("completion", "Print the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash")->required()->option_text(" ")->check(CLI::IsMember({"bash"}));
  completion->footer(
      "Examples:\n"
      "  source <(distlockctl completion bash)\n"
      "  distlockctl completion bash > /etc/bash_completion.d/distlockctl");
  completion->callback([&app, &context, shell] {  // `shell` must live until the parser has written to it
    context.command = [&app] {
      const std::string script = BashScript(app);
      const bool printed =
          std::fwrite(script.data(), 1, script.size(), stdout) == script.size() && std::fflush(stdout) == 0;
      return printed ? kExitOk : kExitInternal;
    };
  });
}

}  // namespace distlock::cli
