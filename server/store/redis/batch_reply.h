// SPDX-License-Identifier: Apache-2.0
//
// The answer to a call of batch.lua, looked at one item at a time. Pure; any thread.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <functional>

namespace distlock::store {

// Does not own the reply.
class BatchReply {
 public:
  // Null: there is none.
  BatchReply(const redisReply* reply, size_t items) : reply_(reply), items_(items) {}

  // Calls `look` with the reply that the item's own script would have sent; it is valid until `look` returns. When the
  // whole reply is an error or malformed, `look` gets the whole; when there is none, null.
  void Of(size_t item, const std::function<void(const redisReply*)>& look) const;

 private:
  const redisReply* const reply_;
  const size_t items_;
};

}  // namespace distlock::store
