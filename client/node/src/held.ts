// SPDX-License-Identifier: Apache-2.0
//
// Locks that are held.
import {text} from './convert.js';
import type {Core} from './core.js';
import {guarded, LockLostError} from './errors.js';
import {type Lease, Phase} from './lease.js';
import type {Observer, Outcome} from './types.js';

/** The metadata entry that holds a leader's value: LockSpec.metadata in proto/distlock/v1/lock.proto. */
export const ELECTION_VALUE = 'distlock.election';
const LEAVE_MS = 1000; // how long leaving a scope waits for the answer to a release that leaves a block

// Node.js has it from 18.18 on. `await using` of TypeScript and of Babel needs it, too.
if ((Symbol.asyncDispose as symbol | undefined) === undefined) {
  Object.defineProperty(Symbol, 'asyncDispose', {value: Symbol('Symbol.asyncDispose')});
}

/** Tells an observer of the end of one lock, once. Knows nothing of the handle, which may be dropped. */
function endTeller(observer: Observer, cookie: unknown, lease: Lease): () => void {
  const since = performance.now();
  let told = false;
  return () => {
    if (told) return;
    told = true;
    guarded('observer.ended', () => observer.ended?.(cookie, lease.cause, performance.now() - since));
  };
}

/**
 * A lock that is held. With `await using` it is given back at the end of the scope; else call `release`. One that the
 * program keeps no more, and whose `signal` it has not taken, is given back when the garbage collector finds it.
 */
export class Held implements AsyncDisposable {
  private controller: AbortController | undefined;
  private told = false; // the program knows how it hears of a loss, or has heard
  private readonly ended: (() => void) | undefined;

  /** @internal */
  constructor(private readonly core: Core, private readonly lease: Lease, observer: Observer | undefined,
    cookie: unknown) {
    core.engine.handles.register(this, lease, lease);
    if (observer === undefined) return;
    this.ended = endTeller(observer, cookie, lease);
    if (lease.phase === Phase.ENDED) this.ended(); // in the same message that granted it
    else lease.onEnd.push(this.ended);
  }

  /** The lock's name. */
  get key(): string {
    return this.lease.spec.key;
  }

  /**
   * The fencing token: it grows with each grant of this lock. Pass it to the resource that the lock protects, and let
   * that refuse smaller ones. A number, because tokens stay below 2^53; a column for it must have 64 bits.
   */
  get token(): number {
    return this.lease.token;
  }

  /** This holder's public name. A new one after a move to another broker. */
  get holderId(): string {
    return this.lease.holderId;
  }

  /** Secret: whoever knows it can release the lock. A new one after a move to another broker. */
  get leaseId(): string {
    return this.lease.leaseId;
  }

  /** 1; greater when the lock was taken again by re-entry. */
  get holdCount(): number {
    return this.lease.holdCount;
  }

  /** Milliseconds that the broker let this request wait. */
  get waited(): number {
    return this.lease.waited;
  }

  /** Milliseconds until the present deadline, 0 when the lock is not held. Renewals move the deadline. */
  get validFor(): number {
    return this.core.engine.holds(this.lease) ? Math.max(this.lease.deadline - this.core.now(), 0) : 0;
  }

  /**
   * Whether the lock is held, by the clock, at this moment: never true after its deadline, even when the event loop was
   * blocked in between. False after a release.
   */
  get isHeld(): boolean {
    const held = this.core.engine.holds(this.lease);
    this.told ||= !held;
    return held;
  }

  /** Held, but renewals or heartbeats fail, or its stream broke: finish before the deadline. */
  get atRisk(): boolean {
    return this.core.engine.holds(this.lease) && this.core.engine.table.atRisk(this.lease, this.core.now());
  }

  /** How the lock ended: a cause of LockLostError, GIVEN_BACK after a release, '' while it is held. */
  get cause(): string {
    return this.core.engine.holds(this.lease) ? '' : this.lease.cause;
  }

  /**
   * Aborted when the lock is lost, with a LockLostError as its reason; not by a release. Reading it looks at the clock;
   * a signal that was read before is aborted when the event loop runs.
   */
  get signal(): AbortSignal {
    this.told = true;
    if (this.controller === undefined) {
      const controller = new AbortController();
      this.controller = controller;
      this.lease.onEnd.push(() => { controller.abort(this.loss()); });
      // A lease that has ended calls nobody any more.
      if (this.lease.phase === Phase.ENDED && this.wasLost) controller.abort(this.loss());
    }
    this.core.engine.holds(this.lease);
    return this.controller.signal;
  }

  /**
   * Cheap: no call to the broker.
   *
   * @throws LockLostError unless the lock is held at this moment
   */
  check(): void {
    if (!this.isHeld) throw this.loss();
  }

