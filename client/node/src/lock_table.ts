// SPDX-License-Identifier: Apache-2.0
//
// The lock table: what the program asks of it, and the timer. See table_base.ts.
import {NEVER} from './clock.js';
import type {Refusal} from './errors.js';
import {ListeningTable} from './events.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import {type Answer, Change, Lease, Phase, Request, type TellOutcome, type TellQueued} from './lease.js';
import type {Link} from './link.js';
import {LEAST_PAUSE, OVER} from './table_base.js';

/** Each request is answered once, and so is each release, downgrade and change that has a callback. */
export class LockTable extends ListeningTable {
  /** Takes all of `specs` or none. wait: milliseconds; 0: one try; undefined: until granted. */
  acquire(specs: readonly LockSpec[], wait: number | undefined, now: number, answer: Answer,
    onQueued?: TellQueued): Request {
    const request = new Request(now, answer, onQueued);
    const first = this.takeIds(specs.length);
    request.leases = specs.map((spec, i) => new Lease(first + i, request, spec));
    request.oneTry = wait !== undefined && wait <= 0;
    if (!request.oneTry) {
      request.requestId = `${this.requestPrefix}${first}`;
      request.waitUntil = wait === undefined ? NEVER : now + wait;
    }
    for (const lease of request.leases) this.live.set(lease.id, lease);
    if (!this.link.opened) request.stranded = now;
    if (this.link.streaming && !this.link.leaving) this.sendRequest(request, now);
    this.schedule(request);
    return request;
  }

  /** Nobody wants this request any more: withdraws it, or gives back what it was granted. */
  cancel(request: Request, now: number): void {
    if (request.answer === undefined) {
      for (const lease of request.leases) this.release(lease, undefined, now);
      return;
    }
    this.withdraw(request);
    this.refuse(request, {reason: 'CANCELLED', message: 'withdrawn by the caller'});
  }

  /** Gives a lease back. It ends for the program at once; `tell` hears the broker's answer. */
  release(lease: Lease, tell: TellOutcome | undefined, now: number): void {
    if (lease.phase !== Phase.HELD) {
      this.tell(tell, 'ALREADY_GONE');
      return;
    }
    const believed = now < lease.deadline;
    this.giveBack(lease, !believed, tell);
    if (believed) this.end(lease, 'GIVEN_BACK', '', false);
    else this.end(lease, 'LAPSED', 'released after its deadline');
  }

  /** Makes an exclusive lease shared. */
  downgrade(lease: Lease, tell: Answer): void {
    if (!this.isKept(lease, tell)) return;
    lease.downgrades.push(tell);
    this.sendDowngrades(lease);
  }

  private isKept(lease: Lease, tell: Answer, unable = ''): boolean {
    const ended = lease.phase !== Phase.HELD;
    if (!ended && unable === '') return true;
    this.tell(tell, ended ? OVER : {reason: 'NOT_SUPPORTED', message: unable});
    return false;
  }

  /** Changes what others see of a held lease: its session adopts it anew. */
  proclaim(lease: Lease, metadata: Record<string, string>, tell: Answer, now: number): void {
    const old = lease.stays || lease.link?.adopts === false;
    if (!this.isKept(lease, tell, lease.spec.reentrant
      ? 'the lock is reentrant: what is shown of its holds cannot change'
      : old ? 'the broker is too old to change what is shown of a lock' : '')) return;
    const spec = {...lease.spec, metadata: {...lease.spec.metadata, ...metadata}};
    lease.change ??= new Change(spec);
    lease.change.spec = spec;
    lease.change.told.push(tell);
    this.moveAt(now);
  }

  /** Gives all back and refuses what waits. */
  close(now: number): void {
    this.closed = true;
    const closed = 'the client was closed';
    for (const request of this.waiting()) {
      this.refuse(request, {reason: 'CLIENT_CLOSED', message: `${closed} while this waited`});
    }
    for (const lease of [...this.live.values()]) {
      this.end(lease, now < lease.deadline ? 'CLIENT_CLOSED' : 'LAPSED', closed);
    }
    for (const link of this.links) if (link.streaming && !link.leaving) this.leave(link);
  }

