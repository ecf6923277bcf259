// SPDX-License-Identifier: Apache-2.0
//
// Leases that move to another session: "Moving a lease" in proto/distlock/v1/session.md.
import {NEVER, SECOND} from './clock.js';
import {fromWire} from './convert.js';
import {PERMANENT, type Refusal} from './errors.js';
import {type Grant, LockMode, OnDisconnect} from './generated/distlock/v1/lock_pb.js';
import {type Command, type Lease, Link, Phase, Return} from './lease.js';
import {newKey, type Reply, TableBase} from './table_base.js';

const RETRY_PAUSE = SECOND / 10;
const LONGEST_RETRY_PAUSE = SECOND / 2;

const pauseOf = ({retryAfter = 0}: Refusal): number => (
  Math.min(Math.max(retryAfter, RETRY_PAUSE), LONGEST_RETRY_PAUSE));

export abstract class MovingTable extends TableBase {
  onDraining(link: Link, timeLeft: number, now: number): void {
    link.draining = true;
    link.drainedAt = now + timeLeft;
    if (this.settings.brokers === 1 || !link.adopts) this.tell(this.settings.onDraining, timeLeft);
    this.moveOn(now);
  }

  /**
   * Leaves the present broker, if it drains. While there is still a stream to a former one, this waits for its end.
   */
  moveOn(now: number): void {
    const old = this.link;
    if (this.settings.brokers === 1 || this.closed || !old.draining || this.former !== undefined) return;
    this.former = old;
    this.link = new Link();
    this.moving = true;
    for (const request of this.waiting()) {
      if (request.link !== old) continue;
      if (request.requestId === '') {
        this.withdraw(request);
      } else if (!old.drop(request.first.id)) { // the next broker takes over its place
        for (const lease of request.leases) {
          lease.former = old;
          lease.crossed = lease.phase === Phase.GRANTED;
        }
      }
      this.strand(request, now);
    }
  }

  /** Asks the present session to adopt all that it does not hold, and to free what nobody could free. */
  sendMoves(now: number): void {
    const {link} = this;
    this.movesAt = NEVER;
    this.moving = false;
    const ready = link.opened && !link.leaving && !link.draining;
    for (const lease of this.held()) {
      if (lease.link === link && lease.change === undefined) continue;
      this.moving ||= lease.link !== link;
      if (!ready || !this.mayMove(lease)) continue;
      if (this.isElsewhere(lease)) this.tellDrained(lease, now);
      else if (link.adopts) this.move(this.holdsOf(lease), link, now);
      else this.stay(lease, now);
    }
    for (const back of ready ? this.leftovers.splice(0) : []) {
      if (this.isElsewhere(back.lease)) continue; // its ttl ends it
      if (!link.adopts) {
        this.sendRelease(link, 0, back, back.lease.leaseId);
        continue;
      }
      const adopt = this.adopt(back.lease, back.key, 1);
      const id = this.ask(link, adopt, (reply, at) => { this.onLeftover(back, reply, at); });
      this.sendRelease(link, id, back);
    }
    this.sendHeldBack(now);
  }

  /** The present broker has another store, where nobody has heard of the lease. */
  private isElsewhere(lease: Lease): boolean {
    return lease.store !== '' && this.link.store !== '' && lease.store !== this.link.store;
  }

  private mayMove(lease: Lease): boolean {
    if (lease.stays || lease.to !== undefined || lease.link?.adopts === false) return false;
    // The adoption must name the mode, which is known when the downgrade is answered.
    return !this.holdsOf(lease).some(hold => hold.downgrading > 0);
  }

  private adopt(lease: Lease, requestId: string, holdCount: number): Command {
    const {maxWait: _, ...lock} = lease.change?.spec ?? lease.spec;
    if (lease.downgraded) lock.mode = LockMode.SHARED;
    return {$case: 'adopt', adopt: {leaseId: lease.leaseId, lock, requestId, holdCount}};
  }

  /**
   * All holds of one reentrant lease, or another lease. The key stays the same in every try: a try whose answer was
   * lost may have succeeded.
   */
  private move(holds: Lease[], link: Link, now: number): void {
    const first = this.takeIds(holds.length);
    const key = holds.find(({moveKey}) => moveKey !== '')?.moveKey ?? newKey();
    holds.forEach((hold, i) => {
      hold.to = link;
      hold.toId = first + i;
      hold.moveKey = key;
      this.moves.set(hold.toId, hold);
      if (hold.change !== undefined) hold.change.sent = hold.change.spec;
    });
    const [lease] = holds as [Lease];
    if (link.send(first, this.adopt(lease, key, holds.length), holds.length)) return;
    const message = `it does not fit into the ${link.maxBytes} bytes that this broker takes`;
    this.onNotAdopted(link, lease, {reason: 'INVALID_ARGUMENT', message}, now);
  }

  /** From now on only this session's promises count, also when they are shorter. */
  onAdopted(link: Link, lease: Lease, grant: Grant, now: number): void {
    if (!this.notice(lease, now)) return; // the former promise is over: that has released it here as well
    this.live.delete(lease.id);
    lease.id = lease.toId;
    this.live.set(lease.id, lease);
    this.unaskMove(lease);
    lease.link = link;
    lease.store = link.store || lease.store;
    lease.moveKey = '';
    lease.risk = undefined;
    lease.leaseId = grant.leaseId;
    lease.holderId = grant.holderId;
    if (grant.fencingToken !== lease.token) {
      this.lose(lease, 'TAKEN', 'it was adopted under another fencing token');
      return;
    }
    lease.deadline = link.session.deadlineOf(grant.echoSeq, fromWire(grant.validFor));
    const {change} = lease;
    if (change?.sent !== undefined) {
      lease.spec = change.sent;
      if (change.sent === change.spec) this.tellChange(lease, undefined);
      else this.moveAt(now); // asked for again after that adoption was sent
    }
    if (!this.notice(lease, now)) return;
    this.leaseDeadline = Math.min(this.leaseDeadline, lease.deadline);
    this.askForHeartbeat(link, lease.deadline, now);
    this.sendDowngrades(lease);
    if (lease.spec.reentrant) this.sendHeldBack(now);
    if (link !== this.link) this.moveAt(now); // that broker drains already
  }

