// SPDX-License-Identifier: Apache-2.0
/**
 * Locks from a distlock broker.
 *
 * ```ts
 * const dl = distlock.connect();
 * await using held = await dl.lock('report', {wait: '10s'});
 * await save(rows, {token: held.token, signal: held.signal});
 * ```
 *
 * @packageDocumentation
 */
export {Client, type ClientOptions, connect, type ConnectOptions, type Place, type Routine} from './client.js';
export {DetachedLease} from './detached.js';
export {AbortError, BusyError, ClientClosedError, DistlockError, type FieldProblem, InvalidRequestError, LockLostError,
  type Refusal, RefusedError, UnavailableError} from './errors.js';
export {Held, HeldAll} from './held.js';
export type {HeldLock, Locks} from './locks.js';
export type {AccessOptions, Block, Duration, Holder, Leader, LockInfo, LockOptions, LockRequest, LockSettings, Mode,
  Observer, OnDisconnect, Outcome, PermitOptions, Policy, Queued, Stats, Tls, Waiter} from './types.js';
