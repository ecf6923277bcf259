// SPDX-License-Identifier: Apache-2.0
#include "complete.h"

#include <absl/strings/str_cat.h>
#include <distlock/inspect.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "command_line.h"
#include "lock_name.h"
#include "printable.h"

namespace distlock::cli {
namespace {

constexpr Millis kBrokerPatience{500};

using Words = std::vector<std::string>;

const std::map<std::string, Words> kValues = {
    {"output", {"text", "json"}},
    {"policy", {"fair", "writer-preferring", "reader-preferring", "adaptive"}},
    {"SHELL", {"bash", "zsh", "fish"}},
};

std::string InOneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

class Completion {
 public:
  Completion(const CLI::App& app, Context& context, Words words)
      : app_(app), context_(context), partial_(std::move(words.back())), words_(std::move(words)) {
    words_.pop_back();
    command_at_ = SubcommandIndex(app_, words_);
    sub_ = command_at_ < words_.size() ? FindSubcommand(app_, words_[command_at_]) : nullptr;
  }

  std::string Answer() {
    if (const auto command = OtherCommand()) return absl::StrCat("command ", *command + 1, "\n");
    const CLI::App& parser = sub_ != nullptr ? *sub_ : app_;
    const std::string before = words_.empty() ? "" : words_.back();
    const size_t equals = partial_.rfind("--", 0) == 0 ? partial_.find('=') : std::string::npos;
    if (equals != std::string::npos) {
      prefix_ = partial_.substr(0, equals + 1);
      AddValues(parser, partial_.substr(0, equals));
    } else if (TakesNextArgument(parser, before)) {
      AddValues(parser, before);
    } else if (command_at_ < words_.size() && sub_ == nullptr) {
      return "words\n";
    } else {
      AddWords(parser);
    }
    return absl::StrCat(files_ ? "files" : "words", "\n", out_);
  }

 private:
  // Where the command of run or elect begins, when it has begun before or with the last word.
  std::optional<size_t> OtherCommand() const {
    Words args = words_;
    Words command;
    // The word may still become a flag after "-", unless the command has begun before it.
    const bool may_be_flag = partial_.rfind('-', 0) == 0 && (words_.empty() || words_.back() != "--");
    if (!may_be_flag) args.push_back(partial_);
    const size_t words = args.size();
    const bool unclear = TakeCommand(app_, args, command).has_value();
    if (!unclear && command.empty()) return std::nullopt;
    return std::min(words_.size(), words - command.size());
  }

  void Add(const std::string& word, const std::string& meaning = "") {
    const std::string whole = prefix_ + word;
    if (whole.rfind(partial_, 0) != 0) return;
    absl::StrAppend(&out_, whole, meaning.empty() ? "" : "\t", meaning, "\n");
  }

  void AddValues(const CLI::App& parser, const std::string& flag) {
    // The last letter of "-nw" takes the value.
    const bool is_long = flag.rfind("--", 0) == 0;
    const CLI::Option* option = parser.get_option_no_throw(is_long ? flag : std::string("-") + flag.back());
    const std::string name = option == nullptr || option->get_lnames().empty() ? "" : option->get_lnames().front();
    if (name == "key") AddKeys();
    files_ = name == "lease-file";
    if (const auto values = kValues.find(name); values != kValues.end()) {
      for (const std::string& value : values->second) Add(value);
    }
  }

  void AddWords(const CLI::App& parser) {
    const std::string positional = sub_ == nullptr ? "" : NextPositional();
    if (positional == "KEY" || positional == "NAME") AddKeys();
    if (const auto values = kValues.find(positional); values != kValues.end()) {
      for (const std::string& value : values->second) Add(value);
    }
    if (sub_ == nullptr || positional == "COMMAND") {
      for (const CLI::App* command : app_.get_subcommands(nullptr))
        Add(command->get_name(), command->get_description());
    }
    for (const CLI::Option* option : parser.get_options()) {
      const std::string meaning = InOneLine(option->get_description());
      for (const std::string& name : option->get_lnames()) Add("--" + name, meaning);
      for (const std::string& name : option->get_snames()) Add("-" + name, meaning);
    }
  }

  // The name of the first positional without a word; "" when none is left.
  std::string NextPositional() const {
    size_t given = 0;
    for (size_t i = command_at_ + 1; i < words_.size(); ++i) {
      if (words_[i].size() < 2 || words_[i][0] != '-') {
        ++given;
      } else if (TakesNextArgument(*sub_, words_[i])) {
        ++i;
      }
    }
    for (const CLI::Option* option : sub_->get_options()) {
      if (!option->get_positional() || given-- > 0) continue;
      return option->get_name(/*positional=*/true);
    }
    return "";
  }

  // The value of a flag that is already typed; "" when it is not.
  std::string Typed(const std::string& flag) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == flag && i + 1 < words_.size()) return words_[i + 1];
      if (words_[i].rfind(flag + "=", 0) == 0) return words_[i].substr(flag.size() + 1);
    }
    return "";
  }

  void AddKeys() {
    if (partial_.rfind('-', 0) == 0 && prefix_.empty()) return;
    if (const std::string server = Typed("--server"); !server.empty()) context_.server = server;
    context_.connect_timeout = kBrokerPatience;
    const auto [client, failed] = Open(context_);
    if (!client) return;
    Inspector inspector(*client);
    std::string prefix = partial_.substr(prefix_.size());
    std::string name_space = Typed("--namespace");
    const bool bare = !name_space.empty();  // the word has no namespace in it
    const size_t colon = bare ? std::string::npos : prefix.find(':');
    if (colon != std::string::npos) {
      name_space = prefix.substr(0, colon);
      prefix.erase(0, colon + 1);
    } else if (!bare) {
      name_space = DefaultNamespace();
    }
    const auto until = std::chrono::steady_clock::now() + kBrokerPatience;
    std::string page_token;
    do {
      const auto page = inspector.List(prefix, name_space, page_token);
      if (!page.ok()) return;
      for (const LockInfo& lock : page->locks) {
        // A name with a control character could not be typed.
        if (Printable(lock.key) != lock.key) continue;
        const bool as_key = bare || (colon == std::string::npos && lock.key.find(':') == std::string::npos);
        Add(as_key ? lock.key : NameOf(name_space, lock.key));
      }
      page_token = page->next_page_token;
    } while (!page_token.empty() && std::chrono::steady_clock::now() < until);
  }

  const CLI::App& app_;
  Context& context_;
  const std::string partial_;
  Words words_;
  size_t command_at_ = 0;
  const CLI::App* sub_ = nullptr;
  std::string prefix_;  // "--output=", in front of each candidate
  bool files_ = false;
  std::string out_;
};

}  // namespace

int Complete(const CLI::App& app, Context& context, std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  return context.PrintText(Completion(app, context, std::move(words)).Answer()) ? kExitOk : kExitInternal;
}

}  // namespace distlock::cli
