// SPDX-License-Identifier: Apache-2.0
//
// What the lock table does with each event of a session, and with the session's end.
import {NEVER, SECOND} from './clock.js';
import {fromWire, lostReasonOf, outcomeOf, refusalOf} from './convert.js';
import type {Refusal} from './errors.js';
import {type Grant, LostReason, type Refusal as WireRefusal} from './generated/distlock/v1/lock_pb.js';
import type {HeartbeatAck, LeaseLost, SessionEvent, SessionOpened} from './generated/distlock/v1/lock_service_pb.js';
import {type Lease, type Link, MOST_AHEAD, Phase, type Request} from './lease.js';
import {MovingTable} from './moves.js';
import {LEAST_PAUSE} from './table_base.js';
import type {Outcome} from './types.js';

const DEFAULT_VALIDITY = 3 * SECOND;
export const PERMANENT = ['INVALID_ARGUMENT', 'NOT_SUPPORTED', 'UNAUTHENTICATED', 'PERMISSION_DENIED', 'FOREIGN_KEY'];

export abstract class ListeningTable extends MovingTable {
  /** Events that are not known are ignored. */
  onEvent(link: Link, {id, event}: SessionEvent, now: number): void {
    link.onEvent(id);
    switch (event?.$case) {
      case 'granted': this.onGranted(link, id, event.granted, now); break;
      case 'released': this.onReleased(link, id, outcomeOf(event.released.outcome)); break;
      case 'heartbeatAck': this.onAck(link, event.heartbeatAck, now); break;
      case 'refused': this.onRefused(link, id, event.refused, now); break;
      case 'lost': this.onLost(link, id, event.lost, now); break;
      case 'opened': this.onOpened(link, event.opened, now); break;
      case 'draining': this.onDraining(link, fromWire(event.draining.timeLeft), now); break;
      case 'downgraded': this.onDowngraded(id, undefined, now); break;
      default: this.onNews(link, id, event);
    }
  }

  private onNews(link: Link, id: number, event: SessionEvent['event']): void {
    const lease = this.live.get(id);
    if (lease?.link !== link) return;
    if (event?.$case === 'atRisk') {
      lease.risk = event.atRisk.cause;
    } else if (event?.$case === 'renewed') {
      lease.risk = undefined;
    } else if (event?.$case === 'queued') {
      const {request} = lease;
      this.hasArrived(lease);
      request.stranded = NEVER;
      request.turnedAway = false;
      this.schedule(request);
      const {onQueued} = request;
      if (onQueued !== undefined) this.effects.push(() => { onQueued(event.queued); });
    }
  }

  private onOpened(link: Link, opened: SessionOpened, now: number): void {
    link.opened = true;
    link.onEvent(0);
    link.adopts = opened.features.includes('adopt');
    link.authenticates = opened.features.includes('authenticate');
    link.mostAhead = opened.maxUnanswered > 0 ? opened.maxUnanswered : MOST_AHEAD;
    link.brokerId = opened.brokerId;
    link.validity = fromWire(opened.validity) || DEFAULT_VALIDITY;
    link.interval = Math.max(fromWire(opened.heartbeatInterval) || link.validity / 3, LEAST_PAUSE);
    const sent = link.session.lastSentAt;
    link.session.ack(0, link.validity, now);
    link.heartbeatAt = sent + link.interval;
    if (now - sent > link.validity / 6) link.heartbeatDue = true;
    this.wakeAt(Math.min(link.heartbeatAt, link.session.deadline));
    link.maxBytes = opened.maxMessageBytes || link.maxBytes;
    if (link === this.link) this.sendMoves(now);
    for (const request of this.waiting()) {
      if (request.link !== link || request.turnedAway || request.stranded === NEVER) continue;
      request.stranded = NEVER;
      this.schedule(request);
    }
  }

  private onGranted(link: Link, id: number, grant: Grant, now: number): void {
    const lease = this.live.get(id);
    if (lease === undefined) {
      if (!this.onAdopted(link, id, grant, now) && link !== this.link) this.grantByFormer(link, id, undefined);
      return; // else: an id that was given up
    }
    if (link !== this.link && lease.link !== link) {
      this.grantByFormer(link, id, lease);
      return;
    }
    if (lease.link !== link || lease.phase !== Phase.WAITING) return;
    lease.former = undefined;
    lease.crossed = false;
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
    this.timeouts.set(request, NEVER); // no answer is missing any more
    if (request.leases.some(lease => lease.phase !== Phase.GRANTED || now >= lease.deadline)) return;
    for (const lease of request.leases) {
      lease.phase = Phase.HELD;
      this.leaseDeadline = Math.min(this.leaseDeadline, lease.deadline);
    }
    this.wakeAt(this.leaseDeadline);
    this.answer(request, undefined);
  }

