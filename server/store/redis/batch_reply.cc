// SPDX-License-Identifier: Apache-2.0
#include "store/redis/batch_reply.h"

#include <iterator>

#include "store/redis/reply_code.h"

namespace distlock::store {

void BatchReply::Of(size_t item, const std::function<void(const redisReply*)>& look) const {
  if (reply_ == nullptr || reply_->type != REDIS_REPLY_ARRAY || reply_->elements != items_ + 1) return look(reply_);
  redisReply* const own = reply_->element[item + 1];
  const bool is_granted = own->type == REDIS_REPLY_INTEGER && own->integer == kGranted;
  if (!is_granted && (own->type != REDIS_REPLY_INTEGER || own->integer != kReleased)) return look(own);
  // Only the code was sent, as what follows is the same for all: the time, or nothing to tell.
  redisReply* const time = reply_->element[0];
  redisReply nothing{};
  nothing.type = REDIS_REPLY_STRING;
  char empty[] = "";
  nothing.str = empty;
  redisReply* granted[] = {own, time, time, time};
  redisReply* released[] = {own, time, &nothing};
  redisReply whole{};
  whole.type = REDIS_REPLY_ARRAY;
  whole.elements = is_granted ? std::size(granted) : std::size(released);
  whole.element = is_granted ? granted : released;
  look(&whole);
}

}  // namespace distlock::store