  onNotAdopted(link: Link, {moveKey}: Lease, refusal: Refusal, now: number): void {
    const final = PERMANENT.includes(refusal.reason);
    for (const hold of [...this.moves.values()].filter(one => one.moveKey === moveKey)) { // it is that of all holds
      this.unaskMove(hold);
      if (refusal.reason === 'NOT_HOLDER') {
        this.lose(hold, 'TAKEN', `it could not be taken over: ${refusal.message}`, true);
      } else if (refusal.reason === 'NOT_SUPPORTED' && hold.modeUnsure) {
        hold.modeUnsure = false;
        hold.downgraded = !hold.downgraded;
        this.moveAt(now);
      } else if (final && hold.change !== undefined) {
        hold.moveKey = '';
        this.tellChange(hold, refusal);
        this.moveAt(now); // without the change it may do
      } else if (final) {
        this.stay(hold, now);
      } else {
        this.moveAt(now + pauseOf(refusal));
      }
    }
    if (refusal.reason !== 'DRAINING') return;
    link.draining = true;
    this.moveOn(now);
  }

  /** When a lease that nobody believes in could not be adopted, its release, which follows, finds nothing. */
  private onLeftover(back: Return, reply: Reply, now: number): void {
    if (typeof reply !== 'object' || [...PERMANENT, 'NOT_HOLDER', 'UNREACHABLE'].includes(reply.reason)) return;
    this.leaveOver(back);
    this.movesAt = now + pauseOf(reply);
  }

  /** No broker can adopt it: it stays where it is, and is lost when that broker goes. */
  private stay(lease: Lease, now: number): void {
    lease.stays = true;
    lease.moveKey = '';
    this.sendDowngrades(lease);
    this.tellDrained(lease, now);
  }

  /** The program hears of the drain after all, once: something does not move. */
  private tellDrained(lease: Lease, now: number): void {
    if (lease.link !== undefined && lease.link.drainedAt !== NEVER) {
      this.tell(this.settings.onDraining, Math.max(lease.link.drainedAt - now, 0));
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
    return lease.spec.resume || lease.moveKey !== '' || lease.link !== this.link;
  }

  orphan(lease: Lease, why: string): void {
    lease.link = undefined;
    lease.risk = why;
    this.moving = true;
    this.moveAt(0);
  }

  /** Sends what waited for the lease's arrival. */
  sendDowngrades(lease: Lease): void {
    const {link} = lease;
    if (link === undefined || (lease.moveKey !== '' && !lease.stays)) return;
    for (const tell of lease.downgrades.splice(0)) {
      const holds = this.holdsOf(lease);
      for (const hold of holds) hold.downgrading += 1;
      this.ask(link, {$case: 'downgrade', downgrade: {acquireId: lease.id, leaseId: ''}}, (reply, now) => {
        const refusal = typeof reply === 'object' ? reply : undefined;
        for (const hold of holds) hold.downgrading -= 1;
        for (const hold of this.holdsOf(lease)) {
          if (refusal === undefined) hold.downgraded = true;
          else hold.modeUnsure = true;
        }
        this.tell(tell, refusal);
        if (this.moving) this.sendMoves(now);
      });
    }
  }

  /** Says goodbye, so that the broker ends the stream in good order. Waiting requests go to the next stream. */
  leave(link: Link): void {
    link.sayGoodbye();
    for (const request of this.waiting()) if (request.link === link) this.unsend(request);
  }

  /** A former broker that has nothing of this client any more. */
  leaveWhenEmpty(link: Link): void {
    for (const lease of this.live.values()) if ([lease.link, lease.former, lease.to].includes(link)) return;
    for (const asked of this.asked.values()) if (asked.link === link) return;
    this.leave(link);
  }

  /**
   * A former session has granted what has gone to another one: never believed in. It is given back when the next broker
   * has the place.
   */
  grantByFormer(link: Link, id: number, lease: Lease | undefined): void {
    if (lease?.former === link) lease.crossed = true;
    else if (!link.leaving) this.ask(link, {$case: 'release', release: {acquireId: id, leaseId: '', lapsed: false}},
      () => undefined);
  }

  /** The present broker has the request, and so its place: the former session matters no more. */
  hasArrived(lease: Lease): void {
    for (const part of lease.request.leases) {
      const {former, crossed} = part;
      if (former === undefined || (crossed && part !== lease)) continue;
      part.former = undefined;
      if (crossed) this.grantByFormer(former, part.id, undefined);
    }
  }

  /** Ends the leases whose deadlines have passed. */
  sweep(now: number): void {
    this.leaseDeadline = NEVER;
    let elsewhere = false;
    for (const lease of this.held()) {
      if (!this.notice(lease, now)) continue;
      this.leaseDeadline = Math.min(this.leaseDeadline, lease.deadline);
      elsewhere ||= lease.link !== this.link;
    }
    this.moving &&= elsewhere;
  }
}
