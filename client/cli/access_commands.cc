// SPDX-License-Identifier: Apache-2.0
//
// can-i, reload: questions to the broker about its policy. policy, token: the files of a policy, without a broker.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <distlock/admin.h>
#include <distlock/inspect.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "access/pattern_text.h"
#include "access/policy_cases.h"
#include "access/policy_file.h"
#include "access/tokens.h"
#include "commands.h"
#include "distlock/wire/given_file.h"
#include "lock_name.h"

namespace distlock::cli {
namespace {

constexpr int kExitWrongFile = 78;  // EX_CONFIG, as distlockd's

struct CanIArgs {
  std::string verb;
  std::string lock;
  std::string principal;
  bool list = false;
};

std::string MessageOf(const absl::Status& status) { return {status.message().data(), status.message().size()}; }

std::optional<Failure> FillLock(const std::string& text, AccessQuestion& question) {
  // As on every command line: a bare key, or prefix*, is of the default namespace.
  const bool bare = text != "*" && text.find(':') == std::string::npos;
  auto lock = bare ? access::ParseLock(DefaultNamespace(), text) : access::ParseLock(text);
  if (!lock.ok()) return UsageFailure(absl::StrCat("'", text, "' ", MessageOf(lock.status())));
  question.prefix = lock->all || lock->prefix;
  if (lock->all) {
    question.lock_namespace = kAllNamespaces;
    return std::nullopt;
  }
  for (const access::Template* parts : {&lock->ns, &lock->key}) {
    for (const access::TextPart& part : *parts) {
      if (part.part != access::Part::kLiteral) return UsageFailure("the lock has a placeholder; name one lock");
      (parts == &lock->ns ? question.lock_namespace : question.key).append(part.literal);
    }
  }
  return std::nullopt;
}

bool PrintRights(const Context& context, const AccessAnswer& answer) {
  std::vector<std::string> lines;
  std::vector<Json> rights;
  for (const AccessRight& right : answer.rights) {
    lines.push_back(absl::StrCat(right.verb, right.locks.empty() ? "" : "  ", absl::StrJoin(right.locks, " "),
                                 right.denied_locks.empty() ? "" : "  but not ",
                                 absl::StrJoin(right.denied_locks, " ")));
    rights.push_back(Json{{"verb", right.verb}, {"locks", right.locks}, {"denied", right.denied_locks}});
  }
  const std::string who = answer.identity.empty() ? "everybody" : answer.identity;
  if (answer.identity.empty()) lines = {"everything: the broker asks nobody for an identity"};
  lines.insert(lines.begin(), absl::StrCat(who, " may", lines.empty() ? " do nothing" : ":"));
  if (!answer.obstacle.empty()) lines.push_back("but not " + answer.obstacle);
  return context.PrintLines(lines,
                            Json{{"identity", answer.identity}, {"rights", rights}, {"obstacle", answer.obstacle}});
}

int CanI(const Context& context, const CanIArgs& args) {
  AccessQuestion question{.verb = args.verb, .principal = args.principal};
  if (args.verb.empty() && !args.list) return context.Fail(UsageFailure("name a verb, or --list"));
  const auto verb = access::VerbOf(args.verb);
  if (args.verb == "acquire") {
    return context.Fail(
        UsageFailure("acquire stands for several verbs in a policy; ask for one of them: exclusive, "
                     "shared or permit"));
  }
  if (!args.verb.empty() && !verb) {
    const std::vector<std::string> known(access::kVerbNames.begin(), access::kVerbNames.end());
    return context.Fail(
        UsageFailure(absl::StrCat("'", args.verb, "' is no verb; there are ", absl::StrJoin(known, ", "))));
  }
  if (verb && access::IsLockVerb(*verb)) {
    if (const auto wrong = FillLock(args.lock, question)) return context.Fail(*wrong);
  } else if (!args.lock.empty()) {
    return context.Fail(UsageFailure(absl::StrCat(args.verb, " is a verb of the broker, without a lock")));
  }
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto answer = Admin(*client).CheckAccess(question);
  if (!answer.ok()) return context.Fail(FailureFrom(context, answer.refusal()));
  if (args.list) return PrintRights(context, *answer) ? kExitOk : kExitInternal;
  const std::string why = !answer->obstacle.empty()  ? answer->obstacle
                          : !answer->rule.empty()    ? absl::StrCat("rule ", answer->rule)
                          : answer->identity.empty() ? "the broker asks nobody for an identity"
                                                     : "no rule allows it";
  const std::string who = answer->identity.empty() ? "" : absl::StrCat(" for ", answer->identity);
  const bool printed = context.Print(absl::StrCat(answer->allowed ? "yes" : "no", " (", why, ")", who),
                                     Json{{"allowed", answer->allowed},
                                          {"rule", answer->rule},
                                          {"identity", answer->identity},
                                          {"obstacle", answer->obstacle}});
  if (!printed) return kExitInternal;
  return answer->allowed ? kExitOk : kExitDenied;
}

int Reload(const Context& context) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto units = Admin(*client).Reload();
  if (!units.ok()) return context.Fail(FailureFrom(context, units.refusal()));
  if (units->empty()) context.Warn("the broker was given no file that can be read again");
  bool refused = false;
  for (const ReloadedUnit& unit : *units) {
    refused = refused || !unit.reloaded;
    const char* const outcome = unit.reloaded ? "reloaded" : "refused";
    if (!context.Print(absl::StrCat(unit.unit, ": ", outcome, unit.reloaded ? "" : ": ", unit.problem),
                       Json{{"unit", unit.unit}, {"outcome", outcome}, {"problem", unit.problem}})) {
      return kExitInternal;
    }
  }
  return refused ? kExitWrongFile : kExitOk;
}

struct PolicyArgs {
  std::string action;
  std::string file;
  std::string cases;
};

int CheckPolicy(const Context& context, const PolicyArgs& args) {
  const auto wrong = [&](std::string message) {
    return context.Fail(OwnFailure("INVALID_ARGUMENT", std::move(message), kExitWrongFile));
  };
  if ((args.action == "test") == args.cases.empty()) {
    return context.Fail(UsageFailure("write: policy check FILE, or: policy test FILE CASES"));
  }
  const wire::GivenFile file = wire::ReadGivenFile(args.file, access::kMostPolicyBytes);
  if (!file.problem.empty()) return wrong(absl::StrCat(args.file, ": ", file.problem));
  std::vector<std::string> warnings;
  auto policy = access::ParsePolicy(file.text, args.file, &warnings);
  if (!policy.ok()) return wrong(MessageOf(policy.status()));
  for (const std::string& warning : warnings) context.Warn(warning);
  const auto rules = static_cast<int64_t>(policy->rules.size());
  if (args.action == "check") {
    return context.Print(absl::StrCat(args.file, ": good, ", rules, " rules"), Json{{"rules", rules}}) ? kExitOk
                                                                                                       : kExitInternal;
  }
  const wire::GivenFile cases = wire::ReadGivenFile(args.cases, access::kMostPolicyBytes);
  if (!cases.problem.empty()) return wrong(absl::StrCat(args.cases, ": ", cases.problem));
  const auto outcomes =
      access::RunCases(std::make_shared<const access::Policy>(*std::move(policy)), cases.text, args.cases);
  if (!outcomes.ok()) return wrong(MessageOf(outcomes.status()));
  int64_t failed = 0;
  for (const access::CaseOutcome& outcome : *outcomes) {
    failed += outcome.passed ? 0 : 1;
    if (!context.Print(absl::StrCat(outcome.passed ? "ok    " : "WRONG ", outcome.text),
                       Json{{"passed", outcome.passed}, {"case", outcome.text}})) {
      return kExitInternal;
    }
  }
  return failed == 0 ? kExitOk : kExitBusy;
}

struct TokenArgs {
  std::string action;
  std::string name;
  std::string out;
};

// Makes a file that its owner alone can read. False: errno says why. Replaces none: a program may use its token.
bool WriteNewSecret(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int why = written ? 0 : errno;
  if (::close(fd) == 0 && written) return true;
  ::unlink(path.c_str());
  errno = why == 0 ? EIO : why;
  return false;
}

int NewToken(const Context& context, const TokenArgs& args) {
  if (!access::IsName(args.name)) {
    return context.Fail(UsageFailure("a token's name has 1..64 letters, digits, dots, - and _"));
  }
  access::Digest random;
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    return context.Fail(OwnFailure("CANNOT_RUN", "the system has no random numbers", kExitInternal));
  }
  const std::string token = access::TokenOf(random);
  const std::string line = access::TokenLine(args.name, token);
  if (!args.out.empty()) {
    if (!WriteNewSecret(args.out, token + "\n")) {
      const std::string why =
          errno == EEXIST ? "it is there, and may be in use; name another file, or remove it" : std::strerror(errno);
      return context.Fail(
          OwnFailure("CANNOT_WRITE", absl::StrCat("cannot make ", args.out, ": ", why), kExitWrongFile));
    }
    return context.Print(line, Json{{"file", args.out}, {"line", line}}) ? kExitOk : kExitInternal;
  }
  context.Tell("the token follows, and is shown only now; its line for --token-file comes second",
               Json{{"note", "the token is shown only now; line is for --token-file"}});
  return context.PrintLines({token, line}, Json{{"token", token}, {"line", line}}) ? kExitOk : kExitInternal;
}

