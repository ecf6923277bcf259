// SPDX-License-Identifier: Apache-2.0
#include "main/metric_labels.h"

#include <cstdlib>

namespace distlock {

ops::RefusalReason LabelOf(core::RefusalReason value) {
  switch (value) {
    case core::RefusalReason::kLockHeld:
      return ops::RefusalReason::kLockHeld;
    case core::RefusalReason::kWaitTimeout:
      return ops::RefusalReason::kWaitTimeout;
    case core::RefusalReason::kLeaseLost:
      return ops::RefusalReason::kLeaseLost;
    case core::RefusalReason::kNotHolder:
      return ops::RefusalReason::kNotHolder;
    case core::RefusalReason::kLimitMismatch:
      return ops::RefusalReason::kLimitMismatch;
    case core::RefusalReason::kForeignKey:
      return ops::RefusalReason::kForeignKey;
    case core::RefusalReason::kInvalidArgument:
      return ops::RefusalReason::kInvalidArgument;
    case core::RefusalReason::kNotSupported:
      return ops::RefusalReason::kNotSupported;
    case core::RefusalReason::kQuotaExceeded:
      return ops::RefusalReason::kQuotaExceeded;
    case core::RefusalReason::kStoreFull:
      return ops::RefusalReason::kStoreFull;
    case core::RefusalReason::kStoreUnavailable:
      return ops::RefusalReason::kStoreUnavailable;
    case core::RefusalReason::kQuorumNotReached:
      return ops::RefusalReason::kQuorumNotReached;
    case core::RefusalReason::kDraining:
      return ops::RefusalReason::kDraining;
    case core::RefusalReason::kUnauthenticated:
      return ops::RefusalReason::kUnauthenticated;
    case core::RefusalReason::kPermissionDenied:
      return ops::RefusalReason::kPermissionDenied;
    case core::RefusalReason::kCancelled:
      return ops::RefusalReason::kCancelled;
    case core::RefusalReason::kStoreHoldOff:
      return ops::RefusalReason::kStoreHoldOff;
  }
  std::abort();
}

ops::LostReason LabelOf(core::LostReason value) {
  switch (value) {
    case core::LostReason::kExpired:
      return ops::LostReason::kExpired;
    case core::LostReason::kTaken:
      return ops::LostReason::kTaken;
    case core::LostReason::kForced:
      return ops::LostReason::kForced;
    case core::LostReason::kMaxHold:
      return ops::LostReason::kMaxHold;
    case core::LostReason::kDrained:
      return ops::LostReason::kDrained;
    case core::LostReason::kMoved:
      break;  // goes on record as FactKind::kMoved
  }
  std::abort();
}

ops::HandoffPath LabelOf(core::HandoffPath value) {
  switch (value) {
    case core::HandoffPath::kReply:
      return ops::HandoffPath::kReply;
    case core::HandoffPath::kNotice:
      return ops::HandoffPath::kNotice;
    case core::HandoffPath::kTend:
      return ops::HandoffPath::kTend;
  }
  std::abort();
}

ops::StoreVerb LabelOf(core::Verb value) {
  switch (value) {
    case core::Verb::kAcquire:
      return ops::StoreVerb::kAcquire;
    case core::Verb::kAcquireAll:
      return ops::StoreVerb::kAcquireAll;
    case core::Verb::kRenew:
      return ops::StoreVerb::kRenew;
    case core::Verb::kRelease:
      return ops::StoreVerb::kRelease;
    case core::Verb::kWithdraw:
      return ops::StoreVerb::kWithdraw;
    case core::Verb::kTend:
      return ops::StoreVerb::kTend;
    case core::Verb::kWatch:
      return ops::StoreVerb::kWatch;
    case core::Verb::kDowngrade:
      return ops::StoreVerb::kDowngrade;
    case core::Verb::kForce:
      return ops::StoreVerb::kForce;
    case core::Verb::kAdopt:
      return ops::StoreVerb::kAdopt;
  }
  std::abort();
}

ops::StoreError LabelOf(core::FailureKind value) {
  switch (value) {
    case core::FailureKind::kNotSent:
      return ops::StoreError::kUnsent;
    case core::FailureKind::kUnavailable:
      return ops::StoreError::kUnavailable;
    case core::FailureKind::kFull:
      return ops::StoreError::kFull;
    case core::FailureKind::kForeignKey:
      return ops::StoreError::kForeignKey;
  }
  std::abort();
}

ops::StreamEnd LabelOf(rpc::StreamClose value) {
  switch (value) {
    case rpc::StreamClose::kClient:
      return ops::StreamEnd::kClient;
    case rpc::StreamClose::kBroken:
      return ops::StreamEnd::kBroken;
    case rpc::StreamClose::kLapsed:
      return ops::StreamEnd::kLapsed;
    case rpc::StreamClose::kOverflow:
      return ops::StreamEnd::kOverflow;
    case rpc::StreamClose::kDrained:
      return ops::StreamEnd::kDrained;
    case rpc::StreamClose::kQuota:
      return ops::StreamEnd::kQuota;
    case rpc::StreamClose::kFinished:
      return ops::StreamEnd::kFinished;
    case rpc::StreamClose::kDenied:
      return ops::StreamEnd::kDenied;
    case rpc::StreamClose::kRevoked:
      return ops::StreamEnd::kRevoked;
    case rpc::StreamClose::kProtocol:
      return ops::StreamEnd::kProtocol;
  }
  std::abort();
}

ops::RefuseCause LabelOf(door::RefuseCause value) {
  switch (value) {
    case door::RefuseCause::kConnections:
      return ops::RefuseCause::kConnections;
    case door::RefuseCause::kPeerConnections:
      return ops::RefuseCause::kPeerConnections;
    case door::RefuseCause::kRate:
      return ops::RefuseCause::kRate;
    case door::RefuseCause::kDescriptors:
      return ops::RefuseCause::kDescriptors;
    case door::RefuseCause::kPreface:
      return ops::RefuseCause::kPreface;
    case door::RefuseCause::kPenalty:
      return ops::RefuseCause::kPenalty;
  }
  std::abort();
}

ops::CutCause LabelOf(door::CutCause value) {
  switch (value) {
    case door::CutCause::kEarlyCancels:
      return ops::CutCause::kEarlyCancels;
    case door::CutCause::kOpenCalls:
      return ops::CutCause::kOpenCalls;
    case door::CutCause::kUnusedBytes:
      return ops::CutCause::kUnusedBytes;
    case door::CutCause::kFrames:
      return ops::CutCause::kFrames;
    case door::CutCause::kNoPause:
      return ops::CutCause::kNoPause;
    case door::CutCause::kRevoked:
      return ops::CutCause::kRevoked;
  }
  std::abort();
}

}  // namespace distlock
