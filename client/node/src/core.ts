// SPDX-License-Identifier: Apache-2.0
//
// The inside of a client: the lock table, its streams, and the one timer, for deadlines, heartbeats and reconnects.
//
// 1. Commands that gather while one event is handled, or while a message is being written, leave together.
// 2. The program's callbacks run when the table is in order again.
// 3. While nothing is held, waited for or unanswered, neither the timer nor a socket keeps the process alive, and a
//    session that ends is opened again only by the next call.
import {status as grpcStatus, type StatusObject} from '@grpc/grpc-js';
import {Addresses} from './addresses.js';
import {bearerNow} from './bearer.js';
import {Connection, type SessionCall} from './channel.js';
import {clock, NEVER, SECOND} from './clock.js';
import {type DistlockError, errorOf, type Refusal} from './errors.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued, SessionResponse} from './generated/distlock/v1/lock_service_pb.js';
import {type Answer, type Lease, type Link, Phase, type Request, type TellOutcome} from './lease.js';
import {LockTable} from './lock_table.js';
import {refusalOfStatus} from './status.js';

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
  readonly call: SessionCall;
  writing: boolean;
  looking: boolean; // whether the token has changed
  over: boolean; // the table has heard of its end
  readonly ended: Promise<void>;
}

export interface CoreSettings {
  address: string;
  label: string;
  /** Milliseconds; undefined: by the wait. */
  unreachableAfter: number | undefined;
  /** The broker goes down, and not all locks can follow to another one. Milliseconds that are left. */
  onDraining: ((timeLeft: number) => void) | undefined;
  onSession: ((what: 'opened' | 'ended', address: string) => void) | undefined;
}

/** Runs a callback of the program. One that fails costs no lock. */
export function guarded(name: string, callback: () => unknown): unknown {
  try {
    return callback();
  } catch (error) {
    const what = error instanceof Error ? error.stack ?? error.message : String(error);
    process.emitWarning(`distlock: ${name} failed: ${what}`);
    return undefined;
  }
}

export class Core {
  readonly addresses: Addresses;
  readonly table: LockTable;
  private closing = false;
  private readonly streams: [Stream | undefined, Stream | undefined] = [undefined, undefined];
  private present: 0 | 1 = 0;
  private reconnectAt = 0;
  private bound = RECONNECT_INITIAL;
  private timer: NodeJS.Timeout | undefined;
  private armed = NEVER;
  private keeps = true;
  private flushing = false;
  private jumped = clock.jumped;
  private lookupConnection: Connection | undefined;
  private lookupAddress = '';
  private readonly others = new Set<() => void>(); // end calls that are no session

  constructor(private readonly settings: CoreSettings) {
    const {address, label, unreachableAfter} = settings;
    this.addresses = new Addresses(address);
    const brokers = this.addresses.all.length;
    this.table = new LockTable({address, brokers, label, unreachableAfter, connectTimeout: CONNECT_TIMEOUT});
  }

  // Calls of the program.

  acquire(specs: readonly LockSpec[], wait: number | undefined, answer: Answer,
    onQueued?: (queued: AcquireQueued) => void): Request {
    const request = this.table.acquire(specs, wait, this.now(), answer, onQueued);
    this.changed();
    return request;
  }

  /** Gives a request up, also when it is granted at this moment. */
  cancel(request: Request): void {
    this.table.cancel(request, this.now());
    this.changed();
  }

  release(lease: Lease, tell?: TellOutcome): void {
    this.table.release(lease, tell, this.now());
    this.changed();
  }

  async downgrade(lease: Lease): Promise<void> {
    await this.answered(answer => { this.table.downgrade(lease, answer); });
  }

  async proclaim(lease: Lease, metadata: Record<string, string>): Promise<void> {
    await this.answered(answer => { this.table.proclaim(lease, metadata, answer, this.now()); });
  }

  private async answered(ask: (answer: Answer) => void): Promise<void> {
    const refusal = await new Promise<Refusal | undefined>(resolve => {
      ask(resolve);
      this.changed();
    });
    if (refusal !== undefined) throw errorOf(refusal);
  }

  /** Compares the deadline with the clock, at this moment. */
  held(lease: Lease): boolean {
    if (lease.phase !== Phase.HELD || this.now() < lease.deadline) return lease.phase === Phase.HELD;
    const held = this.table.notice(lease, this.now());
    this.changed();
    return held;
  }

