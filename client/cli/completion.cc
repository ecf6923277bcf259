// SPDX-License-Identifier: Apache-2.0
//
// completion: prints the script of a shell. Each script asks `distlockctl __complete` what may come next (complete.h).

#include <CLI/CLI.hpp>
#include <map>

#include "commands.h"

namespace distlock::cli {
namespace {

constexpr char kBash[] = R"sh(# bash completion of distlockctl; load it with: source <(distlockctl completion bash)
_distlockctl() {
  local line=${COMP_LINE:0:COMP_POINT} words out first cut row
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  COMPREPLY=()
  out=$("${words[0]}" __complete "${words[@]:1}" 2> /dev/null) || return
  first=${out%%$'\n'*}
  if [[ $first == command* ]]; then
    declare -F _command_offset > /dev/null && _command_offset "${first#command }"
    return
  fi
  if [[ $first == files ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "${words[-1]}")
    return
  fi
  # The shell replaces only what follows the last = or : of the word.
  cut=${words[-1]%"${words[-1]##*[=:]}"}
  while IFS=$'\t' read -r row _; do
    [[ -n $row ]] && COMPREPLY+=("$(printf %q "${row#"$cut"}")")
  done <<< "${out#"$first"}"
}
complete -F _distlockctl distlockctl
)sh";

constexpr char kZsh[] = R"sh(#compdef distlockctl
# zsh completion of distlockctl; a file _distlockctl in a folder of fpath, or: source <(distlockctl completion zsh)
_distlockctl() {
  local -a out candidates
  local row
  out=("${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2> /dev/null)}")
  case $out[1] in
    command*)
      shift ${out[1]#command } words
      ((CURRENT -= ${out[1]#command }))
      _normal
      ;;
    files) _files ;;
    *)
      for row in "${(@)out[2,-1]}"; do
        [[ -z $row ]] && continue
        if [[ $row == *$'\t'* ]]; then
          candidates+=("${${row%%$'\t'*}//:/\\:}:${row#*$'\t'}")
        else
          candidates+=("${row//:/\\:}")
        fi
      done
      _describe -t words distlockctl candidates
      ;;
  esac
}
if [[ $funcstack[1] == _distlockctl ]]; then
  _distlockctl "$@"
else
  compdef _distlockctl distlockctl
fi
)sh";

constexpr char kFish[] = R"sh(# fish completion of distlockctl; load it with: distlockctl completion fish | source
function __distlockctl_complete
    set -l words (commandline -opc)
    set -l typed "$(commandline -ct)"
    set -l out ($words[1] __complete $words[2..-1] $typed 2> /dev/null)
    switch "$out[1]"
        case 'command *'
            set -l first (math (string replace 'command ' '' -- $out[1]) + 1)
            complete -C (string join ' ' -- (string escape -- $words[$first..-1]) $typed)
        case files
            __fish_complete_path $typed
        case '*'
            string match -v '' -- $out[2..-1]
    end
end
complete -c distlockctl -f -a '(__distlockctl_complete)'
)sh";

const std::map<std::string, const char*> kScripts = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};

}  // namespace

void AddCompletion(CLI::App& app, Context& context) {
  auto* completion = app.add_subcommand("completion", "Print the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->option_text(" ")
      ->check(CLI::IsMember(kScripts));
  completion->footer(
      "Completes commands, flags, their values, and the names of the locks that are held now.\n\n"
      "Examples:\n"
      "  source <(distlockctl completion bash)\n"
      "  distlockctl completion bash > /etc/bash_completion.d/distlockctl\n"
      "  distlockctl completion zsh > /usr/local/share/zsh/site-functions/_distlockctl\n"
      "  distlockctl completion fish > /etc/fish/completions/distlockctl.fish");
  completion->callback([&context, shell] {
    context.command = [&context, shell] { return context.PrintText(kScripts.at(*shell)) ? kExitOk : kExitInternal; };
  });
}

}  // namespace distlock::cli
