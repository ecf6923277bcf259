// SPDX-License-Identifier: Apache-2.0
//
// The inside of a client: the lock table, its streams, and the one timer, for deadlines, heartbeats and reconnects.
//
// 1. What the program calls is a turn of the table. Its callbacks run when the turn is over, and may call again.
// 2. Commands that gather while one event is handled, or while a message is being written, leave together.
// 3. While nothing is held, waited for or unanswered, neither the timer nor a socket keeps the process alive, and a
//    session that ends is opened again only by the next call.
// 4. Nothing here knows the program's objects: they may be dropped (core.ts).
import {status as grpcStatus, type StatusObject} from '@grpc/grpc-js';
import type {Addresses} from './addresses.js';
import type {Connection, SessionCall} from './channel.js';
import {NEVER, SECOND} from './clock.js';
import {guarded, type Refusal} from './errors.js';
import type {SessionResponse} from './generated/distlock/v1/lock_service_pb.js';
import {type Lease, type Link, Phase} from './lease.js';
import {LockTable} from './lock_table.js';
import {Sockets} from './sockets.js';
import {refusalOfStatus} from './status.js';
import type {TableSettings} from './table_base.js';

const RECONNECT_INITIAL = SECOND / 50;
const RECONNECT_MAX = 2 * SECOND;
const CONNECT_TIMEOUT = 5 * SECOND;
const PAUSE_WHILE_MOVING = SECOND / 5; // leases wait for a session that adopts them, and their last promises run out
const CLOSE_PATIENCE = SECOND;
const LONGEST_TIMER = 3600 * SECOND;

/** One Session call. */
interface Stream {
  readonly link: Link;
  readonly connection: Connection;
  readonly sockets: Sockets;
  readonly call: SessionCall;
  writing: boolean;
  looking: boolean; // whether the token has changed
}

export interface EngineSettings extends Omit<TableSettings, 'brokers' | 'connectTimeout'> {
  onSession: ((what: 'opened' | 'ended', address: string) => void) | undefined;
}

export class Engine {
  readonly table: LockTable;
  readonly onDrained = new Set<() => void>(); // told whenever nothing is held, waited for, or on its way back
  private readonly streams = new Set<Stream>(); // those whose end the table has not heard of
  private former: Link | undefined; // of the table, at the last turn
  private reconnectAt = 0;
  private bound = RECONNECT_INITIAL;
  private timer: NodeJS.Timeout | undefined;
  private armed = NEVER;
  private keeps = true;
  private flushing = false;
  private jumped = 0; // by how much the clock has, as waits know it

  /** For handles of locks. Runs between two turns of the event loop, never inside a call. */
  readonly handles = new FinalizationRegistry<Lease>(lease => { this.onDropped(lease); });

  /** `onOpened`: told where a session was opened. */
  constructor(private readonly settings: EngineSettings, private readonly addresses: Addresses,
    private readonly onOpened: (address: string) => void) {
    this.table = new LockTable({...settings, brokers: addresses.all.length, connectTimeout: CONNECT_TIMEOUT});
  }

  /** A turn of the table. */
  turn<T>(act: (table: LockTable, now: number) => T): T {
    const result = act(this.table, this.now());
    this.changed();
    return result;
  }

  /** Whether a lock is held at this moment. Only one whose deadline has passed needs a turn. */
  holds(lease: Lease): boolean {
    if (lease.phase !== Phase.HELD || this.now() < lease.deadline) return lease.phase === Phase.HELD;
    return this.turn((table, now) => table.notice(lease, now));
  }

  private onDropped(lease: Lease): void {
    if (lease.phase !== Phase.HELD) return;
    const told = [...lease.onEnd]; // the observer; a handle that tells of a loss is not dropped
    this.turn((table, now) => { table.release(lease, undefined, now); });
    for (const tell of told) tell();
    process.emitWarning(`distlock: the lock ${JSON.stringify(lease.spec.key)} was given back because its handle was `
      + 'dropped: keep what lock() returns, and release it');
  }

  /** Gives all back and waits up to a second for the broker's answer. */
  async close(): Promise<void> {
    if (this.table.closed) return;
    this.turn((table, now) => { table.close(now); });
    await Promise.all([...this.streams].map(async stream => {
      this.flush(stream);
      let patience: NodeJS.Timeout | undefined;
      await new Promise<void>(resolve => {
        stream.call.once('status', resolve);
        patience = setTimeout(resolve, stream.link.opened ? CLOSE_PATIENCE : 0); // one that is not open holds nothing
      });
      clearTimeout(patience);
      stream.call.cancel();
    }));
    this.addresses.clock.cancel(this.timer);
  }

  private now(): number {
    const {clock} = this.addresses;
    const now = clock.now();
    if (clock.jumped !== this.jumped) this.table.prolongWaits(clock.jumped - this.jumped, now);
    this.jumped = clock.jumped;
    return now;
  }

  /** After each change of the table. */
  private changed(): void {
    this.runEffects();
    if (this.flushing) return;
    this.flushing = true;
    process.nextTick(() => { // after all that the present event has resolved
      this.flushing = false;
      this.proceed();
    });
  }

  private runEffects(): void {
    while (this.table.effects.length > 0) {
      const {effects} = this.table;
      this.table.effects = [];
      for (const effect of effects) guarded('a callback', effect);
    }
  }

