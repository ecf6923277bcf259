// SPDX-License-Identifier: Apache-2.0
//
// The interface of the core: everything that can happen to it (Input) and everything it can want (Effect). rpc turns
// protobuf into the one side of it, and store turns it into commands of its server; neither knows of the other.
#pragma once

#include <variant>

#include "core/caller_messages.h"
#include "core/events.h"
#include "core/facts.h"
#include "core/lock_name.h"
#include "core/store_messages.h"

namespace distlock::core {

// Time passed; nothing else happened.
struct Tick {};

using Input =
    std::variant<Tick, OpenSession, Acquire, AcquireAll, Cancel, Release, Renew, Downgrade, Adopt, ForceRelease,
                 WatchLock, Heartbeat, Goodbye, StreamEnded, HolderDied, Drain, StoreUp, StoreDown, StoreClockStep,
                 ChannelUp, GrantNotice, ChangeNotice, ForceNotice, WantedNotice, StoreReply>;

// Nothing is held or waiting any more after Drain.
struct DrainComplete {};

using Effect = std::variant<StoreCommand, Notify, Fact, DrainComplete>;

}  // namespace distlock::core
