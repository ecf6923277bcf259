// SPDX-License-Identifier: Apache-2.0
//
// The errors, in one small hierarchy:
//
//   DistlockError
//     RefusedError            no lock was given; `reason` says why
//       BusyError             others hold it (one try, or the wait is over)
//       UnavailableError      no broker or store answered in time: the outcome of other calls may be unknown
//       InvalidRequestError   a value was wrong
//     LockLostError           a lock ended before it was given back
//     ClientClosedError       the client was closed, or closed while the call waited
//   AbortError                the caller's signal ended the call
import type {Block, Holder} from './types.js';

/** A refusal as data. Times are milliseconds. */
export interface Refusal {
  /** A RefusalReason of the contract without its prefix, such as QUOTA_EXCEEDED; UNREACHABLE or CLIENT_CLOSED. */
  reason: string;
  message: string;
  retryAfter?: number | undefined;
  waited?: number;
  holders?: Holder[];
  queueLength?: number;
  fieldProblems?: FieldProblem[];
  block?: Block | undefined;
}

/** One bad field of a request. */
export interface FieldProblem {
  field: string;
  description: string;
}

/** Base of all errors of this package but AbortError. */
export class DistlockError extends Error {
  override name = 'DistlockError';
}

/** No lock was given, or an operation on a lock could not be done. */
export class RefusedError extends DistlockError {
  override name = 'RefusedError';
  /** A RefusalReason of the contract without its prefix, such as QUOTA_EXCEEDED, or UNREACHABLE. */
  readonly reason: string;
  /** Milliseconds until a retry makes sense. */
  readonly retryAfter: number | undefined;
  /** Milliseconds that the request has waited. */
  readonly waited: number;
  /** Holders of the lock, as far as known, at most 16. */
  readonly holders: readonly Holder[];
  /** How many wait, as far as known. */
  readonly queueLength: number;
  readonly fieldProblems: readonly FieldProblem[];
  /** A lock_delay or min_hold that keeps the lock. */
  readonly block: Block | undefined;

  constructor(refusal: Refusal) {
    super(refusal.message === '' ? refusal.reason : `${refusal.reason}: ${refusal.message}`);
    this.reason = refusal.reason;
    this.retryAfter = refusal.retryAfter;
    this.waited = refusal.waited ?? 0;
    this.holders = refusal.holders ?? [];
    this.queueLength = refusal.queueLength ?? 0;
    this.fieldProblems = refusal.fieldProblems ?? [];
    this.block = refusal.block;
  }
}

/** LOCK_HELD, WAIT_TIMEOUT or LIMIT_MISMATCH: others have it. `holders` names them. */
export class BusyError extends RefusedError {
  override name = 'BusyError';
}

/**
 * UNREACHABLE, STORE_UNAVAILABLE, QUORUM_NOT_REACHED or DRAINING: no broker or store could answer in time. Or
 * STORE_HOLD_OFF: the store may have forgotten a holder, and grants nobody a lock before `retryAfter` is over.
 */
export class UnavailableError extends RefusedError {
  override name = 'UnavailableError';
}

/** INVALID_ARGUMENT: `fieldProblems` names each value that is wrong. */
export class InvalidRequestError extends RefusedError {
  override name = 'InvalidRequestError';
}

/**
 * A lock ended although its holder had not given it back.
 *
 * `cause`: EXPIRED, TAKEN, FORCED, MAX_HOLD, DRAINED (told by the broker); LAPSED (the client's own deadline passed),
 * DISCONNECTED (the stream ended), RELEASED (by somebody who knew its leaseId) or CLIENT_CLOSED.
 */
export class LockLostError extends DistlockError {
  override name = 'LockLostError';
  readonly key: string;
  override readonly cause: string;

  constructor(key: string, cause: string, message = '') {
    super(`the lock ${JSON.stringify(key)} is lost (${cause})${message === '' ? '' : `: ${message}`}`);
    this.key = key;
    this.cause = cause;
  }
}

/** The client was closed. */
export class ClientClosedError extends DistlockError {
  override name = 'ClientClosedError';
}

/** The caller's signal ended the call; nothing is held. `cause` is the signal's reason. */
export class AbortError extends Error {
  override name = 'AbortError';
  readonly code = 'ABORT_ERR';

  constructor(signal: AbortSignal | undefined) {
    super('the signal ended the call', {cause: signal?.reason});
  }
}

/** A function, because the compiler takes a field of a signal for one that stays as it is. */
export function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Reasons that no further attempt can change. */
export const PERMANENT = ['INVALID_ARGUMENT', 'NOT_SUPPORTED', 'UNAUTHENTICATED', 'PERMISSION_DENIED', 'FOREIGN_KEY'];

const KINDS: Record<string, typeof RefusedError> = {
  LOCK_HELD: BusyError,
  WAIT_TIMEOUT: BusyError,
  LIMIT_MISMATCH: BusyError,
  UNREACHABLE: UnavailableError,
  STORE_UNAVAILABLE: UnavailableError,
  QUORUM_NOT_REACHED: UnavailableError,
  DRAINING: UnavailableError,
  STORE_HOLD_OFF: UnavailableError,
  INVALID_ARGUMENT: InvalidRequestError,
};

/** The error for a refusal. */
export function errorOf(refusal: Refusal): DistlockError {
  if (refusal.reason === 'CLIENT_CLOSED') return new ClientClosedError(refusal.message);
  return new (KINDS[refusal.reason] ?? RefusedError)(refusal);
}

/** For a value that cannot be sent. */
export function invalid(field: string, problem: string): InvalidRequestError {
  const fieldProblems = [{field, description: problem}];
  return new InvalidRequestError({reason: 'INVALID_ARGUMENT', message: `${field} ${problem}`, fieldProblems});
}

/** Runs a callback of the program. One that fails, at once or as a promise, costs no lock. */
export function guarded(name: string, callback: () => unknown): unknown {
  const warn = (error: unknown): void => {
    const what = error instanceof Error ? error.stack ?? error.message : String(error);
    process.emitWarning(`distlock: ${name} failed: ${what}`);
  };
  try {
    const result = callback();
    if (result instanceof Promise) result.catch(warn);
    return result;
  } catch (error) {
    warn(error);
    return undefined;
  }
}