  /** Does what is due, sends what has gathered, and sets the timer. */
  private proceed(): void {
    const {table} = this;
    const now = this.now();
    for (const stream of this.streams) {
      if (!stream.link.session.lapsed(now)) continue; // the broker has not been heard for too long
      const why = stream.link.opened ? 'the broker was not heard for the whole validity'
        : 'no answer to Open within the connect timeout';
      this.breakStream(stream, 'LAPSED', why, undefined);
    }
    table.tick(now);
    if (table.former !== undefined && table.former !== this.former) { // the table has left a broker: the next, at once
      this.addresses.next();
      this.reconnectAt = 0;
    }
    this.former = table.former;
    if (now >= this.reconnectAt && this.wanted) this.open(now);
    for (const stream of this.streams) this.flush(stream);
    this.runEffects();
    if (table.drained) for (const tell of this.onDrained) tell();
    this.arm(now);
  }

  /** Whether a session is missing. */
  private get wanted(): boolean {
    const {link, closed, live, leftovers} = this.table;
    return !link.streaming && !closed && (live.size > 0 || leftovers.length > 0);
  }

  private arm(now: number): void {
    const due = Math.min(this.table.due, this.wanted ? this.reconnectAt : NEVER);
    if (due !== this.armed && !(this.armed < due && this.armed > now)) {
      this.addresses.clock.cancel(this.timer);
      this.armed = due;
      const delay = Math.min(Math.max(Math.ceil(due - now), 1), LONGEST_TIMER); // they come up to 1 ms early
      this.timer = due === NEVER || this.table.closed ? undefined : this.addresses.clock.timer(() => {
        this.armed = NEVER;
        this.proceed();
      }, delay);
      if (!this.keeps) this.timer?.unref();
    }
    const keeps = !this.table.idle || [...this.streams].some(stream => stream.writing);
    if (keeps === this.keeps) return;
    this.keeps = keeps;
    if (keeps) this.timer?.ref();
    else this.timer?.unref();
    for (const stream of this.streams) stream.sockets.keepAlive(keeps);
  }

  private open(now: number): void {
    const connection = this.addresses.open(this.addresses.present);
    const sockets = new Sockets(this.keeps);
    const call = connection.session(sockets);
    const {link} = this.table;
    link.shown = connection.shown;
    const stream: Stream = {link, connection, sockets, call, writing: false, looking: false};
    call.on('data', (response: SessionResponse) => { this.onResponse(stream, response); });
    call.on('error', () => undefined); // 'status' tells the same
    call.on('status', (status: StatusObject) => { this.onStreamEnd(stream, status); });
    this.streams.add(stream);
    this.table.start(now);
  }

  private flush(stream: Stream): void {
    if (stream.writing) return;
    if (stream.link.heartbeatDue && stream.link.authenticates) void this.showAnew(stream);
    const message = this.table.pack(stream.link, this.now());
    if (message === undefined) return;
    stream.writing = true;
    stream.call.write(message, () => {
      stream.writing = false;
      if (!this.streams.has(stream)) return;
      this.flush(stream);
      if (this.table.idle) this.changed(); // the process need not be kept alive any more
    });
  }

  /** Brings a token that has changed to the session. The file may be slow to read: no heartbeat waits for it. */
  private async showAnew(stream: Stream): Promise<void> {
    if (stream.looking) return;
    stream.looking = true;
    const {connection, link} = stream;
    const authorization = await connection.bearerNow();
    stream.looking = false;
    if (authorization === undefined || authorization === link.shown || !this.streams.has(stream)) return;
    this.turn(table => { table.authenticate(link, authorization); });
  }

  private onResponse(stream: Stream, response: SessionResponse): void {
    if (!this.streams.has(stream)) return;
    const {link} = stream;
    const wasOpen = link.opened;
    const now = this.now();
    for (const event of response.events) this.table.onEvent(link, event, now);
    if (link === this.table.link && link.session.lastAcked > 0) {
      this.bound = RECONNECT_INITIAL;
      this.addresses.succeed();
    }
    if (link.opened && !wasOpen) {
      const {address} = stream.connection;
      this.onOpened(address);
      this.table.effects.push(() => this.settings.onSession?.('opened', address));
    }
    this.changed();
  }

  private onStreamEnd(stream: Stream, status: StatusObject): void {
    const failure = status.code === grpcStatus.OK ? undefined : refusalOfStatus(status, stream.connection.address);
    const why = `the stream to the broker ended${failure === undefined ? '' : `: ${failure.message}`}`;
    this.breakStream(stream, failure?.reason === 'LEASE_LOST' ? 'LAPSED' : 'DISCONNECTED', why, failure);
    stream.connection.close();
    this.table.effects.push(() => this.settings.onSession?.('ended', stream.connection.address));
    if (!this.table.closed) this.changed();
  }

  private breakStream(stream: Stream, cause: string, why: string, failure: Refusal | undefined): void {
    if (!this.streams.delete(stream)) return;
    const isPresent = stream.link === this.table.link;
    this.table.onBroken(stream.link, cause, why, this.now());
    if (failure !== undefined) this.table.onStatus(failure);
    stream.call.cancel();
    if (isPresent) this.planReconnect(failure);
  }

  private planReconnect(failure: Refusal | undefined): void {
    this.reconnectAt = 0;
    const anotherMayDo = failure === undefined || failure.reason === 'UNREACHABLE' || failure.reason === 'DRAINING';
    if (this.addresses.next() && anotherMayDo) return;
    let pause = Math.random() * this.bound + Math.min(failure?.retryAfter ?? 0, RECONNECT_MAX);
    this.bound = Math.min(2 * this.bound, RECONNECT_MAX);
    if (this.table.moving || this.table.leftovers.length > 0) pause = Math.min(pause, PAUSE_WHILE_MOVING);
    this.reconnectAt = this.now() + pause;
  }
}
