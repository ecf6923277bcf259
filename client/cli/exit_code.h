// SPDX-License-Identifier: Apache-2.0
//
// The exit codes of distlockctl, one list for every command. They are part of the interface: scripts branch on them.
// Values from 64 up follow sysexits.h; 126, 127 and 128 + signal follow the shell.
#pragma once

namespace distlock::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitBusy = 1;          // another holds the lock, the wait ran out, or the token is not the newest
inline constexpr int kExitUsage = 64;        // a wrong flag or value
inline constexpr int kExitUnavailable = 69;  // the broker or its store cannot be reached, or cannot serve this
inline constexpr int kExitInternal = 70;     // a malformed answer, or the machine has no process or no output left
inline constexpr int kExitLost = 75;         // the lock was lost, or the lease is not held any more
inline constexpr int kExitDenied = 77;       // not allowed
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;

}  // namespace distlock::cli
