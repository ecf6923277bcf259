// SPDX-License-Identifier: Apache-2.0
/// <reference lib="esnext.disposable" preserve="true" />
//
// The interfaces that a program depends on, so that it can be given a client or a double.
import type {LockOptions, Outcome, PermitOptions} from './types.js';

/** As Held. */
export interface HeldLock extends AsyncDisposable {
  /** The lock's name. */
  readonly key: string;
  /** The fencing token. */
  readonly token: number;
  /** Whether the lock is held, by the clock, at this moment. */
  readonly isHeld: boolean;
  /** Aborted when the lock is lost, with a LockLostError as its reason; not by a release. */
  readonly signal: AbortSignal;
  /** @throws LockLostError unless the lock is held at this moment */
  check(): void;
  /** Gives the lock back, and waits for the answer. */
  release(): Promise<Outcome>;
  /** Sends the release and does not wait. */
  releaseSoon(): void;
}

/** As Client. */
export interface Locks {
  /** Takes an exclusive lock. */
  lock(key: string, options?: LockOptions): Promise<HeldLock>;
  /** Takes the lock for reading. */
  shared(key: string, options?: LockOptions): Promise<HeldLock>;
  /** Takes n permits of a semaphore that has `limit`. */
  permits(key: string, options: PermitOptions): Promise<HeldLock>;
}
