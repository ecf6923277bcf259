// SPDX-License-Identifier: Apache-2.0
//
// The client: what a program calls.
import {basename} from 'node:path';
import {onAbort} from './abort.js';
import {Access} from './access.js';
import {Addresses, checkAddresses, defaultAddress, splitAddresses} from './addresses.js';
import {checkNames, milliseconds, queuedOf, specOf, text, tokenOf} from './convert.js';
import {Core} from './core.js';
import {acquireDetached, DetachedLease} from './detached.js';
import {AbortError, type DistlockError, errorOf, guarded, invalid, isAborted, type Refusal} from './errors.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued} from './generated/distlock/v1/lock_service_pb.js';
import {ELECTION_VALUE, Held, HeldAll} from './held.js';
import type {Lease, Request} from './lease.js';
import type {Locks} from './locks.js';
import * as operations from './operations.js';
import type {AccessOptions, Duration, Leader, LockInfo, LockOptions, LockRequest, LockSettings, Mode,
  Observer, PermitOptions, Stats,
} from './types.js';
import {watch, watchLocks} from './watch.js';

const NOTHING: LockOptions = {}; // of a call without options
const CALL_NAMES = ['wait', 'signal', 'onQueued'];
const CLIENT_NAMES = ['label', 'unreachableAfter', 'defaults', 'onDraining', 'observer'];
const ACCESS_NAMES = ['tls', 'token', 'tokenFile', 'channelOptions'];
const FOR_EVER = 2 ** 31 - 1;

/** Options of a client. */
export interface ClientOptions {
  /** Shown by ListSessions, up to 256 bytes. Default: the program's name. */
  label?: string;
  /** How long a request looks for a broker before it is refused with UNREACHABLE. Default: one try 1 s, a wait with
   * an end all of it, another one 10 s. */
  unreachableAfter?: Duration;
  /** Defaults of all locks. */
  defaults?: LockSettings;
  /** Told when the broker goes down in `timeLeft` milliseconds and locks cannot move to another one. */
  onDraining?: (timeLeft: number) => void;
  /** Hooks for tracing and metrics. */
  observer?: Observer;
}

/** How a client connects. */
export interface ConnectOptions extends ClientOptions, AccessOptions {}

/** Which lock, for calls that look at one. */
export interface Place {
  /** '' is "default"; for `list`, '-' is all namespaces. */
  namespace?: string;
}

/** A request that was granted, and what its observer has called it. */
interface Taken {
  request: Request;
  cookie: unknown;
}

export type Routine<T> = (signal: AbortSignal, tokens: number[]) => Promise<T> | T;

/** All locks of a client share one session. Make one client for a process. */
export class Client implements Locks, AsyncDisposable {
  /** The brokers' addresses, as given or found. */
  readonly address: string;
  private readonly core: Core;
  private readonly defaults: LockSettings;
  private readonly observer: Observer | undefined;

  /** @internal Use `connect`. */
  constructor(address: string, options: ClientOptions, addresses: Addresses) {
    checkNames(options, [], CLIENT_NAMES);
    const {label, unreachableAfter, defaults = {}, onDraining, observer} = options;
    checkNames(defaults, []);
    this.address = address;
    this.defaults = defaults;
    this.observer = observer;
    this.core = new Core({
      address,
      label: label ?? basename(process.argv[1] ?? 'node'),
      unreachableAfter: unreachableAfter === undefined ? undefined : milliseconds(unreachableAfter, 'unreachableAfter'),
      onDraining: onDraining && (timeLeft => { guarded('onDraining', () => { onDraining(timeLeft); }); }),
      onSession: observer?.session?.bind(observer),
    }, addresses);
  }

  /** Whether a session is open at this moment. The first call that takes a lock opens one. */
  get connected(): boolean {
    return this.core.engine.table.link.opened;
  }

  /**
   * Takes an exclusive lock.
   *
   * @throws BusyError when others hold it after `wait`; UnavailableError when no broker or store answers;
   * InvalidRequestError; another RefusedError; AbortError by `signal`; ClientClosedError
   */
  lock(key: string, options: LockOptions = NOTHING): Promise<Held> {
    return this.one(() => ({...this.settings(options), key}), options);
  }

  /** Takes the lock for reading: beside other readers, and never beside lock(key). Throws as `lock`. */
  shared(key: string, options: LockOptions = NOTHING): Promise<Held> {
    return this.one(() => ({...this.settings(options), key, mode: 'SHARED'}), options);
  }