  /** The present link has a new stream. */
  start(now: number): void {
    const {link} = this;
    link.start(now, this.settings.connectTimeout);
    // Node cannot show that it is the process at the socket: no claim.
    const open = {client: this.settings.label, generation: this.sessions, process: undefined};
    this.sessions += 1;
    link.send(this.takeIds(), {$case: 'open', open});
    for (const lease of this.live.values()) lease.stays = false;
    this.sendHeldBack(now);
  }

  /** Shows the broker another token than that of the call. */
  authenticate(link: Link, authorization: string): void {
    if (!link.authenticates || !link.streaming || link.leaving) return;
    link.proof = this.takeIds();
    link.shown = authorization;
    link.send(link.proof, {$case: 'authenticate', authenticate: {authorization}});
  }

  /** The broker has not been heard for too long: the stream must be ended. */
  lapsed(link: Link, now: number): boolean {
    return link.streaming && link.session.lapsed(now);
  }

  /** The next message for this link's stream, or undefined. */
  pack(link: Link, now: number): Uint8Array | undefined {
    this.leaveWhenEmpty(link);
    return link.pack(now);
  }

  /** Renewals fail, its stream broke, or the broker leaves a heartbeat unanswered for too long. */
  atRisk(lease: Lease, now: number): boolean {
    return lease.risk !== undefined || (lease.link?.session.overdue(lease.deadline, now) ?? false);
  }

  /** Whether nothing is held, waited for, or to be answered by a broker that is there. */
  get idle(): boolean {
    return this.live.size === 0 && this.asked.size === 0 && this.links.every(link => link.empty);
  }

  /** The clock has jumped ahead, which ends belief. Waits are not to end by it; some may have begun behind the jump. */
  prolongWaits(by: number, now: number): void {
    for (const request of this.waiting()) {
      const felt = Math.min(by, now - request.asked);
      request.asked += felt;
      request.waitUntil += felt;
      if (request.stranded !== NEVER) request.stranded = Math.min(request.stranded + by, now);
      this.schedule(request);
    }
  }

  /** When tick() is to be called. */
  get due(): number {
    return Math.min(this.leaseDeadline, this.movesAt, this.requestsAt, this.links[0].due, this.links[1].due);
  }

  /** Handles timeouts, deadlines and heartbeats. Calls before `due` are harmless. */
  tick(now: number): void {
    if (now >= this.leaseDeadline) this.sweep(now);
    if (now >= this.movesAt) this.sendMoves(now);
    if (now >= this.requestsAt) this.giveUp(now);
    for (const link of this.links) {
      if (now < link.heartbeatAt || !link.opened || link.leaving) continue;
      link.heartbeatDue = true;
      link.heartbeatAt = now + link.interval;
    }
  }

  /** Ends the requests whose time is over. Thousands may have times that are close to each other: not one by one. */
  private giveUp(now: number): void {
    this.requestsAt = NEVER;
    for (const request of this.waiting()) {
      if (now >= request.giveUpAt) this.timeOut(request, now);
      else this.requestsAt = Math.min(this.requestsAt, Math.max(request.giveUpAt, now + LEAST_PAUSE));
    }
  }

  private timeOut(request: Request, now: number): void {
    let refusal: Refusal;
    if (request.stranded !== NEVER) {
      refusal = this.unreachable(request.stranded, now);
    } else {
      const wait = ((request.waitUntil - request.asked) / 1000).toFixed(3);
      const message = `no answer within the wait of ${wait} s`;
      refusal = {reason: 'WAIT_TIMEOUT', message, waited: now - request.asked};
    }
    this.withdraw(request);
    this.refuse(request, refusal);
  }
}
