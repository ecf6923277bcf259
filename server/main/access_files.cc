// SPDX-License-Identifier: Apache-2.0
#include "main/access_files.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "access/policy_file.h"
#include "distlock/wire/given_file.h"
#include "ops/log.h"

namespace distlock {
namespace {

constexpr mode_t kReadableByOthers = 0007;

absl::Status Problem(const std::string& option, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(option, ": ", what));
}

absl::StatusOr<std::string> ReadWhole(const std::string& option, const std::string& file, bool secret) {
  wire::GivenFile given = wire::ReadGivenFile(file);
  if (!given.problem.empty()) return Problem(option, absl::StrCat("'", file, "' ", given.problem));
  if (secret && (given.mode & kReadableByOthers) != 0) {
    ops::Warn("option", {{"warning", absl::StrCat(option, ": '", file, "' is open to everybody; chmod 0640 it")}});
  }
  return std::move(given.text);
}

// Reads `file`, has `parse` make a value of it, and `use` that. `parse` names the file in its messages.
template <typename Parse, typename Use>
absl::Status Load(const std::string& option, const std::string& file, bool secret, Parse parse, Use use) {
  auto text = ReadWhole(option, file, secret);
  if (!text.ok()) return text.status();
  auto parsed = parse(*text);
  if (!parsed.ok()) return Problem(option, std::string(parsed.status().message()));
  use(*std::move(parsed));
  return absl::OkStatus();
}

}  // namespace

void AddAccessUnits(const ops::Options& options, rpc::Authorizer& authorizer, Reloader& reloader) {
  if (!options.token_file.empty()) {
    reloader.Add({.part = ReloadPart::kTokens, .name = "tokens", .files = {options.token_file}, .load = [&] {
                    const std::string& file = options.token_file;
                    return Load(
                        "--token-file", file, true, [&](auto& text) { return access::Tokens::Parse(text, file); },
                        [&](access::Tokens tokens) {
                          authorizer.Replace(nullptr, std::make_shared<const access::Tokens>(std::move(tokens)),
                                             nullptr);
                        });
                  }});
  }
  if (!options.jwt_keys.empty()) {
    reloader.Add(
        {.part = ReloadPart::kJwtKeys, .name = "jwt-keys", .files = {options.jwt_keys}, .load = [&] {
           const std::string& file = options.jwt_keys;
           return Load(
               "--jwt-keys", file, false,
               [&](auto& text) { return access::JwtKeys::Parse(text, file, options.jwt_issuer, options.jwt_audience); },
               [&](std::shared_ptr<const access::JwtKeys> keys) {
                 authorizer.Replace(nullptr, nullptr, std::move(keys));
               });
         }});
  }
  if (!options.policy.empty()) {
    reloader.Add({.part = ReloadPart::kPolicy, .name = "policy", .files = {options.policy}, .load = [&] {
                    const std::string& file = options.policy;
                    std::vector<std::string> warnings;
                    return Load(
                        "--policy", file, false, [&](auto& text) { return access::ParsePolicy(text, file, &warnings); },
                        [&](access::Policy policy) {
                          for (const std::string& warning : warnings) {
                            ops::Warn("option", {{"warning", absl::StrCat("--policy: ", warning)}});
                          }
                          authorizer.Replace(std::make_shared<const access::Policy>(std::move(policy)), nullptr,
                                             nullptr);
                        });
                  }});
  }
}

}  // namespace distlock
