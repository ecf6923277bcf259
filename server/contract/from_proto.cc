// SPDX-License-Identifier: Apache-2.0
#include "contract/from_proto.h"

namespace distlock::contract {

core::Mode FromProto(v1::LockMode value) {
  switch (value) {
    case v1::LOCK_MODE_SHARED:
      return core::Mode::kShared;
    case v1::LOCK_MODE_PERMIT:
      return core::Mode::kPermit;
    default:
      return core::Mode::kExclusive;
  }
}

core::Policy FromProto(v1::QueuePolicy value) {
  switch (value) {
    case v1::QUEUE_POLICY_WRITER_PREFERRING:
      return core::Policy::kWriterPreferring;
    case v1::QUEUE_POLICY_READER_PREFERRING:
      return core::Policy::kReaderPreferring;
    case v1::QUEUE_POLICY_ADAPTIVE:
      return core::Policy::kAdaptive;
    default:
      return core::Policy::kFair;
  }
}

core::OnDisconnect FromProto(v1::OnDisconnect value) {
  switch (value) {
    case v1::ON_DISCONNECT_RELEASE:
      return core::OnDisconnect::kRelease;
    case v1::ON_DISCONNECT_EXPIRE:
      return core::OnDisconnect::kExpire;
    default:
      return core::OnDisconnect::kSafe;
  }
}

}  // namespace distlock::contract
