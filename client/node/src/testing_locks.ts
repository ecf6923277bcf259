// SPDX-License-Identifier: Apache-2.0
//
// The locks of distlock/testing: who holds them, who waits for them, and when that ends. Without clock, timers or IO:
// time is passed in, in milliseconds, and sessions hear what comes of it.
import {NEVER, SECOND} from './clock.js';
import {fromWire, toWire} from './convert.js';
import * as wire from './generated/distlock/v1/lock_pb.js';
import {type AcquireLocks, type AdoptLease, type ReleaseLease, ReleaseOutcome, type SessionEvent,
} from './generated/distlock/v1/lock_service_pb.js';
import type {LossCause} from './testing.js';

export const VALIDITY = 3 * SECOND;
const TTL = 15 * SECOND;
const MOST_HOLDERS = 16; // that a refusal names
const {EXCLUSIVE, SHARED, PERMIT} = wire.LockMode;

export type Event = NonNullable<SessionEvent['event']>;

/** A client's session, as the locks know it. */
export interface Session {
  heard: number; // the newest heartbeat
  heardAt: number;
  say(id: number, event: Event): void;
}

/** A lock that is held, or waited for. */
export class Lease {
  token = 0;
  grantedAt = 0;
  leaseId = '';
  holderId = '';
  holdCount = 1;
  endsAt = NEVER; // by max_hold, or when nobody takes it over

  constructor(public id: number, public session: Session | undefined, readonly spec: wire.LockSpec) {}

  get name(): string {
    return nameOf(this.spec.namespace, this.spec.key);
  }

  get endOfHold(): number {
    const {maxHold} = this.spec;
    return maxHold === undefined ? NEVER : this.grantedAt + fromWire(maxHold);
  }

  get permits(): number {
    return Math.max(this.spec.permits, 1);
  }

  say(event: Event): void {
    this.session?.say(this.id, event);
  }
}

/** An acquire that is not answered. */
export class Asked {
  readonly leases: readonly Lease[];
  readonly requestId: string;
  readonly waits: boolean;
  until: number;

  constructor(session: Session, id: number, {locks, requestId}: AcquireLocks, now: number) {
    this.leases = locks.map((spec, i) => new Lease(id + i, session, spec));
    this.requestId = requestId;
    const {maxWait} = this.first.spec;
    this.waits = maxWait === undefined || fromWire(maxWait) > 0;
    this.until = maxWait === undefined ? NEVER : now + fromWire(maxWait);
  }

  get first(): Lease {
    return this.leases[0] as Lease;
  }

  /** Why it cannot be: as a broker says it, for the mistakes that programs make. */
  get problem(): wire.FieldProblem | undefined {
    for (const [i, {spec, permits}] of this.leases.entries()) {
      const {key, ttl, mode, limit, reentrant, owner} = spec;
      const said = (field: string, description: string): wire.FieldProblem => (
        {field: `acquire.locks[${i}].${field}`, description});
      const bytes = Buffer.byteLength(key);
      if (bytes === 0) return said('key', 'is empty; give 1..512 bytes of UTF-8');
      if (bytes > 512) return said('key', `has ${bytes} bytes; at most 512 are allowed`);
      if (ttl !== undefined && (fromWire(ttl) < SECOND || fromWire(ttl) > 3600 * SECOND)) {
        return said('ttl', `is ${fromWire(ttl)}ms; allowed are 1s .. 1h`);
      }
      if (mode === PERMIT && limit < permits) {
        return said('limit', `is ${limit}; it must be at least 1 and at least n (${permits})`);
      }
      if (reentrant && owner === '') {
        return said('owner', 'is empty; whoever takes a lock again is known by the owner it gives');
      }
      if (this.leases.findIndex(one => one.name === nameOf(spec.namespace, key)) < i) {
        return said('key', 'names a lock a second time');
      }
    }
    return undefined;
  }
}

interface Lock {
  holders: Lease[];
  token: number;
  blockedUntil: number;
  blockedBy: string;
}

export function nameOf(namespace: string, key: string): string {
  return JSON.stringify([namespace === '' ? 'default' : namespace, key]);
}

