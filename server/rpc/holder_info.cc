// SPDX-License-Identifier: Apache-2.0
#include "rpc/holder_info.h"

#include <algorithm>

namespace distlock::rpc {

std::string MakeInfo(const v1::LockSpec& spec, std::string_view broker_id) {
  v1::Holder facts;
  facts.set_owner(spec.owner());
  *facts.mutable_metadata() = spec.metadata();
  facts.set_mode(spec.mode() == v1::LOCK_MODE_UNSPECIFIED ? v1::LOCK_MODE_EXCLUSIVE : spec.mode());
  if (spec.mode() == v1::LOCK_MODE_PERMIT) facts.set_permits(std::max<uint32_t>(spec.permits(), 1));
  facts.set_broker_id(std::string(broker_id));
  return facts.SerializeAsString();
}

v1::Holder ParseInfo(std::string_view info) {
  v1::Holder read;
  v1::Holder facts;
  facts.set_mode(v1::LOCK_MODE_EXCLUSIVE);
  if (!read.ParseFromArray(info.data(), static_cast<int>(info.size()))) return facts;
  facts.set_owner(std::move(*read.mutable_owner()));
  facts.mutable_metadata()->swap(*read.mutable_metadata());
  facts.set_broker_id(std::move(*read.mutable_broker_id()));
  if (v1::LockMode_IsValid(read.mode()) && read.mode() != v1::LOCK_MODE_UNSPECIFIED) facts.set_mode(read.mode());
  facts.set_permits(read.permits());
  return facts;
}

}  // namespace distlock::rpc
