// SPDX-License-Identifier: Apache-2.0

// Package distlock takes locks from distlock's brokers.
//
//	dl, err := distlock.Dial("") // DISTLOCK_SERVER, else the local socket, else 127.0.0.1:7420
//	...
//	defer dl.Close()
//	lock, err := dl.Lock(ctx, "report", distlock.Wait(10*time.Second))
//	var busy *distlock.BusyError
//	if errors.As(err, &busy) {
//		return fmt.Errorf("held by %v", busy.Holders)
//	} else if err != nil {
//		return err
//	}
//	defer lock.Close()
//	return save(lock.Context(), rows, lock.Token()) // the context ends when the lock is lost
//
// One client serves a process: one session for all of its locks, with no goroutine and no timer for each. Durations are
// time.Durations; fencing tokens are positive and below 2^53.
//
// The promise of a lock: Lock.Valid, Lock.Err and Lock.Context look at a clock that goes on while the machine is
// suspended; they never say that a lock is held after its deadline. What no lock service can promise is that nothing
// happens between such a look and what you do next: pass the token to what you protect, and let that refuse smaller
// ones.
//
// Package distlocktest has a broker for tests.
package distlock
