// SPDX-License-Identifier: Apache-2.0
//
// What the lock table does with each event of a session, and with the session's end.
import {NEVER, SECOND} from './clock.js';
import {fromWire, lostReasonOf, outcomeOf, refusalOf} from './convert.js';
import type {Refusal} from './errors.js';
import {type Grant, LostReason, type Refusal as WireRefusal} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued, HeartbeatAck, LeaseLost, SessionEvent, SessionOpened,
} from './generated/distlock/v1/lock_service_pb.js';
import {type Lease, Phase, type Request} from './lease.js';
import {Link, MOST_AHEAD} from './link.js';
import {MovingTable} from './moves.js';
import {LEAST_PAUSE} from './table_base.js';

const DEFAULT_VALIDITY = 3 * SECOND;
export const PERMANENT = ['INVALID_ARGUMENT', 'NOT_SUPPORTED', 'UNAUTHENTICATED', 'PERMISSION_DENIED', 'FOREIGN_KEY'];

export abstract class ListeningTable extends MovingTable {
  /** Events that are not known are ignored. */
  onEvent(link: Link, {id, event}: SessionEvent, now: number): void {
    link.onEvent(id);
    const found = this.live.get(id);
    const lease = found?.link === link ? found : undefined;
    switch (event?.$case) {
      case 'granted': this.onGranted(link, id, event.granted, now); break;
      case 'released': this.onReleased(lease, id, event.released.outcome, now); break;
      case 'heartbeatAck': this.onAck(link, event.heartbeatAck, now); break;
      case 'refused': this.onRefused(link, id, event.refused, now); break;
      case 'lost': this.onLost(lease, event.lost, now); break;
      case 'opened': this.onOpened(link, event.opened, now); break;
      case 'draining': this.onDraining(link, fromWire(event.draining.timeLeft), now); break;
      case 'downgraded': this.reply(id, undefined, now); break;
      case 'queued': this.onQueued(lease, event.queued); break;
      case 'atRisk': if (lease !== undefined) lease.risk = event.atRisk.cause; break;
      case 'renewed': if (lease !== undefined) lease.risk = undefined; break;
      default:
    }
  }

  private onOpened(link: Link, opened: SessionOpened, now: number): void {
    link.opened = true;
    link.onEvent(0);
    link.adopts = opened.features.includes('adopt');
    link.authenticates = opened.features.includes('authenticate');
    link.mostAhead = opened.maxUnanswered > 0 ? opened.maxUnanswered : MOST_AHEAD;
    link.maxBytes = opened.maxMessageBytes || link.maxBytes;
    link.validity = fromWire(opened.validity) || DEFAULT_VALIDITY;
    link.interval = Math.max(fromWire(opened.heartbeatInterval) || link.validity / 3, LEAST_PAUSE);
    const sent = link.session.lastSentAt;
    link.session.ack(0, link.validity, now);
    link.heartbeatAt = sent + link.interval;
    if (now - sent > link.validity / 6) link.heartbeatDue = true;
    if (link === this.link) this.sendMoves(now);
    for (const request of this.waiting()) {
      if (request.link !== link || request.turnedAway || request.stranded === NEVER) continue;
      request.stranded = NEVER;
      this.schedule(request);
    }
  }

  private onQueued(lease: Lease | undefined, queued: AcquireQueued): void {
    if (lease === undefined) return;
    const {request} = lease;
    this.hasArrived(lease);
    request.stranded = NEVER;
    request.turnedAway = false;
    this.schedule(request);
    this.tell(request.onQueued, queued);
  }

  private onGranted(link: Link, id: number, grant: Grant, now: number): void {
    const [moved, lease] = [this.moves.get(id), this.live.get(id)];
    if (moved !== undefined) {
      this.onAdopted(link, moved, grant, now);
    } else if (lease?.link !== link) { // an adoption to give back, or an id that was given up
      if (!this.reply(id, undefined, now) && link !== this.link) this.grantByFormer(link, id, lease);
    } else if (lease.phase === Phase.WAITING) {
      this.take(link, lease, grant, now);
    }
  }

  private take(link: Link, lease: Lease, grant: Grant, now: number): void {
    lease.former = undefined;
    lease.leaseId = grant.leaseId;
    lease.holderId = grant.holderId;
    lease.token = grant.fencingToken;
    lease.waited = fromWire(grant.waited);
    lease.holdCount = Math.max(grant.holdCount, 1);
    lease.deadline = link.session.deadlineOf(grant.echoSeq, fromWire(grant.validFor));
    lease.phase = Phase.GRANTED;
    this.askForHeartbeat(link, lease.deadline, now);
    this.deliver(lease.request, now);
  }

  /** Hands a request's locks to the program, when all are granted and none is past its deadline. */
  private deliver(request: Request, now: number): void {
    request.giveUpAt = NEVER; // no answer is missing any more
    if (request.leases.some(lease => lease.phase !== Phase.GRANTED || now >= lease.deadline)) return;
    for (const lease of request.leases) {
      lease.phase = Phase.HELD;
      this.leaseDeadline = Math.min(this.leaseDeadline, lease.deadline);
    }
    this.answer(request, undefined);
  }