  /**
   * Gives the lock back, and waits for the broker's answer. The lock is freed in any case. ALREADY_GONE: it had ended
   * before.
   */
  async release(): Promise<Outcome> {
    return new Promise(resolve => { this.giveBack(resolve); });
  }

  /**
   * Sends the release and does not wait. Commands keep their order, so that the next acquire of the same lock by this
   * client finds it free.
   */
  releaseSoon(): void {
    this.giveBack(undefined);
  }

  private giveBack(tell: ((outcome: Outcome) => void) | undefined): void {
    this.core.engine.turn((table, now) => { table.release(this.lease, tell, now); });
    this.core.engine.handles.unregister(this.lease); // else it lives until a full round of the collector
    if (this.lease.cause === 'GIVEN_BACK') this.ended?.();
  }

  /**
   * Makes an exclusive lock shared, without a gap. There is no way back.
   *
   * @throws RefusedError, LockLostError
   */
  async downgrade(): Promise<void> {
    this.check();
    await this.core.ask((table, answer) => { table.downgrade(this.lease, answer); });
  }

  /**
   * Changes the value that observers are told of a leader, in office. The token stays.
   *
   * @throws RefusedError, LockLostError
   */
  async proclaim(value: string): Promise<void> {
    this.check();
    const shown = {[ELECTION_VALUE]: text(value, 'value')};
    await this.core.ask((table, answer, now) => { table.proclaim(this.lease, shown, answer, now); });
  }

  /**
   * Leaves a scope: as releaseSoon, but with `minHold` it waits for the answer, for at most a second. A process that
   * ended sooner would take the release along, and its death leaves no block.
   *
   * @internal
   */
  async leave(): Promise<void> {
    if (this.lease.spec.minHold === undefined) {
      this.releaseSoon();
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>(resolve => { timer = setTimeout(resolve, LEAVE_MS); });
    await Promise.race([this.release(), over]);
    clearTimeout(timer);
  }

  /**
   * Leaves the scope: see `minHold`.
   *
   * @throws LockLostError when the lock was lost, and the program has neither taken `signal` nor been told by `isHeld`
   * or `check`
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const {told} = this;
    const left = this.leave();
    if (this.wasLost && !told) throw this.loss();
    await left;
  }

  /** @internal The error that tells of the loss; undefined: it was not lost. */
  get lossSoFar(): LockLostError | undefined {
    return this.wasLost ? this.loss() : undefined;
  }

  private get wasLost(): boolean {
    return !this.core.engine.holds(this.lease) && this.lease.cause !== 'GIVEN_BACK';
  }

  private loss(): LockLostError {
    return new LockLostError(this.key, this.lease.cause, this.lease.message);
  }

  /** For logs: no secret. */
  toString(): string {
    return `${this.key} token=${this.token} ${this.core.engine.holds(this.lease) ? 'held' : this.lease.cause}`;
  }

  /** For util.inspect: the fields have the secret lease id. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `Held { ${this.toString()} }`;
  }

  toJSON(): object {
    const {key, token, holderId, cause} = this;
    return {key, token, holderId, cause};
  }
}

/** Several locks that were taken together, in the order of the request. */
export class HeldAll implements AsyncDisposable {
  private together: AbortSignal | undefined;

  /** @internal */
  constructor(readonly parts: readonly Held[]) {}

  get tokens(): number[] {
    return this.parts.map(part => part.token);
  }

  /** Whether all are held at this moment. */
  get isHeld(): boolean {
    return this.parts.every(part => part.isHeld);
  }

  /** Aborted when one of them is lost, with a LockLostError as its reason. */
  get signal(): AbortSignal {
    const signals = this.parts.map(part => part.signal);
    if (this.together === undefined) {
      const controller = new AbortController();
      this.together = controller.signal;
      for (const signal of signals) {
        const follow = (): void => { controller.abort(signal.reason); };
        if (signal.aborted) follow();
        else signal.addEventListener('abort', follow, {once: true});
      }
    }
    return this.together;
  }

  /** @throws LockLostError unless all are held at this moment */
  check(): void {
    for (const part of this.parts) part.check();
  }

  /** Gives all back, and waits for the answers. */
  async release(): Promise<Outcome[]> {
    return Promise.all(this.parts.map(async part => part.release()));
  }

  /** @internal As that of Held. */
  async leave(): Promise<void> {
    await Promise.all(this.parts.map(async part => part.leave()));
  }

  /** Sends the releases and does not wait. */
  releaseSoon(): void {
    for (const part of this.parts) part.releaseSoon();
  }

  /** As that of Held, for the first that was lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    const left = await Promise.allSettled(this.parts.map(async part => part[Symbol.asyncDispose]()));
    const lost = left.find(one => one.status === 'rejected');
    if (lost !== undefined) throw lost.reason;
  }

  [Symbol.iterator](): Iterator<Held> {
    return this.parts[Symbol.iterator]();
  }
}
