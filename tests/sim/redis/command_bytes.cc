// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "redis/redis_model.h"

namespace distlock::sim {
namespace {

// Reads "<mark><number>\r\n" and removes it from the front.
bool ReadHead(std::string_view& bytes, char mark, size_t& number) {
  if (!bytes.starts_with(mark)) return false;
  const char* end = bytes.data() + bytes.size();
  const auto read = std::from_chars(bytes.data() + 1, end, number);
  if (read.ec != std::errc() || end - read.ptr < 2 || read.ptr[0] != '\r' || read.ptr[1] != '\n') return false;
  bytes.remove_prefix(static_cast<size_t>(read.ptr + 2 - bytes.data()));
  return true;
}

}  // namespace

Argv ParseCommand(std::string_view& bytes) {
  std::string_view left = bytes;
  size_t count = 0;
  if (!ReadHead(left, '*', count) || count > left.size()) return {};
  Argv argv;
  argv.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    size_t size = 0;
    if (!ReadHead(left, '$', size) || left.size() < 2 || left.size() - 2 < size) return {};
    if (left.substr(size, 2) != "\r\n") return {};
    argv.push_back(left.substr(0, size));
    left.remove_prefix(size + 2);
  }
  bytes = left;
  return argv;
}

}  // namespace distlock::sim