  get connected(): boolean {
    return this.table.link.opened;
  }

  /** The connection for calls that are no session. */
  lookup(): Connection {
    if (this.closing) throw this.closedError();
    if (this.lookupConnection === undefined) {
      this.lookupAddress ||= this.addresses.present;
      this.lookupConnection = new Connection(this.lookupAddress);
    }
    return this.lookupConnection;
  }

  /** That connection's broker did not answer: the next call goes to another one. */
  nextLookup(failed: Connection): void {
    if (this.lookupConnection === failed) {
      this.lookupAddress = this.addresses.after(this.lookupAddress);
      this.lookupConnection = undefined;
    }
    failed.close();
  }

  /** `end` is called when the client closes; returns what takes that back. */
  whenClosed(end: () => void): () => void {
    this.others.add(end);
    return () => this.others.delete(end);
  }

  isClosing(): boolean {
    return this.closing;
  }

  closedError(): DistlockError {
    return errorOf({reason: 'CLIENT_CLOSED', message: 'the client was closed; make a new one'});
  }

  /** Gives all back and waits up to a second for the broker's answer. */
  async close(): Promise<void> {
    if (this.closing) return;
    this.closing = true;
    this.table.close(this.now());
    this.changed();
    for (const end of this.others) end();
    await Promise.all(this.streams.map(async stream => {
      if (stream === undefined) return;
      this.flush(stream);
      if (stream.link.opened) await this.patiently(stream.ended); // one that is not even open holds nothing
      stream.call.cancel();
      stream.connection.close();
    }));
    this.lookupConnection?.close();
    clearTimeout(this.timer);
  }

  private async patiently(ended: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>(resolve => { timer = setTimeout(resolve, CLOSE_PATIENCE); });
    await Promise.race([ended, patience]);
    clearTimeout(timer);
  }

  // The rest.

  private now(): number {
    const now = clock.now();
    if (clock.jumped !== this.jumped) {
      this.table.prolongWaits(clock.jumped - this.jumped, now);
      this.jumped = clock.jumped;
    }
    return now;
  }

  /** After each change of the table. */
  private changed(): void {
    this.runEffects();
    if (!this.flushing) {
      this.flushing = true;
      process.nextTick(() => { // after all that the present event has resolved
        this.flushing = false;
        this.proceed();
      });
    }
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
    const now = this.now();
    for (const stream of this.streams) {
      if (stream === undefined || !this.table.lapsed(stream.link, now)) continue;
      const why = stream.link.opened ? 'the broker was not heard for the whole validity'
        : 'no answer to Open within the connect timeout';
      this.breakStream(stream, 'LAPSED', why, undefined);
    }
    this.table.tick(now);
    this.followTable();
    if (this.streams[this.present] === undefined && now >= this.reconnectAt && this.wanted) this.open(now);
    for (const stream of this.streams) if (stream !== undefined) this.flush(stream);
    this.tellDraining();
    this.runEffects();
    this.arm(now);
  }

  /** Whether a session is needed. */
  private get wanted(): boolean {
    return !this.closing && (this.table.live.size > 0 || this.table.leftovers.length > 0);
  }

  private arm(now: number): void {
    let due = this.table.wake;
    const reconnects = this.streams[this.present] === undefined && this.wanted;
    if (reconnects) due = Math.min(due, this.reconnectAt);
    if (due !== this.armed && !(this.armed < due && this.armed > now)) {
      clearTimeout(this.timer);
      this.armed = due;
      this.timer = due === NEVER || this.closing ? undefined : this.startTimer(due - now);
    }
    const keeps = !this.table.idle || reconnects || this.streams.some(stream => stream?.writing === true);
    if (keeps === this.keeps) return;
    this.keeps = keeps;
    if (keeps) this.timer?.ref();
    else this.timer?.unref();
    for (const stream of this.streams) stream?.connection.keepAlive(keeps);
  }

  private startTimer(delay: number): NodeJS.Timeout {
    // Timers may come up to a millisecond early.
    const timer = setTimeout(() => {
      this.armed = NEVER;
      this.proceed();
    }, Math.min(Math.max(Math.ceil(delay), 1), LONGEST_TIMER));
    return this.keeps ? timer : timer.unref();
  }

  /** Goes on with the next broker, at once, when the table has left the present one. */
  private followTable(): void {
    if (this.table.present === this.present) return;
    this.present = this.table.present;
    this.addresses.next();
    this.reconnectAt = 0;
  }

