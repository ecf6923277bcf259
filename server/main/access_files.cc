// SPDX-License-Identifier: Apache-2.0
#include "main/access_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "access/policy_file.h"
#include "ops/log.h"

namespace distlock {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr mode_t kReadableByOthers = 0007;

absl::Status Problem(const std::string& option, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(option, ": ", what));
}

absl::StatusOr<std::string> ReadWhole(const std::string& option, const std::string& file, bool secret) {
  const auto bad = [&](const std::string& why) { return Problem(option, absl::StrCat("'", file, "' ", why)); };
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad(absl::StrCat("cannot be read: ", std::strerror(errno)));
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat facts{};
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return bad("is no regular file");
  if (secret && (facts.st_mode & kReadableByOthers) != 0) {
    ops::Warn("option", {{"warning", absl::StrCat(option, ": '", file, "' is open to everybody; chmod 0640 it")}});
  }
  std::string text(kMostBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad(absl::StrCat("cannot be read: ", std::strerror(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
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

void AddAccessUnits(const ops::Options& options, rpc::Gate& gate, Reloader& reloader) {
  if (!options.token_file.empty()) {
    reloader.Add({.part = ops::ReloadPart::kTokens, .name = "tokens", .files = {options.token_file}, .load = [&] {
                    const std::string& file = options.token_file;
                    return Load(
                        "--token-file", file, true, [&](auto& text) { return access::Tokens::Parse(text, file); },
                        [&](access::Tokens tokens) {
                          gate.Replace(nullptr, std::make_shared<const access::Tokens>(std::move(tokens)), nullptr);
                        });
                  }});
  }
  if (!options.jwt_keys.empty()) {
    reloader.Add(
        {.part = ops::ReloadPart::kJwtKeys, .name = "jwt-keys", .files = {options.jwt_keys}, .load = [&] {
           const std::string& file = options.jwt_keys;
           return Load(
               "--jwt-keys", file, false,
               [&](auto& text) { return access::JwtKeys::Parse(text, file, options.jwt_issuer, options.jwt_audience); },
               [&](std::shared_ptr<const access::JwtKeys> keys) { gate.Replace(nullptr, nullptr, std::move(keys)); });
         }});
  }
  if (!options.policy.empty()) {
    reloader.Add({.part = ops::ReloadPart::kPolicy, .name = "policy", .files = {options.policy}, .load = [&] {
                    const std::string& file = options.policy;
                    return Load(
                        "--policy", file, false, [&](auto& text) { return access::ParsePolicy(text, file); },
                        [&](access::Policy policy) {
                          gate.Replace(std::make_shared<const access::Policy>(std::move(policy)), nullptr, nullptr);
                        });
                  }});
  }
}

}  // namespace distlock