  /** Takes n permits of a semaphore that has `limit`. Throws as `lock`. */
  permits(key: string, options: PermitOptions): Promise<Held> {
    const given = {...options as PermitOptions | undefined};
    return this.one(() => {
      const {limit, n = 1} = given as PermitOptions;
      return {...this.settings(given, ['limit', 'n']), key, mode: 'PERMIT', limit, n};
    }, given);
  }

  /** Takes several locks, up to 64: all or nothing. A text is one key. Throws as `lock`. */
  async all(locks: Iterable<string | LockRequest>, options: LockOptions = {}): Promise<HeldAll> {
    const {request, cookie} = await this.take(this.specs(locks, options), options);
    return new HeldAll(request.leases.map(lease => this.held(lease, cookie)));
  }

  /**
   * Runs `routine` under one lock or several, and gives them back when it has settled. Only with `minHold` the answer
   * is waited for, for at most a second. The signal is aborted when one of them is lost. Resolves to what the routine
   * returns.
   *
   * @throws what the routine throws; LockLostError when a lock was lost and the routine succeeded, or failed because of
   * the signal; and as `lock`
   */
  async using<T>(keys: string | Iterable<string | LockRequest>, routine: Routine<T>): Promise<T>;
  async using<T>(keys: string | Iterable<string | LockRequest>, options: LockOptions, routine: Routine<T>): Promise<T>;
  async using<T>(keys: string | Iterable<string | LockRequest>, options: LockOptions | Routine<T>,
    routine?: Routine<T>): Promise<T> {
    if (typeof options === 'function') return this.using(keys, {}, options);
    if (routine === undefined) throw new TypeError('using() needs a function to run under the locks');
    const held = await this.all(keys, options);
    const {signal} = held;
    let result: T;
    try {
      result = await routine(signal, held.tokens);
    } catch (error) {
      const stopped = error === signal.reason || (error instanceof Error && error.name === 'AbortError');
      throw (stopped ? lossOf(held) : undefined) ?? error;
    } finally {
      await held.leave();
    }
    const loss = lossOf(held);
    if (loss !== undefined) throw loss;
    return result;
  }

  /** Waits to lead the election `name`, which is the lock of that name. value: what observers are told. */
  async campaign(name: string, value: string, options: LockOptions = {}): Promise<Held> {
    const settings = this.settings(options);
    if (settings.metadata !== undefined && ELECTION_VALUE in settings.metadata) {
      throw invalid('metadata', `has an entry ${ELECTION_VALUE}, under which an election shows its value: give that as `
        + 'the value');
    }
    const metadata = {...settings.metadata, [ELECTION_VALUE]: text(value, 'value')};
    return this.one(() => ({...settings, metadata, key: name}), options);
  }

  /** Changes a leader's value in office: as `term.proclaim(value)`. */
  async proclaim(term: Held, value: string): Promise<void> {
    await term.proclaim(value);
  }

  /** The leader of an election; undefined between two terms. */
  async leader(name: string, place: Place = {}): Promise<Leader | undefined> {
    return leaderOf(await operations.inspect(this.core, this.namespace(place), text(name, 'key'), 0));
  }

  /** Each leader, at once and after each change. Ends only with the client; `signal` ends it with an AbortError. */
  async* observe(name: string, options: Place & {signal?: AbortSignal} = {},
  ): AsyncGenerator<Leader | undefined, void, undefined> {
    let told: string | undefined;
    for await (const lock of this.watch(name, options)) {
      const leader = leaderOf(lock);
      const term = JSON.stringify([leader?.holderId, leader?.token, leader?.value]);
      if (term === told) continue;
      told = term;
      yield leader;
    }
  }

  /** The holders and waiters of a lock. maxWaiters: 0 to 1000, default 100. */
  async inspect(key: string, options: Place & {maxWaiters?: number} = {}): Promise<LockInfo> {
    return operations.inspect(this.core, this.namespace(options), text(key, 'key'), options.maxWaiters);
  }

  /** The held locks of a namespace, in no particular order. */
  list(prefix = '', place: Place = {}): AsyncGenerator<LockInfo, void, undefined> {
    return operations.list(this.core, this.namespace(place), text(prefix, 'prefix'));
  }

