// SPDX-License-Identifier: Apache-2.0
//
// Texts that come from the store or return from a caller: hand-off notices, holder and waiter values, page tokens. What
// is read is within the bounds that the core adds up, and a page token survives being written and read again.
#include "bytes.h"
#include "core/check.h"
#include "store/redis/codec.h"
#include "store/redis/lock_listing.h"
#include "store/redis/wire_value.h"

namespace {

using distlock::core::Duration;
using distlock::core::kMaxStoreTime;
using distlock::store::PageToken;

void CheckHolder(std::string_view text, int64_t pttl_ms) {
  const auto holder = distlock::store::ParseHolder(text, pttl_ms);
  if (!holder) return;
  DISTLOCK_CHECK(holder->since.us >= 0 && holder->since <= kMaxStoreTime);
  for (const Duration span : {holder->ttl, holder->lock_delay, holder->time_left}) {
    DISTLOCK_CHECK(span >= Duration::zero() && span <= Duration::max() / 2);
  }
  // The number of its broker stands behind the mark of a quorum.
  DISTLOCK_CHECK(holder->wanted_by != 0 || text.ends_with(holder->info));
}

void CheckNotice(std::string_view text) {
  const auto input = distlock::store::Codec::DecodeNotice(text);
  if (!input) return;
  if (const auto* change = std::get_if<distlock::core::ChangeNotice>(&*input)) {
    DISTLOCK_CHECK(!change->name.empty());
    return;
  }
  if (const auto* force = std::get_if<distlock::core::ForceNotice>(&*input)) {
    DISTLOCK_CHECK(!force->name.empty() && force->token != 0 && text.ends_with(force->reason));
    return;
  }
  if (const auto* wanted = std::get_if<distlock::core::WantedNotice>(&*input)) {
    DISTLOCK_CHECK(!wanted->name.empty() && wanted->token != 0);
    return;
  }
  const auto* notice = std::get_if<distlock::core::GrantNotice>(&*input);
  DISTLOCK_CHECK(notice != nullptr);
  // The owner of zeros is nobody: the lock is blocked.
  DISTLOCK_CHECK(!notice->name.empty() && (notice->token != 0 || notice->owner == distlock::core::OwnerId{}));
  DISTLOCK_CHECK(notice->since.us >= 0 && notice->since <= kMaxStoreTime);
  DISTLOCK_CHECK(notice->ttl >= Duration::zero() && notice->ttl <= Duration::max() / 2);
}

void CheckPageToken(std::string_view text) {
  const auto token = PageToken::Decode(text, "");
  if (!token.ok()) return;
  const auto again = PageToken::Decode(token->Encode(), "");
  DISTLOCK_CHECK(again.ok());
  // An empty text is both the beginning and what the end is written as.
  if (token->Encode().empty()) return;
  DISTLOCK_CHECK(again->scanned_all == token->scanned_all && again->names == token->names);
  DISTLOCK_CHECK(again->scanned_all || again->cursor == token->cursor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  distlock::fuzz::Bytes bytes(data, size);
  const int64_t pttl_ms = bytes.Number<int64_t>();
  const std::string_view text = bytes.Rest();
  CheckHolder(text, pttl_ms);
  distlock::store::ParseWaiter({}, text);
  CheckNotice(text);
  CheckPageToken(text);
  if (const auto owner = distlock::store::ParseOwner(text)) {
    DISTLOCK_CHECK(distlock::store::ParseOwner(distlock::store::HexOfOwner(*owner)) == owner);
  }
  return 0;
}
