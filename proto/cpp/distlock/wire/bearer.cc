// SPDX-License-Identifier: Apache-2.0
#include "distlock/wire/bearer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "distlock/wire/given_file.h"

namespace distlock::wire {
namespace {

constexpr size_t kMostBytes = 16 << 10;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  return text;
}

// gRPC ends the process when a value of the metadata has other bytes.
bool CanBeSent(std::string_view token) {
  return std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// name:sha256, or the hash alone.
bool IsLineOfBroker(std::string_view line) {
  constexpr size_t kHash = 64;
  const size_t colon = line.rfind(':');
  const std::string_view hash = colon == std::string_view::npos ? line : line.substr(colon + 1);
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return hash.size() == kHash && std::all_of(hash.begin(), hash.end(), is_hex);
}

// As it stands behind the file's name.
std::string ProblemOf(std::string_view token) {
  if (token.empty()) return "is empty";
  if (const auto ends = std::count(token.begin(), token.end(), '\n'); ends > 0) {
    return "has " + std::to_string(ends + 1) + " lines; it must hold the token alone";
  }
  if (IsLineOfBroker(token)) return "holds a hash, which is for the broker's --token-file; it must hold the token";
  return CanBeSent(token) ? "" : "holds no token: it has a space, or a character that is not ASCII";
}

std::string NamedFile(const std::string& file) {
  const char* const path = std::getenv(kTokenFileVariable);
  return file.empty() && path != nullptr ? path : file;
}

bool IsShownTo(std::string_view address) { return StaysHere(address) || address.starts_with("tls://"); }

}  // namespace

bool StaysHere(std::string_view address) {
  for (const std::string_view here : {"unix:", "/", "127.", "localhost:", "[::1]:", "ipv4:127."}) {
    if (address.substr(0, here.size()) == here) return true;
  }
  return address == "localhost";
}

std::optional<std::string> ReadBearer(const std::string& path) {
  const std::string text = ReadGivenFile(path, kMostBytes).text;
  const std::string_view token = Trimmed(text);
  if (token.empty() || !CanBeSent(token)) return std::nullopt;
  return "Bearer " + std::string(token);
}

std::optional<std::string> BearerFor(std::string_view address, const std::string& file) {
  const std::string path = NamedFile(file);
  if (path.empty() || !IsShownTo(address)) return std::nullopt;
  return ReadBearer(path);
}

std::string TokenFileProblem(std::string_view addresses, const std::string& file) {
  const std::string path = NamedFile(file);
  if (path.empty()) return "";
  bool is_shown = false;
  for (std::string_view rest = addresses; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    is_shown = is_shown || IsShownTo(Trimmed(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (!is_shown) return "";
  const GivenFile given = ReadGivenFile(path, kMostBytes);
  const std::string problem = given.problem.empty() ? ProblemOf(Trimmed(given.text)) : given.problem;
  const std::string by = file.empty() ? kTokenFileVariable : "token_file";
  return problem.empty() ? "" : by + ": '" + path + "' " + problem;
}

}  // namespace distlock::wire
