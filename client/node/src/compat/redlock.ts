// SPDX-License-Identifier: Apache-2.0
/**
 * The classes of the redlock package, over a distlock broker.
 *
 * ```ts
 * import Redlock from 'distlock/compat/redlock';   // instead of 'redlock'
 * const redlock = new Redlock([dl], {retryCount: 10});
 * await redlock.using(['a', 'b'], 5000, async signal => { ... });
 * ```
 *
 * `dl` is a distlock client in the place of the redis clients. Redlock has the methods of version 5 (`acquire`,
 * `release`, `using`, `lock.release`) and the names of version 4 (`lock`, `unlock`, `lock.unlock`), with promises.
 * The differences:
 *
 * - The broker renews locks. A lock is lost at once when this process or its connection is; a lock with a `duration` is
 *   given back when that has passed and nobody has extended it. Leave `duration` away (0 or undefined) for a lock that
 *   lasts until it is released. `using` extended by itself, so that there it has no effect.
 * - `extend` returns the same lock, with a new `expiration`.
 * - Waiters are served in their order, for `retryCount` times `retryDelay` at most; retryCount -1: without end.
 *   driftFactor, retryJitter and automaticExtensionThreshold have no effect.
 * - Nothing is emitted as an 'error' event. A failed acquire throws an ExecutionError with distlock's error as `cause`.
 * - `lock.value` is the first fencing token, as text; `lock.tokens` and `lock.signal` are new. `disposer` and scripts
 *   go.
 * - Locks of redlock and of distlock do not exclude each other: stop all users of the one before the first of the other
 *   starts, or hold both.
 *
 * @packageDocumentation
 */
import {EventEmitter} from 'node:events';
import {Client} from '../client.js';
import type {HeldAll} from '../held.js';
import {waitOf} from './wait.js';

/** Times in milliseconds. */
export interface Settings {
  readonly driftFactor: number;
  readonly retryCount: number;
  readonly retryDelay: number;
  readonly retryJitter: number;
  readonly automaticExtensionThreshold: number;
}

/** How one attempt went, for the types of programs. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<Client>;
  readonly votesAgainst: Map<Client, Error>;
}

/** How one client has answered, for the types of programs. */
export type ClientExecutionResult = {client: Client; vote: 'for'; value: number}
  | {client: Client; vote: 'against'; error: Error};

type Attempts = readonly Promise<ExecutionStats>[];

/** `attempts` is always empty: the broker does them. */
export interface ExecutionResult {
  attempts: Attempts;
}

export type RedlockAbortSignal = AbortSignal & {error?: Error};

export type Routine<T> = (signal: RedlockAbortSignal) => Promise<T>;

const DEFAULTS: Settings = {
  driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 500,
};

/** A lock was not given, or was lost before its release. `cause`: distlock's error. */
export class ExecutionError extends Error {
  override name = 'ExecutionError';

  /** `attempts` are for programs that make one, in their tests. */
  constructor(message: string, readonly attempts: Attempts = [], options?: ErrorOptions) {
    super(message, options);
  }
}

/** One attempt found the lock held. For `instanceof` only: the broker attempts, and ExecutionError tells of the end. */
export class ResourceLockedError extends Error {
  override name = 'ResourceLockedError';
}

/** The name of version 4. */
export {ExecutionError as LockError};

const LONGEST_TIMER = 2 ** 31 - 1;

/** The result of `acquire`. */
export class Lock {
  readonly attempts: Attempts = [];
  readonly value: string;
  /** Milliseconds since 1970, when the lock is given back if nobody extends it; Infinity without a duration. */
  expiration = Infinity;
  private ended: AbortController | undefined; // a signal that nobody has taken keeps no lock
  private until = Infinity; // by the clock that nobody sets
  private timer: NodeJS.Timeout | undefined;

  /** @internal */
  constructor(readonly redlock: Redlock, readonly resources: string[], private readonly held: HeldAll,
    duration: number) {
    this.value = String(held.tokens[0]);
    if (duration > 0) this.prolong(duration);
  }

  private prolong(duration: number): void {
    this.expiration = Date.now() + duration;
    this.until = performance.now() + duration;
    this.watch();
  }

  /** Ends the lock when its time is over. The lock keeps the process alive, so that its timer need not. */
  private watch(): void {
    clearTimeout(this.timer);
    if (this.isOver()) return;
    const left = Math.ceil(this.until - performance.now());
    this.timer = setTimeout(() => { this.watch(); }, Math.min(left, LONGEST_TIMER)).unref();
  }

