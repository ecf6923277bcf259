// SPDX-License-Identifier: Apache-2.0
/**
 * A broker inside of a test's process, for programs that take locks. No daemon and no port; the client is the real one,
 * and so are its errors. Time stands still until the test moves it.
 *
 * ```ts
 * import {Broker} from 'distlock/testing';
 *
 * const broker = new Broker();
 * const [mine, theirs] = [broker.client(), broker.client()];
 * const held = await mine.lock('report');
 * await assert.rejects(theirs.lock('report', {wait: 0}), distlock.BusyError);
 * await broker.lose('report');       // held.isHeld is false now, and held.signal is aborted
 * await broker.advance('1m');        // maxHold, lockDelay, minHold and waits pass
 * ```
 *
 * Locks of every kind, elections, inspect, list, watch and checkToken work as at a broker that serves fairly; detached
 * leases and watchLocks are refused. A wait ends by advance() or by a release: do not await it before.
 *
 * @packageDocumentation
 */
import {status, type StatusObject} from '@grpc/grpc-js';
import {Addresses} from './addresses.js';
import type {Answers, Codec, Connection} from './channel.js';
import {Client, type ClientOptions} from './client.js';
import {type Clock, SECOND} from './clock.js';
import {milliseconds, toWire} from './convert.js';
import * as wire from './generated/distlock/v1/lock_pb.js';
import {type SessionCommand, SessionOpened} from './generated/distlock/v1/lock_service_pb.js';
import type {CheckTokenRequest, CheckTokenResponse, GetLockResponse, ListLocksRequest, ListLocksResponse,
  WatchLockRequest} from './generated/distlock/v1/look_pb.js';
import {Call, ended, failure, Watch} from './testing_channel.js';
import {Asked, LockBook, nameOf, VALIDITY} from './testing_locks.js';
import type {Duration} from './types.js';

const BEGIN = Date.UTC(2000, 0);
const PATIENCE = 20 * SECOND; // real time, for what the program does meanwhile
const STOPPED = 'the test has stopped the broker';
const MAX_BYTES = 1 << 20;
const MOST_LOCKS = 100_000;
const soon = setImmediate; // tests put another function in its place

interface Timer {
  at: number;
  call: () => void;
}

/** Serves a Broker's clients. */
class Serving implements Clock {
  readonly jumped = 0;
  readonly book = new LockBook();
  time = BEGIN;
  refusing: string | undefined;
  serving = true;
  private readonly timers = new Set<Timer>();
  private readonly calls = new Set<Call>();
  private readonly watches = new Set<Watch>();
  private frozen: (() => void)[] | undefined; // what happens when it goes on

  // The clock of all clients.

  now(): number {
    return this.time;
  }

  timer(call: () => void, delay: number): NodeJS.Timeout {
    const timer = {at: this.time + delay, call, ref: () => undefined, unref: () => undefined};
    this.timers.add(timer);
    return timer as unknown as NodeJS.Timeout;
  }

  cancel(timer: NodeJS.Timeout | undefined): void {
    this.timers.delete(timer as unknown as Timer);
  }

  /** Moves time on to the next moment at which something is to happen, `until` at most. */
  step(until: number): void {
    const times = [...[...this.timers].map(({at}) => at), ...this.book.times().filter(at => at > this.time)];
    this.time = Math.max(Math.min(until, ...times), this.time);
    this.book.expire(this.time);
    this.serve();
    for (const timer of [...this.timers].filter(({at}) => at <= this.time)) {
      if (this.timers.delete(timer)) timer.call();
    }
  }

  // Connections.

  when(act: () => void): void {
    if (this.frozen === undefined) act();
    else this.frozen.push(act);
  }

  freeze(): void {
    this.frozen ??= [];
  }

  thaw(): void {
    const missed = this.frozen ?? [];
    this.frozen = undefined;
    for (const act of missed) act();
    this.serve();
  }

  open(): Call {
    const call = new Call(this);
    this.calls.add(call);
    if (!this.serving) this.part(call, ended(status.UNAVAILABLE, STOPPED));
    return call;
  }

  stop(): void {
    this.serving = false;
    for (const call of this.calls) this.part(call, ended(status.UNAVAILABLE, STOPPED));
    for (const watch of this.watches) watch.destroy(failure(status.UNAVAILABLE, STOPPED));
  }

