// SPDX-License-Identifier: Apache-2.0
//
// The lock table: what the program calls, and the timer. See table_base.ts.
import type {Refusal} from './errors.js';
import {ListeningTable} from './events.js';
import {NEVER} from './clock.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued} from './generated/distlock/v1/lock_service_pb.js';
import {type Answer, type Lease, type Link, Phase, type Request, type TellOutcome} from './lease.js';

/** Each request is answered once, and so is each release and downgrade that has a callback. */
export class LockTable extends ListeningTable {
  /** Takes all of `specs` or none. wait: milliseconds; 0: one try; undefined: until granted. */
  acquire(specs: readonly LockSpec[], wait: number | undefined, now: number, answer: Answer,
    onQueued?: (queued: AcquireQueued) => void): Request {
    const request = this.newRequest(specs, wait, now, answer, onQueued);
    if (this.closed) {
      this.refuse(request, {reason: 'CLIENT_CLOSED', message: 'the client was closed'});
      return request;
    }
    for (const lease of request.leases) this.live.set(lease.id, lease);
    if (!this.link.opened) request.stranded = now;
    if (this.link.streaming && !this.link.leaving) this.sendRequest(request, now);
    if (request.answer !== undefined) this.schedule(request);
    return request;
  }

  /** Withdraws a request, also one that is granted at this moment. */
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
      if (tell !== undefined) this.effects.push(() => { tell('ALREADY_GONE'); });
      return;
    }
    const believed = now < lease.deadline;
    this.rememberLeftover(lease, !believed);
    this.giveBack(lease, !believed, tell);
    if (believed) this.end(lease, 'GIVEN_BACK', '', false);
    else this.end(lease, 'LAPSED', 'released after its deadline');
  }

  /** Makes an exclusive lease shared. */
  downgrade(lease: Lease, tell: Answer): void {
    if (lease.phase !== Phase.HELD || lease.link?.leaving === true) {
      this.effects.push(() => { tell({reason: 'NOT_HOLDER', message: 'the lock has ended'}); });
      return;
    }
    this.downgrades.set(this.takeIds(), {tell, lease, link: undefined});
    this.sendDowngrades(lease);
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
    link.send(this.takeIds(), {$case: 'open', open});
    this.sessions += 1;
    this.wakeAt(link.session.deadline);
    for (const lease of this.live.values()) lease.stays = false;
    this.sendHeldBack(now);
  }

  /** Shows another token to the session's broker. The answer changes nothing here. */
  authenticate(link: Link, authorization: string): void {
    if (!link.authenticates || !link.streaming || link.leaving) return;
    link.proof = this.takeIds();
    link.proofRefused = false;
    link.send(link.proof, {$case: 'authenticate', authenticate: {authorization}});
  }

  /** The broker has not been heard for too long: the stream must be ended. */
  lapsed(link: Link, now: number): boolean {
    return link.streaming && link.session.lapsed(now);
  }

  /** The next message for this link's stream, or undefined. */
  pack(link: Link, now: number): Uint8Array | undefined {
    if (link !== this.link) this.leaveWhenEmpty(link);
    return link.pack(now);
  }

  /** Renewals fail, its stream broke, or the broker leaves a heartbeat unanswered for too long. */
  atRisk(lease: Lease, now: number): boolean {
    return lease.risk !== undefined || (lease.link?.session.overdue(lease.deadline, now) ?? false);
  }

  /** Whether nothing is held, waited for, or to be answered by a broker. */
  get idle(): boolean {
    return this.live.size === 0 && this.releases.size === 0 && this.downgrades.size === 0
      && this.leftovers.length === 0 && this.links.every(link => link.empty);
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

  /** Handles timeouts, deadlines and heartbeats. Due at `wake`; earlier calls are harmless. */
  tick(now: number): void {
    if (now >= this.leaseDeadline) this.sweep(now);
    if (now >= this.movesAt) this.sendMoves(now);
    for (let request = this.timeouts.due(now); request !== undefined; request = this.timeouts.due(now)) {
      this.timeOut(request, now);
    }
    this.wake = Math.min(this.leaseDeadline, this.movesAt, this.timeouts.next);
    for (const link of this.links) if (link.streaming) this.beat(link, now);
  }

  private beat(link: Link, now: number): void {
    this.wakeAt(link.session.deadline);
    if (!link.opened || link.leaving) return;
    if (now >= link.heartbeatAt) {
      link.heartbeatDue = true;
      link.heartbeatAt = now + link.interval;
    }
    this.wakeAt(link.heartbeatAt);
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
