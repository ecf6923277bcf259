// SPDX-License-Identifier: Apache-2.0
/// <reference lib="esnext.disposable" preserve="true" />

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
export type {AccessOptions, Tls} from './access.js';
export {Client, type ClientOptions, connect, type ConnectOptions, type Place, type Routine} from './client.js';
export {AbortError, BusyError, ClientClosedError, DistlockError, type FieldProblem, InvalidRequestError, LockLostError,
  type Refusal, RefusedError, UnavailableError} from './errors.js';
export {Held, HeldAll} from './held.js';
export type {HeldLock, Locks} from './locks.js';
export {DetachedLease} from './operations.js';
export type {Block, Duration, Holder, Leader, LockInfo, LockOptions, LockRequest, LockSettings, Mode, Observer,
  OnDisconnect, Outcome, PermitOptions, Policy, Queued, Stats, Waiter} from './types.js';
