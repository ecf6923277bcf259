// SPDX-License-Identifier: Apache-2.0
//
// Leases that move to another session: "Moving a lease" in proto/distlock/v1/session.md.
import {randomBytes} from 'node:crypto';
import {NEVER, SECOND} from './clock.js';
import {fromWire} from './convert.js';
import type {Refusal} from './errors.js';
import {type Grant, LockMode, OnDisconnect} from './generated/distlock/v1/lock_pb.js';
import {type Answer, Change, type Lease, type Link, Move, Phase} from './lease.js';
import {TableBase} from './table_base.js';

const RETRY_PAUSE = SECOND / 10;
const LONGEST_RETRY_PAUSE = SECOND / 2;
const NOT_REPEATED = ['NOT_SUPPORTED', 'INVALID_ARGUMENT', 'FOREIGN_KEY', 'UNAUTHENTICATED', 'PERMISSION_DENIED'];

export abstract class MovingTable extends TableBase {
  /** Set when the broker goes down and something cannot follow: in milliseconds. */
  drainingFor: number | undefined;

  onDraining(link: Link, timeLeft: number, now: number): void {
    link.draining = true;
    link.drainedAt = now + timeLeft;
    if (this.settings.brokers === 1 || !link.adopts) this.drainingFor = timeLeft;
    this.moveOn(now);
  }

  /**
   * Leaves the present broker, if it drains: the other link becomes the present one. While that still has a stream of
   * its own, of a broker that drains as well, this waits for its end.
   */
  moveOn(now: number): void {
    const [old, other] = [this.link, this.links[1 - this.present] as Link];
    if (this.settings.brokers === 1 || this.closed || !old.streaming || !old.draining || other.streaming) return;
    this.present = this.present === 0 ? 1 : 0;
    this.moving = true;
    for (const request of this.waiting()) {
      if (request.link !== old) continue;
      const unsent = old.drop(request.first.id);
      if (!unsent && request.requestId !== '') { // the next broker takes over its place
        for (const lease of request.leases) {
          lease.former = old;
          lease.crossed = lease.phase === Phase.GRANTED;
        }
      } else if (!unsent) {
        this.withdraw(request);
      }
      this.strand(request, now);
    }
  }

  /** Asks the present session to adopt all that it does not hold. */
  sendMoves(now: number): void {
    this.movesAt = NEVER;
    this.moving = false;
    const {link} = this;
    const ready = link.opened && !link.leaving && !link.draining;
    const reentrant = new Map<string, Move>();
    const moves: Move[] = [];
    for (const lease of [...this.live.values()]) {
      if (lease.phase !== Phase.HELD || (lease.link === link && lease.change === undefined)) continue;
      this.moving ||= lease.link !== link;
      if (!ready || !this.mayMove(lease)) continue;
      if (!link.adopts) {
        this.stay(lease, now);
        continue;
      }
      const name = JSON.stringify([lease.token, lease.spec.namespace, lease.spec.key]);
      let move = lease.spec.reentrant ? reentrant.get(name) : undefined;
      if (move === undefined) {
        move = lease.move ?? new Move(randomBytes(16).toString('hex'));
        moves.push(move);
        if (lease.spec.reentrant) reentrant.set(name, move);
      }
      lease.move = move;
      move.holds.push(lease);
    }
    for (const move of moves) this.sendMove(move, link);
    if (ready && link.adopts) this.giveBackLeftovers(link);
    this.sendHeldBack(now);
  }

  private mayMove(lease: Lease): boolean {
    if (lease.stays || lease.move?.through !== undefined) return false;
    if (lease.link !== undefined && (!lease.link.adopts || lease.link.leaving)) return false;
    // The adoption must name the mode, which is known when the downgrade is answered.
    return ![...this.downgrades.values()].some(sent => sent.link !== undefined && sent.lease.same(lease));
  }

  private adopt(link: Link, id: number, lease: Lease, requestId: string, holdCount: number): void {
    const {maxWait: _, ...lock} = lease.change?.spec ?? lease.spec;
    if (lease.downgraded) lock.mode = LockMode.SHARED;
    link.send(id, {$case: 'adopt', adopt: {leaseId: lease.leaseId, lock, requestId, holdCount}});
  }

  private sendMove(move: Move, link: Link): void {
    const first = move.holds[0] as Lease;
    move.through = link;
    if (first.change !== undefined) first.change.sent = first.change.spec;
    move.id = this.takeIds(move.holds.length);
    move.holds.forEach((_, i) => this.moves.set(move.id + i, move));
    this.adopt(link, move.id, first, move.requestId, move.holds.length);
  }

