// SPDX-License-Identifier: Apache-2.0
/**
 * A module and a decorator for Nest: of each run of a scheduled method one host does the work.
 *
 * ```ts
 * import {DistlockModule, lockOfRun, Locked} from 'distlock/nest';
 *
 * class Reports {
 *   constructor(readonly distlock: Client) {}
 *   @Cron('* * * * *')
 *   @Locked('report', {minHold: '30s'})
 *   async report() {
 *     await save({token: lockOfRun().token, signal: lockOfRun().signal});
 *   }
 * }
 *
 * @Module({imports: [ScheduleModule.forRoot(), DistlockModule.forRoot()], providers: [Reports]})
 * ```
 *
 * @packageDocumentation
 */
import {AsyncLocalStorage} from 'node:async_hooks';
import {Client, connect, type ConnectOptions} from '../client.js';
import {BusyError} from '../errors.js';
import type {HeldLock, Locks} from '../locks.js';
import type {Duration, LockOptions} from '../types.js';

const present = new AsyncLocalStorage<HeldLock>();
const running = new WeakMap<object, Set<Promise<unknown>>>(); // by client
const SHUTDOWN = Symbol('distlock.shutdown');

/** What a dynamic module of Nest is. */
export interface MadeModule {
  module: typeof DistlockModule;
  global: true;
  providers: {provide: typeof Client | symbol; useFactory: () => unknown}[];
  exports: (typeof Client)[];
}

/** Provides a `Client`, and closes it when the application ends and no method under `Locked` runs any more. */
export class DistlockModule {
  /** @internal Nest makes one, too, which has no client. */
  constructor(private readonly client?: Client) {}

  /** As `connect`: undefined is DISTLOCK_SERVER, else the local broker. */
  static forRoot(address?: string, options: ConnectOptions = {}): MadeModule {
    const client = address === undefined ? connect(options) : connect(address, options);
    return {
      module: DistlockModule,
      global: true,
      providers: [
        {provide: Client, useFactory: () => client},
        {provide: SHUTDOWN, useFactory: () => new DistlockModule(client)},
      ],
      exports: [Client],
    };
  }

  /** For Nest. */
  async onApplicationShutdown(): Promise<void> {
    if (this.client === undefined) return;
    await Promise.allSettled([...running.get(this.client) ?? []]);
    await this.client.close();
  }
}

/** How a method is locked: its run counts for all hosts for `minHold` from its beginning, even if it is over sooner. */
export interface LockedOptions extends LockOptions {
  /** Clocks of hosts may differ by less, and the next run comes later: half of the period is a good choice. */
  minHold: Duration;
  /** The property of the class that has the client. Default 'distlock'. */
  client?: string;
}

/**
 * Decorates a method of a class that has a client in its property `distlock`: it runs under the lock, or not at all and
 * returns undefined when another host has the run. It throws what the method throws; UnavailableError without a broker
 * or a store; LockLostError when the lock was lost meanwhile. With `wait`, which is less than `minHold`, a host waits,
 * and takes over the run of one that has died.
 */
export function Locked(key: string, options: LockedOptions) {
  return (_target: object, name: string | symbol, descriptor: PropertyDescriptor): void => {
    const {client = 'distlock', ...asked} = options;
    const method = descriptor.value as (...args: unknown[]) => unknown;
    const locked = function (this: Record<string, unknown>, ...args: unknown[]): Promise<unknown> {
      const locks = this[client] as Locks | undefined;
      if (typeof locks?.lock !== 'function') {
        return Promise.reject(new TypeError(`distlock/nest: ${this.constructor.name}.${String(name)} needs a Client in `
          + `the property ${client}: constructor(readonly ${client}: Client)`));
      }
      return kept(locks, run(locks, key, asked, () => method.apply(this, args)));
    };
    descriptor.value = Object.defineProperty(locked, 'name', {value: method.name});
    moveMetadata(method, locked);
  };
}

/** The lock of the present run, for its token and signal, within a method under `Locked` and what it calls. */
export function lockOfRun(): HeldLock {
  const held = present.getStore();
  if (held === undefined) throw new Error('distlock/nest: no method under Locked runs here');
  return held;
}

async function run(locks: Locks, key: string, options: LockOptions, method: () => unknown): Promise<unknown> {
  let held: HeldLock;
  try {
    held = await locks.lock(key, {wait: 0, ...options});
  } catch (error) {
    if (error instanceof BusyError) return undefined;
    throw error;
  }
  let result: unknown;
  try {
    result = await present.run(held, method);
  } catch (error) {
    held.releaseSoon();
    throw error;
  }
  held.check();
  await held.release();
  return result;
}

function kept(locks: Locks, made: Promise<unknown>): Promise<unknown> {
  let those = running.get(locks);
  if (those === undefined) running.set(locks, those = new Set());
  const all = those.add(made);
  const drop = (): void => { all.delete(made); };
  made.then(drop, drop);
  return made;
}

/** What decorators below this one have said of the method, such as its schedule. */
function moveMetadata(from: object, to: object): void {
  const {getMetadataKeys, getMetadata, defineMetadata} = Reflect as Partial<{
    getMetadataKeys: (of: object) => unknown[];
    getMetadata: (key: unknown, of: object) => unknown;
    defineMetadata: (key: unknown, value: unknown, of: object) => void;
  }>;
  for (const key of getMetadataKeys?.(from) ?? []) defineMetadata?.(key, getMetadata?.(key, from), to);
}