void AddPolicy(CLI::App& app, Context& context) {
  auto* policy = app.add_subcommand("policy", "Check a policy file, or run its tests, without a broker");
  auto args = std::make_shared<PolicyArgs>();
  policy->add_option("ACTION", args->action, "check or test")->required()->check(CLI::IsMember({"check", "test"}));
  policy->add_option("FILE", args->file, "The policy")->required()->option_text(" ");
  policy->add_option("CASES", args->cases, "Of test: what the policy must allow and deny")->option_text(" ");
  AddOutputFlag(*policy, context);
  policy->footer(
      "A file of cases is a YAML list, such as\n"
      "  - {who: k8s:shop/worker, verb: exclusive, lock: 'shop:order/7', expect: allow}\n"
      "  - {who: anonymous, verb: drain, expect: deny}\n\n"
      "Exit code: 0 the policy is good, and every case is as expected; 1 a case is not; 78 a file is wrong.\n\n"
      "Examples:\n"
      "  distlockctl policy check policy.yaml\n"
      "  distlockctl policy test policy.yaml cases.yaml");
  policy->callback([&context, args] { context.command = [&context, args] { return CheckPolicy(context, *args); }; });
}

void AddToken(CLI::App& app, Context& context) {
  auto* token = app.add_subcommand("token", "Make a static token for a broker's --token-file");
  auto args = std::make_shared<TokenArgs>();
  token->add_option("ACTION", args->action, "new")->required()->check(CLI::IsMember({"new"}));
  token->add_option("NAME", args->name, "Who will show it: the policy names it token:NAME")
      ->required()
      ->option_text(" ");
  token->add_option("--out", args->out, "Write the token into this new file (mode 0600), and print only the line")
      ->type_name("FILE");
  AddOutputFlag(*token, context);
  token->footer(
      "Makes a token, and its line for the broker, which holds only its hash. The program that shows the token finds "
      "it\n"
      "in the file that DISTLOCK_TOKEN_FILE names. Without --out both are printed: the token first, then the line.\n\n"
      "Examples:\n"
      "  umask 027                                                    # distlockd warns of files that all may read\n"
      "  distlockctl token new backup --out backup.token >> tokens    # distlockd --token-file tokens\n"
      "  DISTLOCK_TOKEN_FILE=backup.token distlockctl status");
  token->callback([&context, args] { context.command = [&context, args] { return NewToken(context, *args); }; });
}

}  // namespace

