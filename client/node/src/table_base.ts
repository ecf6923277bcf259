// SPDX-License-Identifier: Apache-2.0
//
// The data of the lock table, and what its parts share. The table is the engine of a client: leases, and what may
// happen to them. A state machine without clock, timers or IO: time is passed in, what it tells the program comes out
// in `effects`, what it tells brokers in pack(). Its rules are those of proto/distlock/v1/session.md. Only
// src/engine.ts calls it.
//
// New acquires go through the present link. When its broker drains and another one is known, it becomes the former one,
// and a new link the present one; leases follow by AdoptLease (moves.ts).
import {randomBytes} from 'node:crypto';
import {NEVER, SECOND} from './clock.js';
import {toWire} from './convert.js';
import type {Refusal} from './errors.js';
import {type Command, type Lease, Link, Phase, type Request, Return, type TellOutcome} from './lease.js';
import type {Outcome} from './types.js';

const ANSWER_GRACE = SECOND / 2; // the broker ends a bounded wait; when it stays silent, the client does after this
const LEAST_WAIT = 1; // 0 would turn a bounded wait into one try
export const LEAST_PAUSE = 10;
const TOLD = ['DRAINING', 'QUOTA_EXCEEDED', 'STORE_UNAVAILABLE', 'QUORUM_NOT_REACHED']; // why no session begins
const BEST_FIRST: Outcome[] = ['RELEASED', 'STILL_HELD', 'UNKNOWN', 'ALREADY_GONE'];
export const OVER: Refusal = {reason: 'NOT_HOLDER', message: 'the lock has ended'};

export type Reply = Refusal | Outcome | undefined; // to a command; undefined: it is done
type Heard = (reply: Reply, now: number) => void;

export const newKey = (): string => randomBytes(16).toString('hex');

export interface TableSettings {
  address: string;
  brokers: number;
  label: string;
  unreachableAfter: number | undefined; // milliseconds; undefined: by the wait
  connectTimeout: number;
  /** The broker goes down, and not all locks can follow to another one. Milliseconds that are left. */
  onDraining: ((timeLeft: number) => void) | undefined;
}

export class TableBase {
  link = new Link(); // the present one, with a stream or without
  former: Link | undefined; // with a stream
  readonly live = new Map<number, Lease>(); // by id, in any phase but ENDED
  readonly moves = new Map<number, Lease>(); // by the id of an adoption that is not answered
  readonly asked = new Map<number, {link: Link; heard: Heard}>(); // the other commands without an answer, but acquires
  leftovers: Return[] = []; // that no session could take back
  effects: (() => void)[] = [];
  closed = false;
  moving = false; // some lease is not at the present link
  leaseDeadline = NEVER;
  movesAt = NEVER; // when sendMoves() is to be called
  requestsAt = NEVER; // before that, no request is to be given up
  lastFailure: Refusal | undefined;
  private nextId = 1;
  protected readonly requestPrefix = newKey();
  protected sessions = 0; // opened so far

  constructor(readonly settings: TableSettings) {}

  get links(): Link[] {
    return this.former === undefined ? [this.link] : [this.link, this.former];
  }

  takeIds(count = 1): number {
    const first = this.nextId;
    this.nextId += count;
    return first;
  }

  moveAt(at: number): void {
    this.movesAt = Math.min(this.movesAt, at);
  }

  /** Has the program told when the turn is over. */
  tell<T>(told: ((value: T) => void) | undefined, value: T): void {
    if (told !== undefined) this.effects.push(() => { told(value); });
  }

  /** Sends a command; `heard` gets its answer, or UNREACHABLE when the stream breaks before. Returns its id. */
  ask(link: Link, command: Command, heard: Heard): number {
    const id = this.takeIds();
    this.asked.set(id, {link, heard});
    link.send(id, command);
    return id;
  }

  /** False: it is no answer to a command that was asked. */
  reply(id: number, reply: Reply, now: number): boolean {
    const asked = this.asked.get(id);
    this.asked.delete(id);
    asked?.heard(reply, now);
    return asked !== undefined;
  }

  /** Sets when a waiting request is given up: one that no broker has, when none was found for so long. */
  schedule(request: Request): void {
    const {oneTry, stranded, waitUntil} = request;
    const patience = this.settings.unreachableAfter ?? (oneTry ? SECOND : waitUntil === NEVER ? 10 * SECOND : NEVER);
    request.giveUpAt = stranded === NEVER ? waitUntil + ANSWER_GRACE : Math.min(waitUntil, stranded + patience);
    this.requestsAt = Math.min(this.requestsAt, request.giveUpAt);
  }

