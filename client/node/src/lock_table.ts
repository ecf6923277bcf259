// SPDX-License-Identifier: Apache-2.0
//
// The lock table: what the program asks of it, the timer, and the events of sessions. See table_base.ts.
import {NEVER, SECOND} from './clock.js';
import {cutLabel, fromWire, lostReasonOf, outcomeOf, refusalOf} from './convert.js';
import {PERMANENT, type Refusal} from './errors.js';
import {type Grant, type LockSpec, LostReason, type Refusal as WireRefusal} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued, HeartbeatAck, LeaseLost, SessionEvent, SessionOpened,
} from './generated/distlock/v1/lock_service_pb.js';
import {type Answer, Lease, Link, MOST_AHEAD, Phase, Request, type TellOutcome, type TellQueued} from './lease.js';
import {MovingTable} from './moves.js';
import {LEAST_PAUSE, OVER} from './table_base.js';

const DEFAULT_VALIDITY = 3 * SECOND;

/** Each request is answered once, and so is each release, downgrade and change that has a callback. */
export class LockTable extends MovingTable {
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
    this.sendRequest(request, now);
    this.schedule(request);
    return request;
  }

  /** Ends a request that is unwanted now: withdraws it, or gives back what it was granted. */
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
    lease.change = {...lease.change, spec, told: [...lease.change?.told ?? [], tell]};
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
    const open = {client: cutLabel(this.settings.label), generation: this.sessions, process: undefined};
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

  /** The next message for this link's stream, or undefined. */
  pack(link: Link, now: number): Buffer | undefined {
    if (link === this.former && !link.leaving) this.leaveWhenEmpty(link);
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

  /** Whether nothing is held, waited for, or on its way back. */
  get drained(): boolean {
    return this.live.size === 0 && this.asked.size === 0 && this.leftovers.length === 0;
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
    return Math.min(this.leaseDeadline, this.movesAt, this.requestsAt, ...this.links.map(link => link.due));
  }

  /** Handles timeouts, deadlines and heartbeats. Calls before `due` are harmless. */
  tick(now: number): void {
    if (now >= this.leaseDeadline) this.sweep(now);
    if (now >= this.movesAt) this.sendMoves(now);
    if (now >= this.requestsAt) this.giveUp(now);
    for (const link of this.links) link.heartbeatDue ||= now >= link.heartbeatAt && !link.leaving;
  }

  /** Ends the requests whose time is over. Thousands may have times that are close to each other: not one by one. */
  private giveUp(now: number): void {
    this.requestsAt = NEVER;
    for (const request of this.waiting()) {
      const {giveUpAt, stranded, asked, waitUntil} = request;
      if (now < giveUpAt) {
        this.requestsAt = Math.min(this.requestsAt, Math.max(giveUpAt, now + LEAST_PAUSE));
        continue;
      }
      const message = `no answer within the wait of ${((waitUntil - asked) / SECOND).toFixed(3)} s`;
      this.withdraw(request);
      this.refuse(request, stranded !== NEVER ? this.unreachable(stranded, now)
        : {reason: 'WAIT_TIMEOUT', message, waited: now - asked});
    }
  }

  /** Events that are not known are ignored. */
  onEvent(link: Link, {id, event}: SessionEvent, now: number): void {
    link.onEvent(id);
    const found = this.live.get(id);
    const lease = found?.link === link ? found : undefined;
    switch (event?.$case) {
      case 'granted': this.onGranted(link, id, event.granted, now); break;
      case 'released': // under the acquire's own id: another program that knows the lease_id has released the lease
        if (this.reply(id, outcomeOf(event.released.outcome), now)) break;
        this.onGone(lease, 'RELEASED', 'released by its lease_id');
        break;
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
    link.store = opened.storeId;
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
    lease.store = link.store;
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
    this.tell(request.answer, undefined);
    request.answer = undefined;
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
      if (now < lease.deadline) first = Math.min(first, lease.deadline); // what is over needs no further ack
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
    if (alone) this.leave(link);
    link.draining = true;
    this.moveOn(now);
    if (link !== this.link) this.sendRequest(request, now);
    return true;
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
      // A broker that adopted it may keep the lock after max_hold for a former promise, until its client says that
      // belief has ended.
      this.lose(lease, cause, message, cause !== 'MAX_HOLD');
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
      if (lease.phase !== Phase.HELD || lease.link !== link) continue;
      if (this.survives(lease, now)) this.orphan(lease, why);
      else this.lose(lease, now < lease.deadline ? cause : 'LAPSED', why, true);
    }
    for (const request of this.waiting()) {
      if (request.link === link || (request.link === undefined && link === this.link)) this.strand(request, now);
    }
    if (link === this.link) this.link = new Link();
    else this.former = undefined;
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