  /**
   * The lock as it is, then again after each change of its holders or waiters. Ends only with the client; `signal` ends
   * it with an AbortError.
   */
  watch(key: string, options: Place & {signal?: AbortSignal} = {}): AsyncGenerator<LockInfo, void, undefined> {
    return watch(this.core, this.namespace(options), text(key, 'key'), options.signal);
  }

  /**
   * All locks whose keys begin with `prefix`: first each that is taken, as it is, then each change of one, also of
   * locks that are taken later; `isFree` tells of its end. Fast changes come as one. Namespace '-': of all namespaces.
   * onListed is called whenever all that are taken have been told, at first and after each reconnect. Ends only with
   * the client; `signal` ends it with an AbortError.
   */
  watchLocks(prefix = '', options: Place & {signal?: AbortSignal; onListed?: () => void} = {},
  ): AsyncGenerator<LockInfo, void, undefined> {
    return watchLocks(this.core, this.namespace(options), text(prefix, 'prefix'), options.signal, options.onListed);
  }

  /** Whether no newer token was given. For resources that cannot compare tokens themselves. */
  async checkToken(key: string, token: number | bigint, place: Place = {}): Promise<boolean> {
    return operations.checkToken(this.core, this.namespace(place), text(key, 'key'), tokenOf(token));
  }

  /**
   * A lease that outlives this process's connection: nobody renews it but the caller. Default mode: EXCLUSIVE. When
   * `signal` ends a call that was just granted, the lock is free when its ttl ends. Throws as `lock`.
   */
  async acquireDetached(key: string, options: Omit<LockOptions, 'onQueued'> & Pick<LockRequest, 'mode' | 'n' | 'limit'>
    = {}): Promise<DetachedLease> {
    const {mode, n, limit, wait, signal} = options;
    const settings = this.settings(options, ['mode', 'n', 'limit']);
    const spec = specOf({...settings, key, ...(mode && {mode}), ...(n !== undefined && {n}),
      ...(limit !== undefined && {limit})});
    return acquireDetached(this.core, spec, waitOf(wait), signal);
  }

  /** A detached lease that another process has acquired. Call renew() before use. key: for messages only. */
  detached(leaseId: string, key = ''): DetachedLease {
    return new DetachedLease(this.core, key, leaseId);
  }

  /** The client's figures at this moment, for metrics and checks of health. */
  stats(): Stats {
    const [{table}, now] = [this.core.engine, this.core.now()];
    const held = table.held().filter(lease => now < lease.deadline);
    return {
      held: held.length,
      atRisk: held.filter(lease => table.atRisk(lease, now)).length,
      waiting: table.waiting().reduce((sum, {leases}) => sum + leases.length, 0),
      connected: this.connected,
    };
  }

  /**
   * Waits until this client holds nothing, waits for nothing, and brokers have confirmed what it gave back. False: not
   * within `timeout`. For a shutdown that lets the work end, before close().
   */
  async drained(timeout?: Duration): Promise<boolean> {
    const {onDrained, table} = this.core.engine;
    if (table.drained || table.closed) return true;
    const delay = timeout === undefined ? FOR_EVER : Math.min(milliseconds(timeout, 'timeout'), FOR_EVER);
    return new Promise(resolve => {
      const end = (drained: boolean): void => {
        clearTimeout(timer);
        onDrained.delete(tell);
        resolve(drained);
      };
      const tell = (): void => { end(true); };
      const timer = setTimeout(end, delay, false); // also keeps the process alive
      onDrained.add(tell);
    });
  }