  unsend(request: Request): void {
    request.link = undefined;
    for (const lease of request.leases) {
      lease.phase = Phase.WAITING;
      lease.link = undefined;
    }
  }

  strand(request: Request, now: number): void {
    this.unsend(request);
    request.stranded = Math.min(request.stranded, now);
    this.schedule(request);
  }

  /** The requests that are not answered, in their order. */
  waiting(): Request[] {
    const found: Request[] = [];
    for (const lease of this.live.values()) {
      if (lease.phase <= Phase.GRANTED && lease.request.first === lease) found.push(lease.request);
    }
    return found;
  }

  held(): Lease[] {
    return [...this.live.values()].filter(lease => lease.phase === Phase.HELD);
  }

  refuse(request: Request, refusal: Refusal): void {
    for (const lease of request.leases) {
      this.live.delete(lease.id);
      lease.phase = Phase.ENDED;
    }
    this.tell(request.answer, refusal);
    request.answer = undefined;
  }

  /** Tells the broker that this request is given up. Grants that are on their way go back by themselves. */
  withdraw(request: Request, gone?: Lease): void {
    const {link} = request;
    if (link === undefined || link.drop(request.first.id)) return; // the broker has not heard of it
    for (const lease of request.leases) { // each: the grants of some may be on their way
      if (lease === gone) continue;
      if (lease.phase === Phase.GRANTED) this.sendRelease(link, lease.id, new Return(lease, false));
      else link.send(0, {$case: 'cancel', cancel: {acquireId: lease.id}});
    }
  }

  /** Sends a request through the present session, unless it must wait for something. */
  sendRequest(request: Request, now: number): void {
    const {link} = this;
    if (!link.streaming || link.leaving || this.heldElsewhere(request)) return;
    const locks = request.leases.map(({spec}) => spec);
    for (const spec of locks) {
      if (request.oneTry) spec.maxWait = toWire(0);
      else if (request.waitUntil !== NEVER) spec.maxWait = toWire(Math.max(request.waitUntil - now, LEAST_WAIT));
    }
    const acquire = {locks, requestId: request.requestId};
    if (link.send(request.first.id, {$case: 'acquire', acquire}, locks.length)) {
      request.link = link;
      for (const lease of request.leases) lease.link = link;
    } else if (link.opened) {
      const message = `the request does not fit into the ${link.maxBytes} bytes that this broker takes: ask for fewer`;
      this.refuse(request, {reason: 'INVALID_ARGUMENT', message});
    } // else it goes when the broker has told its limit
  }

  /** Whether the same owner holds the lock through another session: it would wait for itself there. */
  private heldElsewhere(request: Request): boolean {
    const asked = request.first.spec;
    return this.moving && asked.reentrant && this.held().some(({link, spec}) => link !== this.link && spec.reentrant
      && spec.key === asked.key && spec.owner === asked.owner && spec.namespace === asked.namespace);
  }

  sendHeldBack(now: number): void {
    for (const request of this.waiting()) if (request.link === undefined) this.sendRequest(request, now);
  }

  unreachable(since: number, now: number): Refusal {
    const failure = this.lastFailure;
    const reason = failure !== undefined && TOLD.includes(failure.reason) ? failure.reason : 'UNREACHABLE';
    const why = failure === undefined || failure.message === '' ? '' : `: ${failure.message}`;
    const waited = now - since;
    const where = `no broker at ${this.settings.address} took it within ${Math.floor(waited)} ms${why}`;
    return {reason, waited, message: `${where}; check that distlockd runs there, or set DISTLOCK_SERVER`};
  }

  /** Those of a reentrant lease that are still held; of another one, itself. */
  holdsOf(lease: Lease): Lease[] {
    return lease.spec.reentrant ? this.held().filter(other => lease.same(other)) : [lease];
  }

  sendRelease(link: Link, acquireId: number, back: Return, leaseId = ''): void {
    back.missing += 1;
    const release = {acquireId, leaseId, lapsed: back.lapsed};
    this.ask(link, {$case: 'release', release}, reply => { this.returned(back, reply); });
  }

