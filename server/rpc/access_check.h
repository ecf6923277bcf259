// SPDX-License-Identifier: Apache-2.0
//
// The needs of each call and each command of a Session by the policy: the table of the calls' own checks
// (authorizer.h). A test walks the services, and drives every row with a caller that lacks just this right, and with
// one that has no other: a call without a row, or one that checks something else, fails it.
#pragma once

#include <string_view>

#include "access/policy.h"

namespace distlock::rpc {

enum class Need { kAlways, kAnyOf, kAllOf };

struct AccessRow {
  std::string_view call;  // Service.Method, or SessionCommand.field
  Need need;
  access::VerbSet verbs = 0;
};

inline constexpr access::VerbSet kListAndWatch = access::Bit(access::Verb::kList) | access::Bit(access::Verb::kWatch);

inline constexpr AccessRow kAccessRows[] = {
    // The verb of the lock's mode; of several locks, for each. With a min_hold kMinHold besides.
    {"LockService.Hold", Need::kAnyOf, access::kAllAcquire},
    {"LockService.Acquire", Need::kAnyOf, access::kAllAcquire},
    {"SessionCommand.acquire", Need::kAnyOf, access::kAllAcquire},
    {"SessionCommand.adopt", Need::kAnyOf, access::kAllAcquire},
    // By lease id: any verb that takes the lock. By acquire id it is the session's own lease: always.
    {"LockService.Renew", Need::kAnyOf, access::kAllAcquire},
    {"LockService.Release", Need::kAnyOf, access::kAllAcquire},
    {"LockService.Downgrade", Need::kAnyOf, access::kAllAcquire},
    {"SessionCommand.release", Need::kAnyOf, access::kAllAcquire},
    {"SessionCommand.downgrade", Need::kAnyOf, access::kAllAcquire},
    // Each of its commands is checked.
    {"LockService.Session", Need::kAlways},
    {"SessionCommand.open", Need::kAlways},
    {"SessionCommand.cancel", Need::kAlways},
    {"SessionCommand.heartbeat", Need::kAlways},
    {"SessionCommand.goodbye", Need::kAlways},
    // The proof must be the same caller's: Authorizer::ArriveAgain.
    {"SessionCommand.authenticate", Need::kAlways},

    {"LockService.GetLock", Need::kAnyOf, access::Bit(access::Verb::kLook)},
    {"LockService.CheckToken", Need::kAnyOf, access::Bit(access::Verb::kLook)},
    {"LockService.ListLocks", Need::kAnyOf, access::Bit(access::Verb::kList)},
    {"LockService.WatchLock", Need::kAnyOf, access::Bit(access::Verb::kWatch)},
    {"LockService.WatchLocks", Need::kAllOf, kListAndWatch},

    {"AdminService.GetStatus", Need::kAnyOf, access::Bit(access::Verb::kStatus)},
    {"AdminService.ListSessions", Need::kAnyOf, access::Bit(access::Verb::kSessions)},
    {"AdminService.ForceRelease", Need::kAnyOf, access::Bit(access::Verb::kForceRelease)},
    {"AdminService.Drain", Need::kAnyOf, access::Bit(access::Verb::kDrain)},
    {"AdminService.Reload", Need::kAnyOf, access::Bit(access::Verb::kReload)},
    {"AdminService.UpgradeStore", Need::kAnyOf, access::Bit(access::Verb::kStore)},
    {"AdminService.InitQuorum", Need::kAnyOf, access::Bit(access::Verb::kStore)},
    // For oneself always; for somebody else the verb access.
    {"AdminService.CheckAccess", Need::kAnyOf, access::Bit(access::Verb::kAccess)},
};

}  // namespace distlock::rpc