function blank<T>(type: {decode(input: Uint8Array): T}): T {
  return type.decode(new Uint8Array());
}

export class LockBook {
  private readonly locks = new Map<string, Lock>();
  private waiting: Asked[] = [];
  private made = 0; // ids of holders and leases

  lock(name: string): Lock {
    const found = this.locks.get(name) ?? {holders: [], token: 0, blockedUntil: 0, blockedBy: ''};
    this.locks.set(name, found);
    return found;
  }

  /** The names of those that are taken or waited for. */
  names(now: number): string[] {
    return [...this.locks].filter(([name, {holders, blockedUntil}]) => (
      holders.length > 0 || blockedUntil > now || this.waitersOf(name).length > 0)).map(([name]) => name);
  }

  /** When something ends by itself. */
  times(): number[] {
    return [...this.waiting.map(({until}) => until), ...this.held().map(({endsAt}) => endsAt),
      ...[...this.locks.values()].map(({blockedUntil}) => blockedUntil)];
  }

  private held(): Lease[] {
    return [...this.locks.values()].flatMap(({holders}) => holders);
  }

  heldBy(session: Session): Lease[] {
    return this.held().filter(lease => lease.session === session);
  }

  // The commands of sessions.

  acquire(asked: Asked, now: number): void {
    const {problem} = asked;
    if (problem !== undefined) {
      this.refuse(asked, 'INVALID_ARGUMENT', `${problem.field} ${problem.description}`, now, [problem]);
      return;
    }
    // Sent again, it has the place that it had.
    const known = this.waiting.findIndex(one => one.requestId !== '' && one.requestId === asked.requestId);
    const place = known < 0 ? this.waiting.length : known;
    this.waiting.splice(place, known < 0 ? 0 : 1, asked);
    this.serve(now);
    if (!this.waiting.includes(asked)) return;
    if (asked.waits) {
      const queued = {position: place, holders: this.holdersFor(asked, now), block: undefined};
      asked.first.say({$case: 'queued', queued});
    } else {
      this.leave(asked);
      const mixed = asked.leases.some(lease => this.lock(lease.name).holders.some(({spec}) => (
        (spec.mode === PERMIT) !== (lease.spec.mode === PERMIT) || spec.limit !== lease.spec.limit)));
      this.refuse(asked, mixed ? 'LIMIT_MISMATCH' : 'LOCK_HELD', this.inTheWay(asked, now), now);
    }
  }

  private leave(asked: Asked): void {
    this.waiting = this.waiting.filter(one => one !== asked);
  }

  cancel(session: Session, id: number, now: number): void {
    for (const asked of this.waiting.filter(({first}) => first.session === session)) {
      if (!asked.leases.some(lease => lease.id === id)) continue;
      this.leave(asked);
      this.refuse(asked, 'CANCELLED', 'withdrawn', now);
    }
    for (const lease of this.heldBy(session)) if (lease.id === id) this.end(lease, undefined, now);
  }

  release(session: Session, {acquireId, leaseId, lapsed}: ReleaseLease, now: number): ReleaseOutcome {
    const found = this.held().filter(lease => (lease.session === session && lease.id === acquireId)
      || (leaseId !== '' && lease.leaseId === leaseId));
    for (const lease of found) this.end(lease, undefined, now, lapsed);
    if (found.length === 0) return ReleaseOutcome.ALREADY_GONE;
    const left = found.some(({name, leaseId: id}) => this.lock(name).holders.some(one => one.leaseId === id));
    return left ? ReleaseOutcome.STILL_HELD : ReleaseOutcome.RELEASED;
  }

  /** False: the session does not hold it. */
  downgrade(session: Session, id: number): boolean {
    const held = this.heldBy(session).find(lease => lease.id === id);
    for (const lease of this.held()) if (lease.leaseId === held?.leaseId) lease.spec.mode = SHARED;
    return held !== undefined;
  }

