// SPDX-License-Identifier: Apache-2.0
//
// Bytes from the store's socket, in pieces as they may come, through hiredis' reader into the codec.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <memory>

#include "bytes.h"
#include "decoding.h"
#include "store/redis/resp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct ReaderDeleter {
    void operator()(redisReader* reader) const { redisReaderFree(reader); }
  };
  constexpr long long kMaxElements = 100'000;  // as the store's connection sets it
  const std::unique_ptr<redisReader, ReaderDeleter> reader(redisReaderCreate());
  reader->maxelements = kMaxElements;

  distlock::fuzz::Bytes bytes(data, size);
  const size_t piece = bytes.Below(64) + 1;
  std::string_view rest = bytes.Rest();
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, piece);
    rest.remove_prefix(part.size());
    if (redisReaderFeed(reader.get(), part.data(), part.size()) != REDIS_OK) return 0;
    while (true) {
      void* raw = nullptr;
      if (redisReaderGetReply(reader.get(), &raw) != REDIS_OK) return 0;
      if (raw == nullptr) break;
      const distlock::store::ReplyPtr reply(static_cast<redisReply*>(raw));
      distlock::fuzz::DecodeEveryWay(*reply);
    }
  }
  return 0;
}