  private onAck(link: Link, ack: HeartbeatAck, now: number): void {
    const validFor = fromWire(ack.validFor);
    if (!link.session.ack(ack.seq, validFor, now)) return;
    link.acked = true;
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
      if (lease.phase === Phase.HELD) this.notice(lease, now);
      else this.deliver(lease.request, now);
      if (lease.phase !== Phase.ENDED) first = Math.min(first, lease.deadline);
    }
    this.sweep(now);
    // A lease with a short ttl needs its next ack before the interval is over.
    if (first !== NEVER) this.beatHalfWay(link, first, now);
  }

  private onRefused(link: Link, id: number, refused: WireRefusal, now: number): void {
    if (id === link.proof) link.proofRefused = true;
    const refusal = refusalOf(refused);
    const lease = this.live.get(id);
    if (lease === undefined) {
      if (this.onNotAdopted(link, id, refusal, now) || this.onDowngraded(id, refusal, now)) return;
      this.onReleased(link, id, refusal.reason === 'NOT_HOLDER' ? 'ALREADY_GONE' : 'UNKNOWN');
      return;
    }
    if (lease.former === link) {
      lease.former = undefined;
      lease.crossed = false;
    }
    if (lease.link !== link || lease.phase === Phase.HELD) return;
    if (refusal.reason === 'DRAINING' && this.turnAway(link, lease.request, refusal, now)) return;
    this.refuse(lease.request, refusal);
  }

  /** The broker drains: has the request ask another one. False: the refusal is the answer. */
  private turnAway(link: Link, request: Request, refusal: Refusal, now: number): boolean {
    const alone = this.settings.brokers === 1;
    if (alone && [...this.live.values()].some(lease => lease.phase === Phase.HELD && lease.link === link)) return false;
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

  private onReleased(link: Link, id: number, outcome: Outcome): void {
    const answered = this.releases.get(id);
    if (answered === undefined) {
      this.onReleasedByOthers(link, id);
      return;
    }
    this.releases.delete(id);
    const twin = answered.twin === undefined ? undefined : this.releases.get(answered.twin);
    if (twin !== undefined) {
      twin.tell ??= answered.tell;
      twin.ofTwin = outcome;
      return;
    }
    // Only one of the sessions had the lease.
    const other = answered.ofTwin;
    const told = other === 'RELEASED' || (other !== undefined && outcome === 'ALREADY_GONE') ? other : outcome;
    const {tell} = answered;
    if (tell !== undefined) this.effects.push(() => { tell(told); });
  }

  /** Under the acquire's own id: another program that knows the lease_id has released the lease. */
  private onReleasedByOthers(link: Link, id: number): void {
    const lease = this.live.get(id);
    if (lease?.link !== link) return;
    if (lease.phase === Phase.HELD) {
      lease.link = undefined; // this session has nothing to give back
      this.lose(lease, 'RELEASED', 'released by its lease_id');
    } else if (lease.phase === Phase.GRANTED) {
      this.loseBeforeUse(lease, 'released by its lease_id');
    }
  }

  private onDowngraded(id: number, refusal: Refusal | undefined, now: number): boolean {
    const found = this.downgrades.get(id);
    if (found?.link === undefined) return false;
    this.downgrades.delete(id);
    for (const hold of this.holdsOf(found.lease)) {
      if (refusal === undefined) hold.downgraded = true;
      else hold.modeUnsure = true;
    }
    this.effects.push(() => { found.tell(refusal); });
    if (this.moving) this.sendMoves(now);
    return true;
  }

  private onLost(link: Link, id: number, lost: LeaseLost, now: number): void {
    const lease = this.live.get(id);
    if (lease?.link !== link) return;
    if (lease.phase !== Phase.HELD) {
      this.loseBeforeUse(lease, lost.message);
    } else if (lost.reason === LostReason.MOVED && lease.move !== undefined) {
      lease.link = undefined; // by the move that is under way: no later ack of this session speaks for the lease
    } else if (lost.reason === LostReason.DRAINED && this.survives(lease, now)) {
      this.orphan(lease, lost.message);
    } else {
      lease.link = undefined; // this session has nothing to give back
      this.lose(lease, lostReasonOf(lost.reason), lost.message);
    }
  }

  private loseBeforeUse(lease: Lease, how: string): void {
    lease.phase = Phase.ENDED;
    for (const other of lease.request.leases) {
      if (other.phase === Phase.GRANTED && other.link !== undefined) this.sendRelease(other.link, other.id, false);
    }
    this.refuse(lease.request, {reason: 'LEASE_LOST', message: `lost before use: ${how}`});
  }

  /** The stream of this link has ended, or must end. */
  onBroken(link: Link, cause: string, why: string, now: number): void {
    for (const move of [...this.moves.values()]) if (move.through === link) this.endMove(move); // to be asked again
    for (const lease of [...this.live.values()]) {
      if (lease.link !== link || lease.phase !== Phase.HELD) continue;
      if (this.survives(lease, now)) {
        this.orphan(lease, why);
      } else {
        lease.link = undefined;
        this.lose(lease, now < lease.deadline ? cause : 'LAPSED', why);
      }
    }
    for (const lease of this.live.values()) {
      if (lease.former !== link) continue;
      lease.former = undefined;
      lease.crossed = false;
    }
    for (const request of this.waiting()) {
      if (request.link === link || (request.link === undefined && link === this.link)) this.strand(request, now);
    }
    link.end();
    for (const [id, pending] of [...this.releases]) if (pending.link === link) this.onReleased(link, id, 'UNKNOWN');
    for (const [id, pending] of [...this.downgrades]) {
      if (pending.link === link) this.onDowngraded(id, {reason: 'UNREACHABLE', message: why}, now);
    }
    this.moveOn(now);
  }

  /** Why a stream broke, as its status tells. */
  onStatus(why: Refusal): void {
    this.lastFailure = why;
    if (!PERMANENT.includes(why.reason)) return;
    for (const request of this.waiting()) if (request.link === undefined) this.refuse(request, why);
  }
}
