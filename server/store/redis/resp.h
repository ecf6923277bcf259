// SPDX-License-Identifier: Apache-2.0
//
// RESP: writes a command as bytes, and reads hiredis' reply objects safely.
// Pure; any thread.
#pragma once

#include <hiredis/hiredis.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/text.h"

namespace distlock::store {

class CommandBuilder {
 public:
  // `usual`: bytes to reserve. A longer command costs a copy.
  explicit CommandBuilder(size_t usual = kUsualBytes) {
    bytes_.reserve(usual);
    bytes_.resize(kHeadBytes);
  }

  CommandBuilder& Arg(std::string_view value) {
    ++count_;
    Head head('$', value.size());
    bytes_.append(head.text, head.size);
    bytes_.append(value);
    bytes_.append("\r\n", 2);
    return *this;
  }
  CommandBuilder& Arg(int64_t value) {
    char digits[24];
    return Arg(std::string_view(
        digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits)));
  }

  std::string Build() && {
    // The count of arguments stands first and is known last.
    Head head('*', count_);
    bytes_.replace(0, kHeadBytes, head.text, head.size);
    return std::move(bytes_);
  }

 private:
  // Enough for the call of a script that knows one lock.
  static constexpr size_t kUsualBytes = 640;
  static constexpr size_t kHeadBytes = 5;  // enough for most: *23\r\n

  struct Head {
    Head(char what, size_t number) {
      text[0] = what;
      char* end = std::to_chars(text + 1, text + sizeof text - 2, number).ptr;
      *end++ = '\r';
      *end++ = '\n';
      size = static_cast<size_t>(end - text);
    }
    char text[24];
    size_t size;
  };

  std::string bytes_;
  size_t count_ = 0;
};

inline std::string MakeCommand(std::initializer_list<std::string_view> args) {
  CommandBuilder builder;
  for (const auto arg : args) builder.Arg(arg);
  return std::move(builder).Build();
}

struct ReplyDeleter {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using ReplyPtr = std::unique_ptr<redisReply, ReplyDeleter>;

inline bool IsError(const redisReply& reply) { return reply.type == REDIS_REPLY_ERROR; }

// The bytes of a string, status or error; "" for other replies.
inline std::string_view Text(const redisReply& reply) {
  const bool text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS || IsError(reply);
  return text ? std::string_view(reply.str, reply.len) : std::string_view();
}

// Reads an array that may be malformed: each getter is nullopt when the element is missing or of another type.
class ReplyArray {
 public:
  explicit ReplyArray(const redisReply& reply) : reply_(reply) {}

  size_t size() const { return reply_.type == REDIS_REPLY_ARRAY ? reply_.elements : 0; }
  const redisReply* At(size_t i) const { return i < size() ? reply_.element[i] : nullptr; }

  std::optional<int64_t> Integer(size_t i) const {
    const redisReply* at = At(i);
    if (at == nullptr || at->type != REDIS_REPLY_INTEGER) return std::nullopt;
    return at->integer;
  }
  std::optional<std::string_view> String(size_t i) const {
    const redisReply* at = At(i);
    if (at == nullptr || at->type != REDIS_REPLY_STRING) return std::nullopt;
    return std::string_view(at->str, at->len);
  }

 private:
  const redisReply& reply_;
};

}  // namespace distlock::store
