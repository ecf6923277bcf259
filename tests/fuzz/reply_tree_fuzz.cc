// SPDX-License-Identifier: Apache-2.0
//
// Reply trees of any shape, most of them nearly right: the codes, counts and texts that scripts answer with, out of
// place. RESP3's types too, as hiredis makes them.
#include <hiredis/hiredis.h>

#include <deque>
#include <string>
#include <vector>

#include "bytes.h"
#include "decoding.h"

namespace {

using distlock::fuzz::Bytes;

constexpr size_t kDepthMax = 3;
constexpr size_t kElementsMax = 110;  // more than a full renewal's answer has
constexpr std::string_view kTexts[] = {
    "",
    "1800000000000000",
    "9007199254740991",
    "18446744073709551616",
    "15000",
    "0",
    "shape",
    "blocked",
    "0123456789abcdef0123456789abcdef",
    "00000000000000000000000000000000",
    "1;0123456789abcdef0123456789abcdef;7;1800000000000000;15000;0;info",
    "00000000000000aa;15000;0;info",
    "NOSCRIPT No matching script.",
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:1.",
};

// Owns what it has made.
class Trees {
 public:
  redisReply* Make(Bytes& bytes, size_t depth) {
    redisReply& reply = replies_.emplace_back();
    reply = {};
    constexpr int kTypes[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING, REDIS_REPLY_ARRAY,  REDIS_REPLY_ERROR,
                              REDIS_REPLY_STATUS,  REDIS_REPLY_NIL,    REDIS_REPLY_DOUBLE, REDIS_REPLY_BOOL,
                              REDIS_REPLY_MAP,     REDIS_REPLY_SET,    REDIS_REPLY_PUSH,   REDIS_REPLY_VERB,
                              REDIS_REPLY_BIGNUM};
    reply.type = kTypes[bytes.Below(std::size(kTypes))];
    switch (reply.type) {
      case REDIS_REPLY_INTEGER:
      case REDIS_REPLY_BOOL:
        reply.integer = bytes.Flag() ? bytes.Byte() : bytes.Number<int64_t>();
        break;
      case REDIS_REPLY_ARRAY:
      case REDIS_REPLY_MAP:
      case REDIS_REPLY_SET:
      case REDIS_REPLY_PUSH:
        Fill(reply, bytes, depth);
        break;
      case REDIS_REPLY_NIL:
        break;
      default:
        SetText(reply, bytes);
    }
    return &reply;
  }

 private:
  void Fill(redisReply& reply, Bytes& bytes, size_t depth) {
    const size_t count = depth < kDepthMax ? bytes.Below(kElementsMax) : 0;
    auto& elements = elements_.emplace_back(count);
    for (auto& element : elements) element = Make(bytes, depth + 1);
    reply.elements = count;
    reply.element = elements.data();
  }

  void SetText(redisReply& reply, Bytes& bytes) {
    const size_t which = bytes.Byte();
    std::string& text = texts_.emplace_back(which < std::size(kTexts) ? kTexts[which] : bytes.Text());
    reply.str = text.data();
    reply.len = text.size();
  }

  std::deque<redisReply> replies_;
  std::deque<std::vector<redisReply*>> elements_;
  std::deque<std::string> texts_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  Trees trees;
  distlock::fuzz::DecodeEveryWay(*trees.Make(bytes, 0));
  return 0;
}
