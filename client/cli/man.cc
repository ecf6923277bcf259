// SPDX-License-Identifier: Apache-2.0
//
// man: prints a manual page, made from the parser's own flags and help, so that no page is ever out of date.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command_line.h"
#include "commands.h"

namespace distlock::cli {
namespace {

// For roff, in which a backslash begins a request, "-" is a hyphen, and a line must not begin with "." or "'".
std::string Roff(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  return escaped.rfind('.', 0) == 0 || escaped.rfind('\'', 0) == 0 ? "\\&" + escaped : escaped;
}

std::string RoffLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) line = Roff(line);
  return absl::StrJoin(lines, "\n") + "\n";
}

std::string FlagHeading(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("\\fB" + Roff("-" + name) + "\\fR");
  for (const std::string& name : option.get_lnames()) names.push_back("\\fB" + Roff("--" + name) + "\\fR");
  if (names.empty()) names.push_back("\\fI" + Roff(option.get_name(true)) + "\\fR");
  const std::string& text = option.get_option_text();
  const std::string value = !text.empty() ? text : option.get_type_name();
  const bool has_value = option.get_items_expected_max() > 0 && !value.empty() && value != " ";
  return absl::StrJoin(names, ", ") + (has_value ? " \\fI" + Roff(value) + "\\fR" : "");
}

void AddFlags(const CLI::App& command, std::string& page) {
  page += ".SH OPTIONS\n";
  for (const CLI::Option* option : command.get_options()) {
    absl::StrAppend(&page, ".TP\n", FlagHeading(*option), "\n", RoffLines(option->get_description()));
  }
}

// The paragraphs of the help: text, exit codes, examples.
void AddFooter(const std::string& footer, std::string& page) {
  std::string section = "DESCRIPTION";
  const std::vector<std::string> paragraphs = absl::StrSplit(footer, "\n\n");
  for (const std::string& paragraph : paragraphs) {
    const std::string first = paragraph.substr(0, paragraph.find('\n'));
    std::string wanted = section == "DESCRIPTION" || section == "NOTES" ? "NOTES" : section;
    if (first.rfind("Exit code", 0) == 0) wanted = "EXIT STATUS";
    if (first == "Examples:") wanted = "EXAMPLES";
    page += wanted == section ? ".PP\n" : absl::StrCat(".SH ", wanted, "\n");
    section = wanted;
    if (section == "EXAMPLES") {
      absl::StrAppend(&page, ".nf\n", RoffLines(paragraph.substr(first.size() + 1)), ".fi\n");
    } else {
      page += RoffLines(paragraph);
    }
  }
}

std::string Page(const CLI::App& app, const CLI::App* command) {
  const std::string name = command == nullptr ? "distlockctl" : "distlockctl-" + command->get_name();
  std::string page = absl::StrCat(".\\\" SPDX-License-Identifier: Apache-2.0\n.TH ", Roff(name), " 1 \"\" \"distlock ",
                                  DISTLOCK_VERSION, "\" \"distlock\"\n.SH NAME\n", Roff(name), " \\- ");
  const CLI::App& shown = command == nullptr ? app : *command;
  page += RoffLines(shown.get_description());
  std::string synopsis = command == nullptr ? "COMMAND [OPTIONS]" : Roff(command->get_name());
  if (command != nullptr) {
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_positional()) continue;
      const std::string word = Roff(option->get_name(true));
      absl::StrAppend(&synopsis, " ", option->get_required() ? word : "[" + word + "]");
    }
    synopsis += " [OPTIONS]";
    if (command->get_name() == "run") synopsis += " CMD [ARGS]";
    if (command->get_name() == "elect") synopsis += " [CMD [ARGS]]";
  }
  absl::StrAppend(&page, ".SH SYNOPSIS\n.B distlockctl\n", synopsis, "\n");
  if (command == nullptr) {
    page += ".SH COMMANDS\n";
    for (const CLI::App* each : app.get_subcommands(nullptr)) {
      absl::StrAppend(&page, ".TP\n.BR ", Roff("distlockctl-" + each->get_name()), " (1)\n",
                      RoffLines(each->get_description()));
    }
  }
  AddFlags(shown, page);
  AddFooter(shown.get_footer(), page);
  absl::StrAppend(&page, ".SH SEE ALSO\n.BR ", command == nullptr ? Roff("distlockctl-run") : "distlockctl", " (1)\n");
  return page;
}

}  // namespace

void AddMan(CLI::App& app, Context& context) {
  auto* man = app.add_subcommand("man", "Print a manual page: that of a command, or the first one");
  auto name = std::make_shared<std::string>();
  man->add_option("COMMAND", *name, "The command")->option_text(" ");
  man->footer(
      "The page is roff text, for man.\n\n"
      "Examples:\n"
      "  distlockctl man run > distlockctl-run.1; man -l distlockctl-run.1\n"
      "  distlockctl man > /usr/local/share/man/man1/distlockctl.1");
  man->callback([&app, &context, name] {
    context.command = [&app, &context, name] {
      const CLI::App* command = name->empty() ? nullptr : FindSubcommand(app, *name);
      if (command == nullptr && !name->empty()) {
        return context.Fail(UsageFailure("'" + *name + "' is not a command; see distlockctl --help"));
      }
      return context.PrintText(Page(app, command)) ? kExitOk : kExitInternal;
    };
  });
}

}  // namespace distlock::cli