void AddAccessCommands(CLI::App& app, Context& context) {
  auto* can = app.add_subcommand("can-i", "Ask whether the broker's policy allows something");
  auto args = std::make_shared<CanIArgs>();
  can->add_option("VERB", args->verb, "Such as exclusive, look or drain")->option_text(" ");
  can->add_option("LOCK", args->lock, "KEY, NAMESPACE:KEY, NAMESPACE:PREFIX* or *, for verbs of locks")
      ->option_text(" ");
  can->add_option("--as", args->principal, "Ask for this principal, such as k8s:shop/worker, or anonymous")
      ->type_name("PRINCIPAL");
  can->add_flag("--list", args->list, "Print all that is allowed");
  AddContextFlags(*can, context);
  can->footer(
      "Everybody may ask for itself; --as needs the verb access. Nothing is done.\n"
      "Exit code: 0 it is allowed; 77 it is not.\n\n"
      "Examples:\n"
      "  distlockctl can-i exclusive shop:order/7\n"
      "  distlockctl can-i list 'shop:order/*' --as k8s:shop/worker\n"
      "  distlockctl can-i --list");
  can->callback([&context, args] { context.command = [&context, args] { return CanI(context, *args); }; });

  auto* reload = app.add_subcommand("reload", "Make the broker read its policy, tokens and keys again");
  AddContextFlags(*reload, context);
  reload->footer(
      "What is wrong is not used: the old content stays, and the answer says why.\n"
      "Exit code: 0 all was read; 78 something was refused.\n\n"
      "Examples:\n"
      "  distlockctl reload");
  reload->callback([&context] { context.command = [&context] { return Reload(context); }; });
  AddPolicy(app, context);
  AddToken(app, context);
}

}  // namespace distlock::cli