  /** Looks at the clock. Then the lock is given back, and lost for the program. */
  private isOver(): boolean {
    if (performance.now() < this.until) return false;
    this.held.releaseSoon();
    this.ended?.abort(this.lost());
    return true;
  }

  private lost(): ExecutionError {
    return new ExecutionError(`the lock on ${this.resources.join(', ')} was lost: nobody has extended it in time`);
  }

  /** The fencing tokens, in the order of `resources`. */
  get tokens(): number[] {
    return this.held.tokens;
  }

  /** Aborted when the lock is lost. */
  get signal(): AbortSignal {
    if (this.ended === undefined) {
      const ended = new AbortController();
      const {signal} = this.held;
      const follow = (): void => { ended.abort(signal.reason); };
      this.ended = ended;
      if (!this.isOver()) signal.addEventListener('abort', follow, {once: true});
      if (signal.aborted) follow();
    }
    return this.ended.signal;
  }

  /** @throws ExecutionError when it was lost before */
  async release(): Promise<ExecutionResult> {
    clearTimeout(this.timer);
    if (this.isOver()) throw this.lost();
    this.until = Infinity;
    const outcomes = await this.held.release();
    if (outcomes.includes('ALREADY_GONE')) {
      throw new ExecutionError(`the lock on ${this.resources.join(', ')} was lost before its release`);
    }
    return {attempts: []};
  }

  async unlock(): Promise<ExecutionResult> {
    return this.release();
  }

  /**
   * Has the lock last for so many milliseconds from now on.
   *
   * @throws ExecutionError when it is not held any more
   */
  async extend(duration: number): Promise<Lock> {
    if (this.isOver() || !this.held.isHeld) {
      const why = `cannot extend the lock on ${this.resources.join(', ')}: it is not held any more`;
      return Promise.reject(new ExecutionError(why));
    }
    this.prolong(duration);
    return Promise.resolve(this);
  }
}

export class Redlock extends EventEmitter {
  static readonly LockError = ExecutionError;
  readonly settings: Settings;
  private readonly client: Client;

  constructor(clients: Client | Iterable<Client>, settings: Partial<Settings> = {}) {
    super();
    const [client] = clients instanceof Client ? [clients] : clients;
    if (!(client instanceof Client)) throw new TypeError('give a distlock client in the place of the redis ones');
    this.client = client;
    this.settings = {...DEFAULTS, ...settings};
  }

  /** @throws ExecutionError */
  async acquire(resources: string | string[], duration = 0, settings: Partial<Settings> = {}): Promise<Lock> {
    const keys = typeof resources === 'string' ? [resources] : resources;
    return new Lock(this, keys, await this.take(keys, settings), duration);
  }

  private async take(keys: string[], settings: Partial<Settings>): Promise<HeldAll> {
    const {retryCount, retryDelay} = {...this.settings, ...settings};
    try {
      return await this.client.all(keys, {wait: waitOf(retryCount < 0 ? Infinity : retryCount * retryDelay)});
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new ExecutionError(`no lock on ${keys.join(', ')}: ${why}`, [], {cause});
    }
  }

  async lock(resources: string | string[], duration = 0): Promise<Lock> {
    return this.acquire(resources, duration);
  }

  async release(lock: Lock): Promise<ExecutionResult> {
    return lock.release();
  }

  async unlock(lock: Lock): Promise<ExecutionResult> {
    return lock.release();
  }

  async extend(lock: Lock, duration: number): Promise<Lock> {
    return lock.extend(duration);
  }

  /** `duration` has no effect: the lock lasts as long as the routine. The signal is aborted when it is lost. */
  async using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  async using<T>(resources: string[], duration: number, settings: Partial<Settings>, routine: Routine<T>): Promise<T>;
  async using<T>(resources: string[], _duration: number, settings: Partial<Settings> | Routine<T>,
    routine?: Routine<T>): Promise<T> {
    const [options, run] = typeof settings === 'function' ? [{}, settings] : [settings, routine];
    if (typeof run !== 'function') throw new TypeError('using() needs a function to run under the locks');
    const held = await this.take(resources, options);
    const {signal} = held;
    Object.defineProperty(signal, 'error', {get: () => signal.reason as unknown});
    const lock = new Lock(this, resources, held, 0);
    try {
      return await run(signal);
    } finally {
      await lock.release();
    }
  }

  /** Closes the client. */
  async quit(): Promise<void> {
    await this.client.close();
  }
}

export default Redlock;