  part(call: Call, how: StatusObject): void {
    if (call.over) return;
    this.calls.delete(call);
    call.end(how);
    this.book.part(call, this.time);
    this.book.expire(this.time);
    this.serve();
  }

  serve(): void {
    this.book.serve(this.time);
    if (this.frozen !== undefined) return;
    for (const watch of this.watches) watch.tell(this.book.info(watch.name, this.time));
  }

  // The commands of sessions.

  obey(call: Call, {id, command}: SessionCommand): void {
    if (call.over || command === undefined) return;
    this.answer(call, id, command);
    this.serve();
  }

  private answer(call: Call, id: number, command: NonNullable<SessionCommand['command']>): void {
    const {book, time} = this;
    switch (command.$case) {
      case 'open': this.welcome(call, id); break;
      case 'heartbeat': this.acknowledge(call, command.heartbeat.seq); break;
      case 'acquire': {
        const asked = new Asked(call, id, command.acquire, time);
        if (this.refusing === undefined) book.acquire(asked, time);
        else book.refuse(asked, this.refusing as keyof typeof wire.RefusalReason, 'as the test says', time);
        break;
      }
      case 'cancel': book.cancel(call, command.cancel.acquireId, time); break;
      case 'release': {
        const outcome = book.release(call, command.release, time);
        call.say(id, {$case: 'released', released: {lease: undefined, outcome}});
        break;
      }
      case 'downgrade':
        if (book.downgrade(call, command.downgrade.acquireId)) {
          call.say(id, {$case: 'downgraded', downgraded: {lease: undefined}});
        } else {
          this.notHeld(call, id);
        }
        break;
      case 'adopt': if (!book.adopt(call, id, command.adopt)) this.notHeld(call, id); break;
      case 'goodbye':
        book.goodbye(call, time);
        this.calls.delete(call);
        call.end(ended(status.OK, ''));
        break;
      default:
    }
  }

  private welcome(call: Call, id: number): void {
    const opened = {...SessionOpened.decode(new Uint8Array()), sessionId: 'test', brokerId: 'test',
      maxMessageBytes: MAX_BYTES, maxLeases: MOST_LOCKS, features: ['permit', 'adopt'], validity: toWire(VALIDITY),
      heartbeatInterval: toWire(VALIDITY / 3)};
    call.say(id, {$case: 'opened', opened});
  }

  private acknowledge(call: Call, seq: number): void {
    call.heard = seq;
    call.heardAt = this.time;
    const limits = this.book.heldBy(call).filter(({endsAt}) => endsAt < this.time + VALIDITY)
      .map(({id, endsAt}) => ({acquireId: id, validFor: toWire(endsAt - this.time)}));
    call.say(0, {$case: 'heartbeatAck', heartbeatAck: {seq, validFor: toWire(VALIDITY), limits}});
  }

  private notHeld(call: Call, id: number): void {
    const refused = {...wire.Refusal.decode(new Uint8Array()), reason: wire.RefusalReason.NOT_HOLDER,
      message: 'it is not held'};
    call.say(id, {$case: 'refused', refused});
  }

  // Looking.

  /** The answer to a unary call. */
  ask(method: string, request: unknown): object {
    if (!this.serving) throw failure(status.UNAVAILABLE, STOPPED);
    const [{namespace, key}, {book, time}] = [request as {namespace: string; key: string}, this];
    if (method === 'GetLock') {
      const found: GetLockResponse = {lock: book.info(nameOf(namespace, key), time), holdOff: undefined};
      return found;
    }
    if (method === 'CheckToken') {
      const newestToken = book.lock(nameOf(namespace, key)).token;
      const newest = (request as CheckTokenRequest).fencingToken >= newestToken;
      const found: CheckTokenResponse = {newest, newestToken};
      return found;
    }
    if (method === 'ListLocks') {
      const {keyPrefix} = request as ListLocksRequest;
      const locks = book.names(time).map(name => book.info(name, time)).filter(lock => (
        ['-', lock.namespace].includes(namespace === '' ? 'default' : namespace) && lock.key.startsWith(keyPrefix)));
      const found: ListLocksResponse = {locks, nextPageToken: '', holdOff: undefined};
      return found;
    }
    throw failure(status.UNIMPLEMENTED, `distlock/testing has no ${method}`);
  }