  private moveOf(link: Link, id: number): Move | undefined {
    const move = this.moves.get(id);
    return move?.through === link ? move : undefined;
  }

  /** It is answered, or will not be. Its leases keep it while it may have to be repeated. */
  endMove(move: Move): void {
    move.holds.forEach((_, i) => this.moves.delete(move.id + i));
    move.through = undefined;
    move.holds = [];
  }

  /** False: it is no answer to an adoption. */
  onAdopted(link: Link, id: number, grant: Grant, now: number): boolean {
    const move = this.moveOf(link, id);
    if (move === undefined) return false;
    const index = id - move.id;
    const asked = move.holds[index];
    if (asked !== undefined) this.notice(asked, now); // too late after the former promise: that releases it here, too
    const hold = move.holds[index];
    move.holds[index] = undefined;
    if (hold?.phase === Phase.HELD) this.arrive(hold, link, id, grant, now);
    if (move.holds.every(one => one === undefined)) this.endMove(move);
    return true;
  }

  /** From now on only this session's promises count, also when they are shorter. */
  private arrive(lease: Lease, link: Link, id: number, grant: Grant, now: number): void {
    this.live.delete(lease.id);
    lease.id = id;
    this.live.set(id, lease);
    lease.link = link;
    lease.move = undefined;
    lease.leaseId = grant.leaseId;
    lease.holderId = grant.holderId;
    if (grant.fencingToken !== lease.token) {
      this.lose(lease, 'TAKEN', 'it was adopted under another fencing token');
      return;
    }
    lease.deadline = link.session.deadlineOf(grant.echoSeq, fromWire(grant.validFor));
    lease.risk = undefined;
    const {change} = lease;
    if (change?.sent !== undefined) {
      lease.spec = change.sent;
      if (change.sent === change.spec) this.tellChange(lease, undefined);
      else this.moveSoon(now); // asked for again after that adoption was sent
    }
    if (!this.notice(lease, now)) return;
    this.leaseDeadline = Math.min(this.leaseDeadline, lease.deadline);
    this.wakeAt(this.leaseDeadline);
    this.askForHeartbeat(link, lease.deadline, now);
    this.sendDowngrades(lease);
    if (lease.spec.reentrant) this.sendHeldBack(now);
    if (link !== this.link) this.moveSoon(now); // that broker drains already
  }

  private moveSoon(at: number): void {
    this.movesAt = Math.min(this.movesAt, at);
    this.wakeAt(this.movesAt);
  }

  onNotAdopted(link: Link, id: number, refusal: Refusal, now: number): boolean {
    const move = this.moveOf(link, id);
    if (move === undefined) return false;
    const holds = [...move.holds]; // the refusal is that of all
    this.endMove(move);
    for (const hold of holds) {
      if (hold?.phase === Phase.HELD) this.onHoldNotAdopted(hold, refusal, now);
    }
    if (refusal.reason === 'DRAINING') {
      link.draining = true;
      this.moveOn(now);
    }
    return true;
  }

  private onHoldNotAdopted(hold: Lease, refusal: Refusal, now: number): void {
    if (refusal.reason === 'NOT_HOLDER') {
      this.lose(hold, 'TAKEN', `it could not be taken over: ${refusal.message}`);
    } else if (refusal.reason === 'NOT_SUPPORTED' && hold.modeUnsure) {
      hold.modeUnsure = false;
      hold.downgraded = !hold.downgraded;
      this.moveSoon(now);
    } else if (NOT_REPEATED.includes(refusal.reason) && hold.change !== undefined) {
      hold.move = undefined;
      this.tellChange(hold, refusal);
    } else if (NOT_REPEATED.includes(refusal.reason)) {
      this.stay(hold, now);
    } else {
      const pause = Math.max(refusal.retryAfter ?? 0, RETRY_PAUSE);
      this.moveSoon(now + Math.min(pause, LONGEST_RETRY_PAUSE));
    }
  }

  /** No broker can adopt it: it stays where it is, and is lost when that broker goes. */
  private stay(lease: Lease, now: number): void {
    lease.stays = true;
    this.sendDowngrades(lease);
    if (lease.link !== undefined && lease.link.drainedAt !== NEVER) {
      this.drainingFor = Math.max(lease.link.drainedAt - now, 0);
      lease.link.drainedAt = NEVER;
    }
  }