  private tellDraining(): void {
    const left = this.table.drainingFor;
    const {onDraining} = this.settings;
    this.table.drainingFor = undefined;
    if (left !== undefined && onDraining !== undefined) guarded('onDraining', () => { onDraining(left); });
  }

  private open(now: number): void {
    const connection = new Connection(this.addresses.present);
    const call = connection.session();
    let end = (): void => undefined;
    const ended = new Promise<void>(resolve => { end = resolve; });
    const {link} = this.table;
    const stream: Stream = {link, connection, call, writing: false, looking: false, over: false, ended};
    call.on('data', (response: SessionResponse) => { this.onResponse(stream, response); });
    call.on('error', () => undefined); // 'status' tells the same
    call.on('status', (status: StatusObject) => {
      end();
      this.onStreamEnd(stream, status);
    });
    this.streams[this.present] = stream;
    this.table.start(now);
  }

  private flush(stream: Stream): void {
    if (stream.writing || stream.over) return;
    if (stream.link.heartbeatDue && stream.link.authenticates) void this.showAnew(stream);
    const message = this.table.pack(stream.link, this.now());
    if (message === undefined) return;
    stream.writing = true;
    stream.call.write(message, () => {
      stream.writing = false;
      if (stream.over) return;
      this.flush(stream);
      if (this.table.idle) this.changed(); // the process need not be kept alive any more
    });
  }

  /** Brings a token that has changed to the session. The file may be slow to read: no heartbeat waits for it. */
  private async showAnew(stream: Stream): Promise<void> {
    if (stream.looking) return;
    stream.looking = true;
    const {connection, link} = stream;
    const authorization = await bearerNow(connection.address);
    stream.looking = false;
    if (authorization === undefined || stream.over) return;
    if (authorization === connection.shown && !link.proofRefused) return;
    connection.shown = authorization;
    this.table.authenticate(link, authorization);
    this.changed();
  }

  private onResponse(stream: Stream, response: SessionResponse): void {
    if (stream.over) return;
    const {table} = this;
    const {link} = stream;
    const wasOpen = link.opened;
    const now = this.now();
    for (const event of response.events) table.onEvent(link, event, now);
    if (link === table.link && link.acked) {
      this.bound = RECONNECT_INITIAL;
      this.addresses.succeed();
    }
    if (link.opened && !wasOpen) {
      this.lookupAddress = stream.connection.address;
      this.tellSession('opened', stream);
    }
    this.changed();
  }

  private onStreamEnd(stream: Stream, status: StatusObject): void {
    const failure = status.code === grpcStatus.OK ? undefined : refusalOfStatus(status);
    const known = stream.over;
    const why = `the stream to the broker ended${failure === undefined ? '' : `: ${failure.message}`}`;
    this.breakStream(stream, failure?.reason === 'LEASE_LOST' ? 'LAPSED' : 'DISCONNECTED', why, failure);
    if (failure !== undefined && !known) this.table.onStatus(failure);
    stream.connection.close();
    this.tellSession('ended', stream);
    if (!this.closing) this.changed();
  }

  private tellSession(what: 'opened' | 'ended', stream: Stream): void {
    const {onSession} = this.settings;
    if (onSession !== undefined) this.table.effects.push(() => { onSession(what, stream.connection.address); });
  }

  private breakStream(stream: Stream, cause: string, why: string, failure: Refusal | undefined): void {
    if (stream.over) return;
    stream.over = true;
    this.table.onBroken(stream.link, cause, why, this.now());
    const index = stream.link === this.table.links[0] ? 0 : 1;
    this.streams[index] = undefined;
    stream.call.cancel();
    if (index === this.present) this.planReconnect(failure);
  }

  private planReconnect(failure: Refusal | undefined): void {
    this.reconnectAt = 0;
    const anotherMayDo = failure === undefined || failure.reason === 'UNREACHABLE' || failure.reason === 'DRAINING';
    if (this.addresses.next() && anotherMayDo) return;
    let pause = Math.random() * this.bound + Math.min(failure?.retryAfter ?? 0, RECONNECT_MAX);
    this.bound = Math.min(2 * this.bound, RECONNECT_MAX);
    if (this.table.moving) pause = Math.min(pause, PAUSE_WHILE_MOVING);
    this.reconnectAt = this.now() + pause;
  }
}