  /** Gives all locks back, and waits at most a second for the answer. Calls that wait throw ClientClosedError. */
  async close(): Promise<void> {
    await this.core.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private namespace({namespace}: Place): string {
    return text(namespace ?? this.defaults.namespace ?? '', 'namespace');
  }

  /** The settings of a lock, without the options of the call. */
  private settings(options: LockOptions, also: string[] = []): LockSettings {
    if (options === NOTHING) return this.defaults;
    checkNames(options, [...CALL_NAMES, ...also]);
    const {wait: _, signal: __, onQueued: ___, ...settings} = options;
    return {...this.defaults, ...settings};
  }

  private specs(locks: Iterable<string | LockRequest>, options: LockOptions): LockSpec[] {
    const settings = this.settings(options);
    const asked = typeof locks === 'string' ? [locks] : [...locks];
    if (asked.length === 0) throw invalid('locks', 'is empty; give 1 to 64 of them');
    return asked.map(lock => {
      if (typeof lock === 'string') return specOf({...settings, key: lock});
      checkNames(lock, ['key', 'mode', 'n', 'limit']);
      return specOf({...settings, ...lock});
    });
  }

  /** Wrong values, which `lock` may throw for, reject the promise. */
  private async one(lock: () => LockRequest, options: LockOptions): Promise<Held> {
    const {request, cookie} = await this.take([specOf(lock())], options);
    return this.held(request.first, cookie);
  }

  private held(lease: Lease, cookie: unknown): Held {
    return new Held(this.core, lease, this.observer, cookie);
  }

  private async take(specs: LockSpec[], {wait, signal, onQueued}: LockOptions): Promise<Taken> {
    const millis = waitOf(wait);
    if (isAborted(signal)) throw new AbortError(signal);
    if (this.core.isClosing()) throw this.core.closedError();
    const {observer} = this;
    const cookie = observer === undefined ? undefined : guarded('observer.acquiring', () => (
      observer.acquiring?.(specs.map(({key}) => key), specs.length === 1 ? MODES[specs[0]?.mode ?? 1] ?? 'EXCLUSIVE'
        : 'MULTIPLE')));
    const began = observer === undefined ? 0 : performance.now();
    let stopped = false as boolean;
    let deafen = (): void => undefined;
    let request: Request | undefined;
    const refusal = await new Promise<Refusal | undefined>(resolve => {
      const told = onQueued && ((queued: AcquireQueued): void => {
        guarded('onQueued', () => { onQueued(queuedOf(queued)); });
      });
      const made = this.core.engine.turn((table, now) => table.acquire(specs, millis, now, resolve, told));
      request = made;
      deafen = onAbort(signal, () => {
        stopped = true;
        this.core.engine.turn((table, now) => { table.cancel(made, now); });
      });
    });
    deafen();
    // Also when it was granted just before, in the same turn: then the cancel has given it back.
    const aborted = stopped && (refusal === undefined || refusal.reason === 'CANCELLED');
    if (observer !== undefined) {
      const outcome = aborted ? 'ABORTED' : refusal?.reason ?? 'GRANTED';
      guarded('observer.answered', () => observer.answered?.(cookie, outcome, performance.now() - began));
    }
    if (aborted) throw new AbortError(signal);
    if (refusal !== undefined) throw errorOf(refusal);
    return {request: request as Request, cookie};
  }
}

const MODES: Record<number, Mode> = {1: 'EXCLUSIVE', 2: 'SHARED', 3: 'PERMIT'};

function waitOf(wait: Duration | undefined): number | undefined {
  return wait === undefined ? undefined : milliseconds(wait, 'wait');
}

function lossOf(held: HeldAll): DistlockError | undefined {
  return held.parts.map(part => part.lossSoFar).find(loss => loss !== undefined);
}

function leaderOf(lock: LockInfo): Leader | undefined {
  const [holder] = lock.holders;
  if (holder === undefined) return undefined;
  const {owner, holderId, token, acquireTime, metadata} = holder;
  return {value: metadata[ELECTION_VALUE] ?? '', owner, holderId, token, acquireTime};
}

/**
 * A client of a broker. Does not wait for the connection; the first call makes it.
 *
 * @param address brokers of one store, separated by commas, each a gRPC target: 'unix:///path' or 'host:port'. One is
 * used, in a random order; when it cannot be reached or goes down, the next one. Default: DISTLOCK_SERVER, else
 * unix:///run/distlock/distlock.sock where that socket exists, else 127.0.0.1:7420.
 */
export function connect(address?: string, options?: ConnectOptions): Client;
export function connect(options?: ConnectOptions): Client;
export function connect(first?: string | ConnectOptions, second: ConnectOptions = {}): Client {
  const [given, options] = typeof first === 'object' ? [undefined, first] : [first, second];
  const address = given === undefined || given === '' ? defaultAddress() : given;
  checkNames(options, CLIENT_NAMES, ACCESS_NAMES);
  const {tls, token, tokenFile, channelOptions, ...client} = options;
  const access = new Access({...(tls && {tls}), ...(token !== undefined && {token}),
    ...(tokenFile !== undefined && {tokenFile}), ...(channelOptions && {channelOptions})});
  checkAddresses(address);
  access.check(splitAddresses(address));
  return new Client(address, client, new Addresses(address, access));
}
