// SPDX-License-Identifier: Apache-2.0
//
// check-token: whether a fencing token is still the newest of its lock, for resources that cannot compare tokens.

#include <absl/strings/str_cat.h>
#include <distlock/inspect.h>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "lock_flags.h"
#include "other_reading.h"

namespace distlock::cli {
namespace {

constexpr int64_t kGreatestToken = (int64_t{1} << 53) - 1;

struct TokenArgs {
  LockFlags lock;
  int64_t token = 0;
};

std::string AnswerAsText(const TokenArgs& args, const TokenCheck& answer) {
  const std::string of = absl::StrCat(args.lock.Name(), ": ", args.token);
  if (answer.newest) return absl::StrCat(of, " is the newest token");
  return answer.newest_token == 0 ? absl::StrCat(of, " is not the newest token, which is not known")
                                  : absl::StrCat(of, " is not the newest token: ", answer.newest_token, " is");
}

int CheckToken(const Context& context, const TokenArgs& args) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto checked = Inspector(*client).CheckToken(args.lock.key, args.token, args.lock.name_space);
  if (!checked.ok()) return context.Fail(FailureFrom(context, checked.refusal()));
  const TokenCheck& answer = *checked;
  const Json json{{"namespace", args.lock.name_space},
                  {"key", args.lock.key},
                  {"token", args.token},
                  {"newest", answer.newest},
                  {"newest_token", answer.newest_token}};
  if (!context.Print(AnswerAsText(args, answer), json)) return kExitInternal;
  if (answer.newest_token == 0) WarnOfOtherReading(context, *client, args.lock);
  return answer.newest ? kExitOk : kExitBusy;
}

}  // namespace

void AddCheckToken(CLI::App& app, Context& context) {
  auto* check = app.add_subcommand("check-token", "Say whether a fencing token is the newest of its lock");
  auto args = std::make_shared<TokenArgs>();
  AddKeyFlags(*check, args->lock);
  check->add_option("TOKEN", args->token, "The token, such as DISTLOCK_TOKEN of run")
      ->required()
      ->option_text(" ")
      ->check(CLI::Range(int64_t{1}, kGreatestToken));
  AddContextFlags(*check, context);
  check->footer(
      "For a resource that cannot compare tokens itself: ask before each use. A newer token may be given between the\n"
      "answer and the use, so a resource that compares is safer. A lock is forgotten 24 h after its last grant.\n"
      "Exit code: 0 no newer token has been given; 1 a newer one has, or the lock is not known.\n\n"
      "Examples:\n"
      "  distlockctl check-token backup \"$DISTLOCK_TOKEN\" && ./upload\n"
      "  distlockctl check-token backup 1795405509081305 -o json | jq .newest_token");
  check->callback([&context, args] { context.command = [&context, args] { return CheckToken(context, *args); }; });
}

}  // namespace distlock::cli
