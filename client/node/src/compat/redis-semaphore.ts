// SPDX-License-Identifier: Apache-2.0
/**
 * The classes of the redis-semaphore package, over a distlock broker.
 *
 * ```ts
 * import {Mutex} from 'distlock/compat/redis-semaphore';   // instead of 'redis-semaphore'
 * const mutex = new Mutex(dl, 'report', {acquireTimeout: 5000});
 * await mutex.acquire();
 * ```
 *
 * `dl` is a distlock client in the place of the redis client, or of the array of them. What differs:
 *
 * - The broker renews locks. `lockTimeout` becomes the ttl (at least 1 s), which is what a crash of the broker costs;
 *   `refreshInterval` has no effect, except 0: then the lock ends after `lockTimeout`, as its `maxHold`. `stopRefresh`
 *   throws.
 * - Waiters are served in their order. `retryInterval` only bounds the wait, together with `acquireAttemptsLimit`.
 * - `isAcquired` looks at the clock. `onLockLost` is called at once when the lock is lost.
 * - `identifier` is the label that others see. `acquiredExternally` throws: dl.acquireDetached() and dl.detached() hand
 *   a lock over to another process.
 * - A mutex and a semaphore of one name exclude each other: distlock has one lock of a name.
 * - Locks of redis-semaphore and of distlock do not exclude each other: stop all users of the one before the first of
 *   the other starts, or hold both.
 *
 * @packageDocumentation
 */
import {randomUUID} from 'node:crypto';
import {Client} from '../client.js';
import {BusyError} from '../errors.js';
import type {Held} from '../held.js';
import type {LockOptions as Options} from '../types.js';
import {waitOf} from './wait.js';

const SHORTEST_TTL = 1000;
const LONGEST_TTL = 3600_000;

export const defaultTimeoutOptions = {
  lockTimeout: 10000,
  acquireTimeout: 10000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

/** Milliseconds. */
export interface TimeoutOptions {
  lockTimeout?: number;
  acquireTimeout?: number;
  acquireAttemptsLimit?: number;
  retryInterval?: number;
  refreshInterval?: number;
}

export type LockLostCallback = (this: Lock, err: LostLockError) => void;

export interface LockOptions extends TimeoutOptions {
  identifier?: string;
  identifierSuffix?: string;
  acquiredExternally?: true;
  externallyAcquiredIdentifier?: string;
  onLockLost?: LockLostCallback;
}

/** The wait is over. */
export class TimeoutError extends Error {
  override name = 'TimeoutError';
}

export class LostLockError extends Error {
  override name = 'LostLockError';
}

type Clients = Client | readonly Client[];

/** As the lock itself does by default: the error becomes an uncaught exception of the process. */
function throwIt(error: LostLockError): void {
  throw error;
}

export abstract class Lock {
  protected readonly client: Client;
  private readonly options: LockOptions;
  private readonly label: string;
  private held: Held | undefined;

  constructor(client: Clients, protected readonly key: string, options: LockOptions = {}) {
    const [first] = client instanceof Client ? [client] : client;
    if (!(first instanceof Client)) throw new TypeError('give a distlock client in the place of the redis client');
    if (key === '') throw new Error('"key" is required');
    if (options.acquiredExternally ?? options.externallyAcquiredIdentifier) {
      throw new TypeError('acquiredExternally: use acquireDetached() and detached() of the distlock client');
    }
    this.client = first;
    this.options = options;
    const {identifier = randomUUID(), identifierSuffix} = options;
    this.label = identifierSuffix === undefined ? identifier : `${identifier}-${identifierSuffix}`;
  }

  protected abstract take(options: Options): Promise<Held>;

  /** The owner that others see. */
  get identifier(): string {
    return this.label;
  }

  get isAcquired(): boolean {
    return this.held?.isHeld === true;
  }

  /** The fencing token, which redis-semaphore does not have. */
  get token(): number | undefined {
    return this.held?.token;
  }

  /** @throws TimeoutError when others hold the lock after `acquireTimeout`; distlock's errors otherwise */
  async acquire(abortSignal?: AbortSignal): Promise<void> {
    if (await this.tryAcquire(abortSignal)) return;
    throw new TimeoutError(`Acquire ${this.constructor.name} ${this.key} timeout`);
  }

  /** False when others hold the lock after `acquireTimeout`. */
  async tryAcquire(abortSignal?: AbortSignal): Promise<boolean> {
    const {lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval, refreshInterval} = {
      ...defaultTimeoutOptions, refreshInterval: undefined, ...this.options};
    const wait = Math.min(acquireTimeout, (acquireAttemptsLimit - 1) * retryInterval);
    const life = refreshInterval === 0 ? {maxHold: `${lockTimeout}ms`}
      : {ttl: Math.min(Math.max(lockTimeout, SHORTEST_TTL), LONGEST_TTL)};
    try {
      this.held = await this.take({...life, wait: waitOf(wait), signal: abortSignal, owner: this.label});
    } catch (error) {
      if (error instanceof BusyError) return false;
      throw error;
    }
    const {onLockLost = throwIt} = this.options;
    const lost = new LostLockError(`Lost ${this.constructor.name} for key ${this.key}`);
    const {held} = this;
    held.signal.addEventListener('abort', () => {
      if (held.cause !== 'CLIENT_CLOSED') onLockLost.call(this, lost); // the program has closed it itself
    }, {once: true});
    return true;
  }

  async release(): Promise<void> {
    const {held} = this;
    this.held = undefined;
    await held?.release();
  }

  /** Throws: see the top of this file. */
  stopRefresh(): never {
    throw new Error('distlock renews locks itself: release the lock, or give refreshInterval 0 for one that ends after '
      + 'lockTimeout');
  }
}

export class Mutex extends Lock {
  protected override async take(options: Options): Promise<Held> {
    return this.client.lock(this.key, options);
  }
}

export class MultiSemaphore extends Lock {
  constructor(client: Clients, key: string, private readonly limit: number, private readonly permits: number,
    options?: LockOptions) {
    super(client, key, options);
  }

  protected override async take(options: Options): Promise<Held> {
    return this.client.permits(this.key, {...options, limit: this.limit, n: this.permits});
  }
}

export class Semaphore extends MultiSemaphore {
  constructor(client: Clients, key: string, limit: number, options?: LockOptions) {
    super(client, key, limit, 1, options);
  }
}

// With several stores it is the broker that asks a quorum of them.
export class RedlockMutex extends Mutex {}
export class RedlockSemaphore extends Semaphore {}
export class RedlockMultiSemaphore extends MultiSemaphore {}
