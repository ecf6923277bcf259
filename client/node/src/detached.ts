// SPDX-License-Identifier: Apache-2.0
//
// Detached leases.
import {randomBytes} from 'node:crypto';
import {fromWire, outcomeOf, toWire} from './convert.js';
import type {Core} from './core.js';
import {LockLostError, RefusedError} from './errors.js';
import type {Grant, LockSpec} from './generated/distlock/v1/lock_pb.js';
import {AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse,
} from './generated/distlock/v1/lock_service_pb.js';
import {call, PATIENCE} from './operations.js';
import type {Outcome} from './types.js';

const REPEATS = 3;
const LEAST_WAIT = 1; // 0 would turn a bounded wait into one try

/**
 * A lease without a stream: this program renews it, at any broker of the store, before `validFor` is over. Its leaseId
 * may be handed to another process, which takes it up with Client.detached.
 */
export class DetachedLease {
  private cause = '';
  private gaveBack = false;

  /** @internal `deadline` 0: handed over by another process, to be renewed before use. */
  constructor(
    private readonly core: Core,
    readonly key: string,
    /** Secret: whoever knows it can renew and release the lease. */
    readonly leaseId: string,
    readonly holderId = '',
    /** See Held.token; 0 when the lease was handed over by another process. */
    readonly token = 0,
    private deadline = 0,
  ) {}

  /** Whether it may be believed in, by the clock, at this moment. */
  get isHeld(): boolean {
    if (this.cause === '' && !this.unsure && this.core.now() >= this.deadline) this.cause = 'LAPSED';
    return this.cause === '' && !this.unsure;
  }

  /** Milliseconds until the present deadline; 0 when it is not held. */
  get validFor(): number {
    return this.isHeld ? Math.max(this.deadline - this.core.now(), 0) : 0;
  }

  private get unsure(): boolean {
    return this.deadline === 0;
  }

  /** @throws LockLostError unless it is held at this moment */
  check(): void {
    if (this.isHeld) return;
    throw new LockLostError(this.key, this.cause || 'UNKNOWN', this.unsure ? 'renew it before use' : '');
  }

  /**
   * Extends the lease to its full ttl; milliseconds until the new deadline.
   *
   * @throws LockLostError, UnavailableError and other RefusedErrors
   */
  async renew(): Promise<number> {
    if (this.cause === '' && !this.unsure && !this.isHeld) this.cause = 'LAPSED';
    if (this.cause !== '') throw await this.lapsed('its deadline has passed, which is final');
    let sent = 0;
    const request = (): RenewRequest => {
      sent = this.core.now();
      return {leaseId: this.leaseId};
    };
    let response: RenewResponse;
    try {
      response = await call(this.core, 'Renew', RenewRequest, RenewResponse, request);
    } catch (error) {
      if (!(error instanceof RefusedError) || error.reason !== 'NOT_HOLDER') throw error;
      this.cause = 'TAKEN';
      throw new LockLostError(this.key, 'TAKEN', error.message);
    }
    if (!this.unsure && !this.isHeld) throw await this.lapsed('the answer to the renewal came after the deadline');
    this.deadline = sent + fromWire(response.validFor);
    return this.validFor;
  }

  /** Gives back what lapsed, once, so that the lock need not wait for its ttl. Without an answer that ends it. */
  private async lapsed(why: string): Promise<LockLostError> {
    if (this.cause === 'LAPSED' && !this.gaveBack) await this.giveBack().catch(() => undefined);
    return new LockLostError(this.key, this.cause, why);
  }

  /**
   * Gives the lock back.
   *
   * @throws UnavailableError: then the ttl ends it
   */
  async release(): Promise<Outcome> {
    if (this.cause === '') this.cause = 'GIVEN_BACK';
    return this.giveBack();
  }

  private async giveBack(): Promise<Outcome> {
    this.gaveBack = true;
    const request = {leaseId: this.leaseId};
    return outcomeOf((await call(this.core, 'Release', ReleaseRequest, ReleaseResponse, () => request)).outcome);
  }
}

/**
 * Repeats the request under its request_id when no broker answers: it finds the grant whose answer was lost.
 *
 * @internal
 */
export async function acquireDetached(core: Core, spec: LockSpec, wait: number | undefined,
  signal: AbortSignal | undefined): Promise<DetachedLease> {
  const requestId = randomBytes(16).toString('hex');
  const until = core.now() + (wait ?? 0);
  let sent = 0;
  const request = (): AcquireRequest => {
    sent = core.now();
    if (wait !== undefined) spec.maxWait = toWire(wait === 0 ? 0 : Math.max(until - sent, LEAST_WAIT));
    return {locks: [spec], requestId};
  };
  const timeout = wait === undefined ? Infinity : wait + PATIENCE;
  for (let left = REPEATS; ; --left) {
    try {
      const {grants} = await call(core, 'Acquire', AcquireRequest, AcquireResponse, request, timeout, signal);
      return await detachedOf(core, grants[0] as Grant, sent);
    } catch (error) {
      if (!(error instanceof RefusedError) || error.reason !== 'UNREACHABLE' || left === 0) throw error;
    }
  }
}

async function detachedOf(core: Core, grant: Grant, sent: number): Promise<DetachedLease> {
  const deadline = sent + fromWire(grant.waited) + fromWire(grant.validFor);
  const late = core.now() >= deadline; // after a wait of hundreds of ttls
  const lease = new DetachedLease(core, grant.key, grant.leaseId, grant.holderId, grant.fencingToken,
    late ? 0 : deadline);
  if (late) await lease.renew();
  return lease;
}
