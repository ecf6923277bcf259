// SPDX-License-Identifier: Apache-2.0
//
// The state of a client: its waiting requests, its leases and their deadlines, and what the broker must be told. No
// clock and no IO: each call gets the time, and adds the program's callbacks to `effects`, which the caller runs. What
// it does is proto/distlock/v1/session.md.
//
// There are two links, each with a stream or none. New acquires go through the present link. When its broker drains and
// another one is known, the other link becomes the present one; leases follow by AdoptLease (moves.ts).
import {randomBytes} from 'node:crypto';
import {NEVER, SECOND} from './clock.js';
import {cutLabel, toWire} from './convert.js';
import type {Refusal} from './errors.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued} from './generated/distlock/v1/lock_service_pb.js';
import {type Answer, Lease, Link, type Move, Phase, Request, type TellOutcome} from './lease.js';
import {Timeouts} from './timeouts.js';
import type {Outcome} from './types.js';

// The broker ends a bounded wait. When it stays silent, the client does, this much later.
const ANSWER_GRACE = SECOND / 2;
const LEAST_WAIT = 1; // 0 would turn a bounded wait into one try
export const LEAST_PAUSE = 10;

/** A release that is not answered. Of two for one lease, at both of its sessions, the later answer ends both. */
export interface PendingRelease {
  tell: TellOutcome | undefined;
  link: Link;
  twin?: number;
  ofTwin?: Outcome;
}

export interface PendingDowngrade {
  tell: Answer;
  lease: Lease;
  link: Link | undefined; // undefined: not sent, because the lease is on its way
}

export interface TableSettings {
  address: string;
  brokers: number;
  label: string;
  unreachableAfter: number | undefined;
  connectTimeout: number;
}

export class TableBase {
  readonly links: [Link, Link] = [new Link(), new Link()];
  present: 0 | 1 = 0;
  readonly live = new Map<number, Lease>(); // by id, in any phase but ENDED
  readonly releases = new Map<number, PendingRelease>();
  readonly downgrades = new Map<number, PendingDowngrade>();
  readonly moves = new Map<number, Move>(); // that are sent, by the id of each hold's command
  readonly timeouts = new Timeouts();
  leftovers: {lease: Lease; requestId: string; lapsed: boolean}[] = []; // that ended while no session had them
  effects: (() => void)[] = [];
  closed = false;
  moving = false; // some lease is not at the present link
  wake = NEVER;
  leaseDeadline = NEVER;
  movesAt = NEVER;
  lastFailure: Refusal | undefined;
  nextId = 1;
  private readonly requestPrefix = randomBytes(16).toString('hex');
  protected sessions = 0; // opened so far

  constructor(readonly settings: TableSettings) {
    settings.label = cutLabel(settings.label);
  }

  get link(): Link {
    return this.links[this.present];
  }

  takeIds(count = 1): number {
    const first = this.nextId;
    this.nextId += count;
    return first;
  }

  wakeAt(at: number): void {
    if (at < this.wake) this.wake = at;
  }

  newRequest(specs: readonly LockSpec[], wait: number | undefined, now: number, answer: Answer,
    onQueued: ((queued: AcquireQueued) => void) | undefined): Request {
    const request = new Request(now, answer, onQueued);
    const first = this.takeIds(specs.length);
    request.leases = specs.map((spec, i) => new Lease(first + i, request, spec));
    request.oneTry = wait !== undefined && wait <= 0;
    if (wait !== undefined && wait > 0) request.waitUntil = now + wait;
    if (!request.oneTry) request.requestId = `${this.requestPrefix}${first}`;
    return request;
  }

  /** For how long a broker is looked for. */
  private patience(request: Request): number {
    if (this.settings.unreachableAfter !== undefined) return this.settings.unreachableAfter;
    if (request.oneTry) return SECOND;
    return request.waitUntil === NEVER ? 10 * SECOND : NEVER;
  }

  /** Sets when a waiting request is given up. */
  schedule(request: Request): void {
    const at = request.stranded === NEVER ? request.waitUntil + ANSWER_GRACE
      : Math.min(request.waitUntil, request.stranded + this.patience(request));
    this.timeouts.set(request, at);
    this.wakeAt(at);
  }

