// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/map_refresh.h"

#include <algorithm>

namespace distlock::store {

void MapRefresh::Want(core::Instant now) {
  if (asking_) {
    wanted_ = true;
    return;
  }
  const core::Instant earliest = asked_once_ ? std::max(now, asked_at_ + kLeastPause) : now;
  // While answers are of no use the back-off counts.
  if (failures_ == 0) due_ = std::min(due_, earliest);
}

void MapRefresh::Asked(core::Instant now) {
  asking_ = true;
  asked_once_ = true;
  wanted_ = false;
  asked_at_ = now;
}

void MapRefresh::Answered(core::Instant now, bool adopted, bool unserved) {
  asking_ = false;
  failures_ = adopted ? 0 : failures_ + 1;
  if (adopted && !unserved) unserved_since_.reset();
  core::Duration pause = kUsualPause;
  if (!adopted) {
    pause = std::min(kLongestBackOff, kLeastPause * (1 << std::min(failures_ - 1, 4)));
  } else if (unserved) {
    pause = WhileUnserved(now);
  } else if (wanted_) {
    pause = core::Duration::zero();
  }
  wanted_ = false;
  due_ = std::max(now + pause, asked_at_ + kLeastPause);
}

core::Duration MapRefresh::WhileUnserved(core::Instant now) {
  if (!unserved_since_) unserved_since_ = now;
  const bool soon = now - *unserved_since_ < kSoon;
  const core::Duration least = soon ? kSoonUnserved : kLongUnserved;
  std::uniform_int_distribution<int64_t> jitter(0, (soon ? least / 16 : least).count());
  return least + core::Duration(jitter(random_));
}

}  // namespace distlock::store