  /** False: it is not held. */
  adopt(session: Session, id: number, {leaseId, lock}: AdoptLease): boolean {
    const found = this.held().filter(lease => lease.leaseId === leaseId);
    const next = this.name('lease');
    found.forEach((lease, i) => {
      [lease.id, lease.session, lease.leaseId] = [id + i, session, next];
      lease.spec.owner = lock?.owner ?? '';
      lease.spec.metadata = {...lock?.metadata};
      lease.endsAt = lease.endOfHold;
      this.tellGrant(lease);
    });
    return found.length > 0;
  }

  /** The session says goodbye: all that it has is free. */
  goodbye(session: Session, now: number): void {
    for (const lease of this.heldBy(session)) this.end(lease, undefined, now);
    this.waiting = this.waiting.filter(({first}) => first.session !== session);
  }

  /** The session is gone without a goodbye: what it has ends in time, unless another session takes it over. */
  part(session: Session, now: number): void {
    for (const lease of this.heldBy(session)) {
      const {onDisconnect, ttl} = lease.spec;
      lease.session = undefined;
      const end = onDisconnect === wire.OnDisconnect.RELEASE ? now
        : onDisconnect === wire.OnDisconnect.EXPIRE ? now + (fromWire(ttl) || TTL) : session.heardAt + VALIDITY;
      lease.endsAt = Math.min(lease.endsAt, end);
    }
    for (const asked of this.waiting.filter(({first}) => first.session === session)) {
      asked.until = Math.min(asked.until, now + VALIDITY); // its place, until it comes again
      for (const lease of asked.leases) lease.session = undefined;
    }
  }

  // Grants and ends.

  expire(now: number): void {
    for (const asked of this.waiting.filter(({until}) => now >= until)) {
      this.leave(asked);
      this.refuse(asked, 'WAIT_TIMEOUT', this.inTheWay(asked, now), now);
    }
    for (const lease of this.held().filter(({endsAt}) => now >= endsAt)) {
      this.end(lease, lease.session === undefined ? 'EXPIRED' : 'MAX_HOLD', now);
    }
  }

  /** Grants what can be granted, in the order of arrival. */
  serve(now: number): void {
    for (const asked of [...this.waiting]) {
      if (asked.first.session === undefined || !asked.leases.every(lease => this.isFree(lease, asked, now))) continue;
      this.leave(asked);
      for (const lease of asked.leases) this.grant(lease, now);
    }
  }

  /** The hold that this is a re-entry of. */
  private again({name, spec, session}: Lease): Lease | undefined {
    return this.lock(name).holders.find(one => one.spec.reentrant && spec.reentrant && one.session === session
      && one.spec.owner === spec.owner);
  }

  private isFree(lease: Lease, asked: Asked, now: number): boolean {
    const {name, spec: {mode, limit}} = lease;
    const {holders, blockedUntil} = this.lock(name);
    if (this.again(lease) !== undefined) return true;
    const before = this.waiting.slice(0, this.waiting.indexOf(asked));
    if (now < blockedUntil || before.some(({leases}) => leases.some(other => other.name === name))) return false;
    if (holders.length === 0) return true;
    if (mode === EXCLUSIVE || holders.some(({spec}) => spec.mode !== mode || spec.limit !== limit)) return false;
    return mode === SHARED || holders.reduce((sum, {permits}) => sum + permits, lease.permits) <= limit;
  }

  private name(kind: string): string {
    this.made += 1;
    return `${kind} ${this.made}`;
  }

  private grant(lease: Lease, now: number): void {
    const [lock, again] = [this.lock(lease.name), this.again(lease)];
    lease.grantedAt = now;
    if (again === undefined) {
      lock.token += 1;
      [lease.token, lease.endsAt] = [lock.token, lease.endOfHold];
      [lease.leaseId, lease.holderId] = [this.name('lease'), this.name('holder')];
    } else {
      [lease.token, lease.endsAt] = [again.token, again.endsAt];
      [lease.leaseId, lease.holderId] = [again.leaseId, again.holderId];
      lease.holdCount = 1 + lock.holders.filter(({leaseId}) => leaseId === again.leaseId).length;
    }
    lock.holders.push(lease);
    this.tellGrant(lease);
  }