  strand(request: Request, now: number): void {
    request.link = undefined;
    for (const lease of request.leases) {
      lease.phase = Phase.WAITING;
      lease.link = undefined;
    }
    if (request.stranded === NEVER) request.stranded = now;
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

  refuse(request: Request, refusal: Refusal): void {
    for (const lease of request.leases) {
      this.live.delete(lease.id);
      lease.phase = Phase.ENDED;
    }
    this.answer(request, refusal);
  }

  answer(request: Request, refusal: Refusal | undefined): void {
    const {answer} = request;
    this.timeouts.set(request, NEVER);
    if (answer === undefined) return;
    request.answer = undefined;
    this.effects.push(() => { answer(refusal); });
  }

  /** Tells the broker that this request is given up. Grants that are on their way go back by themselves. */
  withdraw(request: Request): void {
    const {link} = request;
    if (link === undefined || !link.streaming || link.leaving) return;
    if (link.drop(request.first.id)) return; // the broker has not heard of it
    for (const lease of request.leases) { // each: the grants of some may be on their way
      if (lease.phase === Phase.GRANTED) this.sendRelease(link, lease.id, false);
      else link.send(0, {$case: 'cancel', cancel: {acquireId: lease.id}});
    }
  }

  /** Sends a request through the present session, unless it must wait for something. */
  sendRequest(request: Request, now: number): void {
    const {link} = this;
    if (this.heldElsewhere(request)) return;
    const locks = request.leases.map(({spec}) => spec);
    for (const spec of locks) {
      if (request.oneTry) spec.maxWait = toWire(0);
      else if (request.waitUntil !== NEVER) spec.maxWait = toWire(Math.max(request.waitUntil - now, LEAST_WAIT));
    }
    const acquire = {locks, requestId: request.requestId};
    if (link.send(request.first.id, {$case: 'acquire', acquire})) {
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
    if (!this.moving || !asked.reentrant) return false;
    return [...this.live.values()].some(({phase, link, spec}) => phase === Phase.HELD && link !== this.link
      && spec.reentrant && spec.key === asked.key && spec.owner === asked.owner && spec.namespace === asked.namespace);
  }

  sendHeldBack(now: number): void {
    if (!this.link.streaming || this.link.leaving) return;
    for (const request of this.waiting()) {
      if (request.link === undefined) this.sendRequest(request, now);
    }
  }

  /** Returns the id of the release. */
  sendRelease(link: Link, acquireId: number, lapsed: boolean, tell?: TellOutcome): number {
    const id = this.takeIds();
    link.send(id, {$case: 'release', release: {acquireId, leaseId: '', lapsed}});
    this.releases.set(id, {tell, link});
    return id;
  }

  /** Releases the lease at every session that may have it. Does not end it. */
  giveBack(lease: Lease, lapsed: boolean, tell?: TellOutcome): void {
    const {link, move} = lease;
    const here = link === undefined ? 0 : this.sendRelease(link, lease.id, lapsed, tell);
    let there = 0;
    if (move?.through !== undefined) {
      const index = move.holds.indexOf(lease);
      there = this.sendRelease(move.through, move.id + index, lapsed, here === 0 ? tell : undefined);
      move.holds[index] = undefined;
    }
    if (here !== 0 && there !== 0) {
      (this.releases.get(here) as PendingRelease).twin = there;
      (this.releases.get(there) as PendingRelease).twin = here;
    } else if (here === 0 && there === 0 && tell !== undefined) {
      this.effects.push(() => { tell('UNKNOWN'); });
    }
  }

  /** Final. `tell`: the program is told of a loss. */
  end(lease: Lease, cause: string, message: string, tell = true): void {
    this.live.delete(lease.id);
    lease.phase = Phase.ENDED;
    lease.cause = cause;
    lease.message = message;
    lease.move = undefined;
    const ended: Refusal = {reason: 'NOT_HOLDER', message: 'the lock has ended'};
    for (const [id, waits] of this.downgrades) {
      if (waits.link !== undefined || waits.lease !== lease) continue;
      this.downgrades.delete(id);
      this.effects.push(() => { waits.tell(ended); });
    }
    if (this.moving && lease.spec.reentrant) { // an acquire of that owner may have waited for its arrival
      this.movesAt = 0;
      this.wakeAt(0);
    }
    this.tellChange(lease, ended);
    if (tell) this.effects.push(...lease.onEnd);
    lease.onEnd = [];
  }

  /** What others are to see of the lease is shown now, or will not be. */
  tellChange(lease: Lease, refusal: Refusal | undefined): void {
    for (const tell of lease.change?.told ?? []) this.effects.push(() => { tell(refusal); });
    lease.change = undefined;
  }

  /** Ends a held lease that is not released by the program, and sees that the broker frees it. */
  lose(lease: Lease, cause: string, message: string): void {
    this.giveBack(lease, true);
    this.end(lease, cause, message);
  }

  /** Before a lease ends: when no session can release it, the next one adopts it and releases it then. */
  rememberLeftover(lease: Lease, lapsed: boolean): void {
    if (lease.link !== undefined || lease.move?.through !== undefined) return;
    if (this.holdsOf(lease).length > 1) return; // the others move it
    this.leftovers.push({lease, requestId: lease.move?.requestId ?? randomBytes(16).toString('hex'), lapsed});
  }

  /** Ends the lease if its deadline has passed. True: it is still held. */
  notice(lease: Lease, now: number): boolean {
    if (lease.phase !== Phase.HELD) return false;
    if (now < lease.deadline) return true;
    this.rememberLeftover(lease, true);
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

  holdsOf(lease: Lease): Lease[] {
    if (!lease.spec.reentrant) return [lease];
    return [...this.live.values()].filter(other => other.phase === Phase.HELD && lease.same(other));
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
    this.wakeAt(link.heartbeatAt);
  }

  unreachable(since: number, now: number): Refusal {
    const failure = this.lastFailure;
    const told = ['DRAINING', 'QUOTA_EXCEEDED', 'STORE_UNAVAILABLE', 'QUORUM_NOT_REACHED'];
    const reason = failure !== undefined && told.includes(failure.reason) ? failure.reason : 'UNREACHABLE';
    const why = failure === undefined || failure.message === '' ? '' : `: ${failure.message}`;
    const waited = now - since;
    const where = `no broker at ${this.settings.address} took it within ${Math.floor(waited)} ms${why}`;
    return {reason, waited, message: `${where}; check that distlockd runs there, or set DISTLOCK_SERVER`};
  }
}