  /**
   * Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps the
   * lock for as long, unless it was told to free it at once.
   */
  survives(lease: Lease, now: number): boolean {
    if (this.closed || lease.stays || lease.link?.adopts !== true || now >= lease.deadline) return false;
    if (lease.spec.onDisconnect === OnDisconnect.RELEASE) return false;
    return lease.spec.resume || lease.move !== undefined || lease.link !== this.link;
  }

  orphan(lease: Lease, why: string): void {
    lease.link = undefined;
    lease.risk = why;
    this.moving = true;
    this.moveSoon(0);
  }

  private giveBackLeftovers(link: Link): void {
    for (const {lease, requestId, lapsed} of this.leftovers) {
      const id = this.takeIds();
      this.adopt(link, id, lease, requestId, 1);
      this.sendRelease(link, id, lapsed);
    }
    this.leftovers = [];
  }

  /** Sends what waited for the lease's arrival. */
  sendDowngrades(lease: Lease): void {
    if (lease.link === undefined || (lease.move !== undefined && !lease.stays)) return;
    for (const [id, waits] of this.downgrades) {
      if (waits.lease !== lease || waits.link !== undefined) continue;
      waits.link = lease.link;
      lease.link.send(id, {$case: 'downgrade', downgrade: {acquireId: lease.id, leaseId: ''}});
    }
  }

  /** Says goodbye, so that the broker ends the stream in good order. Waiting requests go to the next stream. */
  leave(link: Link): void {
    link.leaving = true;
    link.heartbeatDue = false;
    link.send(0, {$case: 'goodbye', goodbye: {}});
    for (const request of this.waiting()) {
      if (request.link !== link) continue;
      request.link = undefined;
      for (const lease of request.leases) {
        lease.phase = Phase.WAITING;
        lease.link = undefined;
      }
    }
  }

  /** A former broker that has nothing of this client any more. */
  leaveWhenEmpty(link: Link): void {
    if (!link.streaming || link.leaving || link === this.link) return;
    for (const lease of this.live.values()) if (lease.link === link || lease.former === link) return;
    for (const move of this.moves.values()) if (move.through === link) return;
    for (const pending of this.releases.values()) if (pending.link === link) return;
    for (const pending of this.downgrades.values()) if (pending.link === link) return;
    this.leave(link);
  }

  /**
   * A former session has granted what has gone to another one: never believed in. It is given back when the next broker
   * has the place.
   */
  grantByFormer(link: Link, id: number, lease: Lease | undefined): void {
    if (lease?.former === link) lease.crossed = true;
    else if (!link.leaving) this.sendRelease(link, id, false);
  }

  /** The present broker has the request, and so its place: the former session matters no more. */
  hasArrived(lease: Lease): void {
    for (const part of lease.request.leases) {
      if (part.former === undefined || (part.crossed && part !== lease)) continue;
      if (part.crossed && !part.former.leaving) this.sendRelease(part.former, part.id, false);
      part.former = undefined;
      part.crossed = false;
    }
  }

  /** Changes what others see of a held lease: its session adopts it anew. */
  proclaim(lease: Lease, metadata: Record<string, string>, tell: Answer, now: number): void {
    let problem: Refusal | undefined;
    if (lease.phase !== Phase.HELD || lease.link?.leaving === true) {
      problem = {reason: 'NOT_HOLDER', message: 'the lock has ended'};
    } else if (lease.spec.reentrant) {
      problem = {reason: 'NOT_SUPPORTED', message: 'the lock is reentrant: what is shown of its holds cannot change'};
    } else if (lease.stays || lease.link?.adopts === false) {
      problem = {reason: 'NOT_SUPPORTED', message: 'the broker is too old to change what is shown of a lock'};
    }
    if (problem !== undefined) {
      this.effects.push(() => { tell(problem); });
      return;
    }
    const before = lease.change?.spec ?? lease.spec;
    const spec = {...before, metadata: {...lease.spec.metadata, ...metadata}};
    lease.change ??= new Change(spec);
    lease.change.spec = spec;
    lease.change.told.push(tell);
    this.moveSoon(now);
  }

  /** Ends the leases whose deadlines have passed. */
  sweep(now: number): void {
    this.leaseDeadline = NEVER;
    let elsewhere = false;
    for (const lease of [...this.live.values()]) {
      if (lease.phase !== Phase.HELD || !this.notice(lease, now)) continue;
      this.leaseDeadline = Math.min(this.leaseDeadline, lease.deadline);
      elsewhere ||= lease.link !== this.link;
    }
    this.moving &&= elsewhere;
    this.wakeAt(this.leaseDeadline);
  }
}
