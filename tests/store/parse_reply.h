// SPDX-License-Identifier: Apache-2.0
//
// Bytes as a server sends them, as hiredis reads them. Single-threaded.
#pragma once

#include <string_view>

#include "store/redis/resp.h"

namespace distlock::store {

// Null: they are no whole reply.
inline ReplyPtr Parse(std::string_view bytes) {
  redisReader* reader = redisReaderCreate();
  redisReaderFeed(reader, bytes.data(), bytes.size());
  void* reply = nullptr;
  redisReaderGetReply(reader, &reply);
  redisReaderFree(reader);
  return ReplyPtr(static_cast<redisReply*>(reply));
}

// Bytes of a bulk string, and of an array of them.
inline std::string BulkOf(std::string_view text) { return Cat("$", text.size(), "\r\n", text, "\r\n"); }

inline std::string ArrayOf(const std::vector<std::string>& texts) {
  std::string out = Cat("*", texts.size(), "\r\n");
  for (const std::string& text : texts) out += BulkOf(text);
  return out;
}

}  // namespace distlock::store
