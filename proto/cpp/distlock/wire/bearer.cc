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

}  // namespace

bool StaysHere(std::string_view address) {
  for (const std::string_view here : {"unix:", "/", "127.", "localhost:", "[::1]:", "ipv4:127."}) {
    if (address.substr(0, here.size()) == here) return true;
  }
  return address == "localhost";
}

std::optional<std::string> ReadBearer(const std::string& path) {
  std::string text = ReadGivenFile(path, kMostBytes).text;
  while (!text.empty() && IsSpace(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), IsSpace));
  // gRPC ends the process when a value of the metadata has other bytes.
  const bool can_be_sent = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (text.empty() || !can_be_sent) return std::nullopt;
  return "Bearer " + text;
}

std::optional<std::string> BearerFor(std::string_view address) {
  const char* const path = std::getenv(kTokenFileVariable);
  if (path == nullptr || *path == '\0' || !(StaysHere(address) || address.starts_with("tls://"))) {
    return std::nullopt;
  }
  return ReadBearer(path);
}

std::string TokenFileProblem() {
  const char* const path = std::getenv(kTokenFileVariable);
  if (path == nullptr || *path == '\0') return "";
  const std::string problem = ReadGivenFile(path, kMostBytes).problem;
  return problem.empty() ? "" : std::string(kTokenFileVariable) + ": '" + path + "' " + problem;
}

}  // namespace distlock::wire