  private returned(back: Return, reply: Reply): void {
    back.missing -= 1;
    const reason = typeof reply === 'object' ? reply.reason : '';
    back.broken ||= reason === 'UNREACHABLE';
    const outcome = typeof reply === 'string' ? reply : reason === 'NOT_HOLDER' ? 'ALREADY_GONE' : 'UNKNOWN';
    if (BEST_FIRST.indexOf(outcome) < BEST_FIRST.indexOf(back.outcome)) back.outcome = outcome;
    if (back.missing > 0) return;
    this.tell(back.tell, back.outcome);
    if (back.broken && back.outcome === 'UNKNOWN') this.leaveOver(back);
  }

  /** For the next session, which adopts it and releases it then. */
  leaveOver({lease, lapsed, key}: Return): void {
    // Other holds of a reentrant lease move it, with what is left of it.
    if (this.closed || this.holdsOf(lease).some(hold => hold !== lease)) return;
    this.leftovers.push(new Return(lease, lapsed, undefined, key === '' ? newKey() : key));
    this.moveAt(0);
  }

  /** Releases the lease at every session that may have it. Does not end it. `gone`: its own has it no more. */
  giveBack(lease: Lease, lapsed: boolean, tell?: TellOutcome, gone = false): void {
    const back = new Return(lease, lapsed, tell);
    if (lease.link !== undefined && !gone) { // by its secret where that session may have another id for it
      if (lease.to === lease.link) this.sendRelease(lease.link, 0, back, lease.leaseId);
      else this.sendRelease(lease.link, lease.id, back);
    }
    if (lease.to !== undefined) {
      this.sendRelease(lease.to, lease.toId, back);
      this.unaskMove(lease);
    }
    if (back.missing > 0 || gone) return;
    this.tell(tell, 'UNKNOWN');
    this.leaveOver(back);
  }

  /** Its adoption is answered, or will not be. */
  unaskMove(lease: Lease): void {
    this.moves.delete(lease.toId);
    lease.to = undefined;
  }

  /** Final. `tell`: the program is told of a loss. */
  end(lease: Lease, cause: string, message: string, tell = true): void {
    this.live.delete(lease.id);
    lease.phase = Phase.ENDED;
    lease.cause = cause;
    lease.message = message;
    for (const answer of lease.downgrades.splice(0)) this.tell(answer, OVER);
    this.tellChange(lease, OVER);
    if (this.moving && lease.spec.reentrant) this.moveAt(0); // an acquire of that owner may have waited for its arrival
    if (tell) this.effects.push(...lease.onEnd);
    lease.onEnd = [];
  }

  /** The lease's new spec is shown to others now, or will not be. */
  tellChange(lease: Lease, refusal: Refusal | undefined): void {
    for (const told of lease.change?.told ?? []) this.tell(told, refusal);
    lease.change = undefined;
  }

  /** Ends a held lease that is not released by the program, and sees that the broker frees it. */
  lose(lease: Lease, cause: string, message: string, gone = false): void {
    this.giveBack(lease, true, undefined, gone);
    this.end(lease, cause, message);
  }

  /** Ends the lease if its deadline has passed. True: it is still held. */
  notice(lease: Lease, now: number): boolean {
    if (lease.phase !== Phase.HELD || now < lease.deadline) return lease.phase === Phase.HELD;
    const link = lease.link ?? this.link;
    const heard = link.streaming && link.opened && now < link.session.deadline;
    if (heard && lease.risk !== undefined) {
      this.lose(lease, 'EXPIRED', `could not be renewed in time: ${lease.risk}`);
    } else if (heard && lease.link !== undefined && lease.spec.maxHold !== undefined) {
      // While the session is alive and no renewal has failed, only max_hold lets the deadline of one lease pass.
      this.lose(lease, 'MAX_HOLD', 'held for max_hold');
    } else {
      this.lose(lease, 'LAPSED', 'the broker was not heard until the deadline');
    }
    return false;
  }

  /**
   * For a lease that was granted until `deadline`: when half of what is left is gone, and at once when it is short.
   * Then a recent heartbeat that is not answered yet is enough.
   */
  askForHeartbeat(link: Link, deadline: number, now: number): void {
    const recent = link.session.unanswered > 0 && now - link.session.lastSentAt < link.validity / 6;
    if (deadline - now < link.validity / 2 && !link.leaving && !recent) link.heartbeatDue = true;
    if (now < deadline) this.beatHalfWay(link, deadline, now);
  }

  /** Sends the next heartbeat at the latest when half of what is left until the deadline is gone. */
  beatHalfWay(link: Link, deadline: number, now: number): void {
    link.heartbeatAt = Math.min(link.heartbeatAt, now + Math.max((deadline - now) / 2, LEAST_PAUSE));
  }
}
