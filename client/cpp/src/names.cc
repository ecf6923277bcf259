// SPDX-License-Identifier: Apache-2.0
#include "distlock/wire/names.h"

#include "distlock/types.h"

namespace distlock {

std::string_view Name(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kUnreachable:
      return "UNREACHABLE";
    case RefusalReason::kClientClosed:
      return "CLIENT_CLOSED";
    case RefusalReason::kWouldDeadlock:
      return "WOULD_DEADLOCK";
    case RefusalReason::kInternal:
      return "INTERNAL";
    default:
      break;  // a reason of the wire
  }
  const std::string_view name = wire::NameOf(static_cast<v1::RefusalReason>(reason));
  return name.empty() ? "UNKNOWN" : name;  // a reason of a newer broker
}

std::string_view Name(LockMode mode) {
  switch (mode) {
    case LockMode::kExclusive:
      return "EXCLUSIVE";
    case LockMode::kShared:
      return "SHARED";
    case LockMode::kPermit:
      return "PERMIT";
  }
  return "UNKNOWN";  // a mode of a newer broker
}

std::string_view Name(EndCause cause) {
  switch (cause) {
    case EndCause::kNotEnded:
      return "NOT_ENDED";
    case EndCause::kExpired:
      return "EXPIRED";
    case EndCause::kTaken:
      return "TAKEN";
    case EndCause::kForced:
      return "FORCED";
    case EndCause::kMaxHold:
      return "MAX_HOLD";
    case EndCause::kDrained:
      return "DRAINED";
    case EndCause::kReleased:
      return "RELEASED";
    case EndCause::kLapsed:
      return "LAPSED";
    case EndCause::kDisconnected:
      return "DISCONNECTED";
    case EndCause::kClientClosed:
      return "CLIENT_CLOSED";
  }
  return "UNKNOWN";
}

std::string_view Name(LockState state) {
  switch (state) {
    case LockState::kHeld:
      return "HELD";
    case LockState::kAtRisk:
      return "AT_RISK";
    case LockState::kLost:
      return "LOST";
    case LockState::kReleased:
      return "RELEASED";
  }
  return "UNKNOWN";
}

std::string_view Name(ReleaseOutcome outcome) {
  switch (outcome) {
    case ReleaseOutcome::kReleased:
      return "RELEASED";
    case ReleaseOutcome::kStillHeld:
      return "STILL_HELD";
    case ReleaseOutcome::kAlreadyGone:
      return "ALREADY_GONE";
    case ReleaseOutcome::kUnknown:
      return "UNKNOWN";
  }
  return "UNKNOWN";
}

}  // namespace distlock
