// SPDX-License-Identifier: Apache-2.0
#include "contract/holder_info.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/ids.h"
#include "contract/utf8.h"

namespace distlock::contract {

namespace {

constexpr int kMostShards = 64;

}  // namespace

std::string MakeInfo(const v1::LockSpec& spec, std::string_view broker_id, int shard, std::string_view identity,
                     bool detached) {
  v1::Holder facts;
  facts.set_owner(spec.owner());
  *facts.mutable_metadata() = spec.metadata();
  facts.set_mode(spec.mode() == v1::LOCK_MODE_UNSPECIFIED ? v1::LOCK_MODE_EXCLUSIVE : spec.mode());
  if (spec.mode() == v1::LOCK_MODE_PERMIT) {
    facts.set_permits(std::max(spec.permits(), 1));
    facts.set_limit(std::max(spec.limit(), 1));
  }
  facts.set_detached(detached);
  facts.set_broker_id(shard == 0 ? std::string(broker_id) : absl::StrCat(std::string(broker_id), "/", shard));
  facts.set_identity(CleanText(identity));
  return facts.SerializeAsString();
}

std::string ModeOverride(v1::LockMode mode) {
  v1::Holder facts;
  facts.set_mode(mode);
  return facts.SerializeAsString();
}

v1::Holder ParseInfo(std::string_view info) {
  v1::Holder read;
  v1::Holder facts;
  facts.set_mode(v1::LOCK_MODE_EXCLUSIVE);
  if (!read.ParseFromArray(info.data(), static_cast<int>(info.size()))) return facts;
  facts.set_owner(std::move(*read.mutable_owner()));
  facts.mutable_metadata()->swap(*read.mutable_metadata());
  facts.set_broker_id(read.broker_id().substr(0, read.broker_id().find('/')));
  if (v1::LockMode_IsValid(read.mode()) && read.mode() != v1::LOCK_MODE_UNSPECIFIED) facts.set_mode(read.mode());
  facts.set_permits(read.permits());
  facts.set_limit(read.limit());
  facts.set_detached(read.detached());
  facts.set_identity(std::move(*read.mutable_identity()));
  return facts;
}

std::string ChannelBrokerOf(std::string_view info) {
  v1::Holder read;
  if (!read.ParseFromArray(info.data(), static_cast<int>(info.size()))) return "";
  const std::string& id = read.broker_id();
  const size_t slash = id.find('/');
  if (slash == std::string::npos) return id;
  int shard = 0;
  if (!absl::SimpleAtoi(id.substr(slash + 1), &shard) || shard < 1 || shard >= kMostShards) return "";
  return ShardBrokerId(id.substr(0, slash), shard);
}

}  // namespace distlock::contract
