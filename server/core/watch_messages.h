// SPDX-License-Identifier: Apache-2.0
//
// The part of messages.h that is about watching a lock. All types are plain values.
#pragma once

#include "core/lock_view.h"
#include "core/types.h"

namespace distlock::core {

// From a caller: shows the lock, and each change of its holders or waiters from then on, as Changed to (session, request),
// until StreamEnded. No OpenSession precedes it.
struct WatchLock {
  SessionId session = 0;
  RequestId request = 0;
  LockName name;
};

// From the store: the holders or waiters of a lock that this broker watches have changed.
struct ChangeNotice {
  LockName name;
};

// To the store: shows the lock, and has the store tell this broker of its changes, while its slot lasts.
struct StoreWatch {
  OpId op = 0;
  LockName name;
};
// Its answer.
struct WatchDone {
  LockView view;  // its name is the asker's to fill in
};

// To a listener: as a lock that is watched was at some moment between the look's sending and its answer.
struct Changed {
  LockView view;
};

}  // namespace distlock::core