  private onAck(link: Link, ack: HeartbeatAck, now: number): void {
    const validFor = fromWire(ack.validFor);
    if (!link.session.ack(ack.seq, validFor, now)) return;
    this.lastFailure = undefined;
    const limits = new Map(ack.limits.map(limit => [limit.acquireId, fromWire(limit.validFor)]));
    const promised = link.session.deadlineOf(ack.seq, validFor);
    let first = NEVER;
    for (const lease of [...this.live.values()]) {
      if (lease.link !== link || lease.phase === Phase.WAITING) continue;
      if (lease.phase === Phase.HELD && !this.notice(lease, now)) continue; // its deadline was final
      const limit = limits.get(lease.id);
      if (limit !== undefined) lease.deadline = link.session.deadlineOf(ack.seq, limit);
      else lease.deadline = Math.max(lease.deadline, promised);
      if (lease.phase === Phase.GRANTED) this.deliver(lease.request, now);
      first = Math.min(first, lease.deadline);
    }
    this.sweep(now);
    // A lease with a short ttl needs its next ack before the interval is over.
    if (first !== NEVER) this.beatHalfWay(link, first, now);
  }

  private onRefused(link: Link, id: number, refused: WireRefusal, now: number): void {
    if (id === link.proof) link.shown = undefined;
    const refusal = refusalOf(refused);
    const [moved, lease] = [this.moves.get(id), this.live.get(id)];
    if (moved !== undefined) {
      this.onNotAdopted(link, moved, refusal, now);
    } else if (lease === undefined) {
      this.reply(id, refusal, now);
    } else {
      if (lease.former === link) lease.former = undefined;
      if (lease.link !== link || lease.phase === Phase.HELD) return;
      if (refusal.reason === 'DRAINING' && this.turnAway(link, lease.request, refusal, now)) return;
      this.refuse(lease.request, refusal);
    }
  }

  /** The broker drains: has the request ask another one. False: the refusal is the answer. */
  private turnAway(link: Link, request: Request, refusal: Refusal, now: number): boolean {
    const alone = this.settings.brokers === 1;
    if (alone && this.held().some(lease => lease.link === link)) return false;
    this.lastFailure = refusal;
    request.turnedAway = true;
    this.strand(request, now);
    if (alone) {
      this.leave(link);
      return true;
    }
    link.draining = true;
    this.moveOn(now);
    if (link !== this.link && this.link.streaming) this.sendRequest(request, now);
    return true;
  }

  private onReleased(lease: Lease | undefined, id: number, outcome: number, now: number): void {
    // Under the acquire's own id: another program that knows the lease_id has released the lease.
    if (!this.reply(id, outcomeOf(outcome), now)) this.onGone(lease, 'RELEASED', 'released by its lease_id');
  }

  private onLost(lease: Lease | undefined, {reason, message}: LeaseLost, now: number): void {
    if (lease?.phase === Phase.HELD && reason === LostReason.MOVED && lease.moveKey !== '') {
      lease.link = undefined; // by the move that is under way: no later ack of this session speaks for the lease
    } else if (lease?.phase === Phase.HELD && reason === LostReason.DRAINED && this.survives(lease, now)) {
      this.orphan(lease, message);
    } else {
      this.onGone(lease, lostReasonOf(reason), message);
    }
  }

  private onGone(lease: Lease | undefined, cause: string, message: string): void {
    if (lease?.phase === Phase.HELD) {
      this.lose(lease, cause, message, true);
    } else if (lease?.phase === Phase.GRANTED) {
      this.withdraw(lease.request, lease);
      this.refuse(lease.request, {reason: 'LEASE_LOST', message: `lost before use: ${message}`});
    }
  }

  /** The stream of this link has ended, or must end. */
  onBroken(link: Link, cause: string, why: string, now: number): void {
    const left = link.leaving;
    for (const lease of [...this.live.values()]) {
      if (lease.to === link) this.unaskMove(lease); // to be asked again
      if (lease.former === link) lease.former = undefined;
    }
    for (const lease of this.held()) {
      if (lease.link !== link) continue;
      if (this.survives(lease, now)) this.orphan(lease, why);
      else this.lose(lease, now < lease.deadline ? cause : 'LAPSED', why, true);
    }
    for (const request of this.waiting()) {
      if (request.link === link || (request.link === undefined && link === this.link)) this.strand(request, now);
    }
    this.links[link === this.links[0] ? 0 : 1] = new Link();
    const gone: Refusal = {reason: left ? 'NOT_HOLDER' : 'UNREACHABLE', message: why};
    for (const [id, asked] of [...this.asked]) if (asked.link === link) this.reply(id, gone, now);
    this.moveOn(now);
  }

  /** Why a stream broke, as its status tells. */
  onStatus(why: Refusal): void {
    this.lastFailure = why;
    if (!PERMANENT.includes(why.reason)) return;
    for (const request of this.waiting()) if (request.link === undefined) this.refuse(request, why);
  }
}