  watch(method: string, {namespace, key}: WatchLockRequest): Answers {
    const watch = new Watch(nameOf(namespace, key));
    if (!this.serving) watch.destroy(failure(status.UNAVAILABLE, STOPPED));
    else if (method !== 'WatchLock') watch.destroy(failure(status.UNIMPLEMENTED, `distlock/testing has no ${method}`));
    else this.watches.add(watch.once('close', () => { this.watches.delete(watch); }));
    this.serve();
    return watch;
  }
}

/** The one address, which leads to the broker. */
class InProcess extends Addresses {
  constructor(private readonly broker: Serving) {
    super('memory', undefined, undefined, broker);
  }

  override open(address: string): Connection {
    const {broker} = this;
    return {
      address,
      shown: undefined,
      session: () => broker.open(),
      bearerNow: () => Promise.resolve(undefined),
      unary: <Q, A>(name: string, _: Codec<Q>, __: Codec<A>, request: Q, timeout: number) => (
        new Promise<A>((resolve, reject) => {
          const timer = broker.timer(() => { reject(failure(status.DEADLINE_EXCEEDED, 'no answer')); }, timeout);
          broker.when(() => {
            broker.cancel(timer);
            resolve(Promise.resolve().then(() => broker.ask(name, request) as A));
          });
        })),
      stream: (name, _, __, request) => broker.watch(name, request as WatchLockRequest),
      close: () => undefined,
    };
  }
}

async function moment(): Promise<void> {
  await new Promise<void>(resolve => { soon(resolve); });
}

/** The causes of LockLostError that a broker tells. */
export type LossCause = 'EXPIRED' | 'TAKEN' | 'FORCED' | 'MAX_HOLD';

/** A broker without a daemon. Its clients are real ones. */
export class Broker {
  private readonly inside = new Serving();

  /** A client, as of connect(). */
  client(options: ClientOptions = {}): Client {
    return new Client('memory', options, new InProcess(this.inside));
  }

  /** A reason, such as 'STORE_UNAVAILABLE' or 'QUOTA_EXCEEDED', for which each acquire is refused; undefined: none. */
  set refusing(reason: string | undefined) {
    if (reason !== undefined && !Object.hasOwn(wire.RefusalReason, reason)) {
      throw new TypeError(`there is no reason ${reason} for which a broker refuses`);
    }
    this.inside.refusing = reason;
  }

  get refusing(): string | undefined {
    return this.inside.refusing;
  }

  /** Moves time on, and waits until all that this changes has been told. */
  async advance(time: Duration): Promise<void> {
    const until = this.inside.time + milliseconds(time, 'time');
    do {
      await this.settle();
      this.inside.step(until);
    } while (this.inside.time < until);
    await this.settle();
  }

  /** Waits until clients have told all, and have heard all. */
  async settle(): Promise<void> {
    await moment();
    await moment();
  }

  /** Takes the lock from all who hold it. */
  async lose(key: string, cause: LossCause = 'FORCED', namespace = ''): Promise<void> {
    const {book, time} = this.inside;
    for (const lease of book.lock(nameOf(namespace, key)).holders) book.end(lease, cause, time);
    this.inside.serve();
    await this.settle();
  }

  /** No broker is there any more: streams break, and calls find nobody, until start(). */
  async stop(): Promise<void> {
    this.inside.stop();
    await this.settle();
  }

  /** After stop(). Clients come back when they try again: advance('2s'). */
  start(): void {
    this.inside.serving = true;
  }

  /** The broker is silent, and what is held lapses by advance('3s'), until thaw(). */
  freeze(): void {
    this.inside.freeze();
  }

  /** After freeze(): the broker goes on with what has come meanwhile. */
  async thaw(): Promise<void> {
    this.inside.thaw();
    await this.settle();
  }

  /** Until so many wait for the lock: advance() then moves their waits. */
  async awaitWaiting(key: string, count = 1, namespace = ''): Promise<void> {
    const until = performance.now() + PATIENCE;
    const name = nameOf(namespace, key);
    for (;;) {
      const {queueLength} = this.inside.book.info(name, this.inside.time);
      if (queueLength >= count) return;
      if (performance.now() > until) throw new Error(`${queueLength} wait for ${name} instead of ${count}`);
      await moment();
    }
  }
}
