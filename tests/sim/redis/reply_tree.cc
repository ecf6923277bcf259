// SPDX-License-Identifier: Apache-2.0
#include <hiredis/alloc.h>

#include <cstdlib>
#include <cstring>

#include "redis/reply_sink.h"

namespace distlock::sim {
namespace {

// freeReplyObject() frees with hiredis' own allocator.
void* Allocate(size_t size) {
  void* memory = hi_calloc(1, size);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void ReplyTree::Integer(int64_t value) { Add(REDIS_REPLY_INTEGER)->integer = value; }
void ReplyTree::Bulk(std::string_view text) { AddText(REDIS_REPLY_STRING, text); }
void ReplyTree::Null() { Add(REDIS_REPLY_NIL); }
void ReplyTree::Status(std::string_view text) { AddText(REDIS_REPLY_STATUS, text); }
void ReplyTree::Error(std::string_view text) { AddText(REDIS_REPLY_ERROR, text); }

void ReplyTree::Array(size_t size) {
  redisReply* array = Add(REDIS_REPLY_ARRAY);
  if (size == 0) return;
  array->elements = size;
  array->element = static_cast<redisReply**>(Allocate(size * sizeof(redisReply*)));
  open_.push_back({array, 0});
}

void ReplyTree::AddText(int type, std::string_view text) {
  redisReply* reply = Add(type);
  reply->str = static_cast<char*>(Allocate(text.size() + 1));
  if (!text.empty()) std::memcpy(reply->str, text.data(), text.size());
  reply->len = text.size();
}

redisReply* ReplyTree::Add(int type) {
  auto* reply = static_cast<redisReply*>(Allocate(sizeof(redisReply)));
  reply->type = type;
  if (open_.empty()) {
    root_.reset(reply);
    return reply;
  }
  Open& open = open_.back();
  open.array->element[open.next++] = reply;
  if (open.next == open.array->elements) open_.pop_back();
  return reply;
}

}  // namespace distlock::sim