  private tellGrant(lease: Lease): void {
    const {session, spec, leaseId, holderId, token, holdCount, endsAt} = lease;
    if (session === undefined) return;
    const validFor = toWire(Math.min(VALIDITY, endsAt - session.heardAt));
    lease.say({$case: 'granted', granted: {...blank(wire.Grant), namespace: spec.namespace, key: spec.key, leaseId,
      holderId, fencingToken: token, holdCount, mode: spec.mode, echoSeq: session.heard, validFor}});
  }

  /** cause: why it is lost; undefined: it was given back. */
  end(lease: Lease, cause: LossCause | undefined, now: number, lapsed = false): void {
    const [lock, {lockDelay, minHold, owner}] = [this.lock(lease.name), lease.spec];
    lock.holders = lock.holders.filter(one => one !== lease);
    const block = cause === undefined && !lapsed ? lease.grantedAt + fromWire(minHold) : now + fromWire(lockDelay);
    if (block > now && !lock.holders.some(({leaseId}) => leaseId === lease.leaseId)) {
      [lock.blockedUntil, lock.blockedBy] = [block, owner];
    }
    if (cause === undefined) return;
    lease.say({$case: 'lost', lost: {lease: undefined, reason: wire.LostReason[cause], message: 'as the test says'}});
  }

  refuse(asked: Asked, reason: keyof typeof wire.RefusalReason, message: string, now: number,
    fieldProblems: wire.FieldProblem[] = []): void {
    const busy = ['LOCK_HELD', 'WAIT_TIMEOUT', 'LIMIT_MISMATCH'].includes(reason);
    const refused: wire.Refusal = {...blank(wire.Refusal), reason: wire.RefusalReason[reason], message, fieldProblems,
      ...(busy && {holders: this.holdersFor(asked, now), queueLength: this.waitersOf(asked.first.name).length,
        block: this.info(asked.first.name, now).block})};
    for (const lease of asked.leases) lease.say({$case: 'refused', refused});
  }

  // The locks as those see them who look.

  private waitersOf(name: string): Lease[] {
    return this.waiting.flatMap(({leases}) => leases.filter(lease => lease.name === name));
  }

  private holdersFor(asked: Asked, now: number): wire.Holder[] {
    return asked.leases.flatMap(({name}) => this.info(name, now).holders).slice(0, MOST_HOLDERS);
  }

  private inTheWay(asked: Asked, now: number): string {
    const owners = new Set(this.holdersFor(asked, now).map(({owner}) => owner));
    const {namespace, key} = asked.first.spec;
    const lock = JSON.stringify(`${namespace === '' ? 'default' : namespace}:${key}`);
    return `lock ${lock} is not free: ${owners.size === 0 ? 'blocked, or others wait' : `held by ${
      [...owners].map(owner => JSON.stringify(owner)).join(', ')}`}`;
  }

  info(name: string, now: number): wire.LockInfo {
    const [namespace = '', key = ''] = JSON.parse(name) as string[];
    const {holders, token, blockedUntil, blockedBy} = this.lock(name);
    const held = [...new Map(holders.map(lease => [lease.leaseId, lease])).values()];
    const waiters = this.waitersOf(name);
    return {
      namespace, key, fencingToken: token, holderCount: held.length, queueLength: waiters.length,
      holders: held.map(({holderId, spec, grantedAt, token: fencingToken}) => ({...blank(wire.Holder), holderId,
        owner: spec.owner, metadata: spec.metadata, mode: spec.mode, permits: spec.permits, limit: spec.limit,
        fencingToken, acquireTime: new Date(grantedAt), timeLeft: spec.ttl ?? toWire(TTL), ttl: spec.ttl ?? toWire(TTL),
        brokerId: 'test'})),
      waiters: waiters.map(({spec}) => ({...blank(wire.Waiter), owner: spec.owner, metadata: spec.metadata,
        mode: spec.mode, permits: spec.permits, brokerId: 'test'})),
      block: blockedUntil <= now ? undefined
        : {...blank(wire.LockBlock), owner: blockedBy, timeLeft: toWire(blockedUntil - now)},
    };
  }
}
