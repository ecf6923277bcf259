// SPDX-License-Identifier: Apache-2.0
//
// Replies as text, to compare and to print: 7, "bulk", nil, +status, -error, [1, "a"]. Pure; any thread.
#pragma once

#include <hiredis/hiredis.h>

#include <string>
#include <string_view>

#include "store/text.h"

namespace distlock::sim {

inline std::string Quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte < 127 && c != '"' && c != '\\') {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out += '"';
}

inline std::string ReplyText(const redisReply& reply) {
  const std::string_view text(reply.str == nullptr ? "" : reply.str, reply.str == nullptr ? 0 : reply.len);
  std::string out;
  switch (reply.type) {
    case REDIS_REPLY_INTEGER:
      return store::Cat(reply.integer);
    case REDIS_REPLY_STRING:
      return Quoted(text);
    case REDIS_REPLY_STATUS:
      return store::Cat("+", text);
    case REDIS_REPLY_ERROR:
      return store::Cat("-", text);
    case REDIS_REPLY_ARRAY:
      for (size_t i = 0; i < reply.elements; ++i) store::Append(out, i == 0 ? "" : ", ", ReplyText(*reply.element[i]));
      return store::Cat("[", out, "]");
    default:
      return "nil";
  }
}

}  // namespace distlock::sim
