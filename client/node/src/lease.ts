// SPDX-License-Identifier: Apache-2.0
//
// The records of the lock table: of a request, and of each lock that the request asks for.
import {NEVER} from './clock.js';
import type {Refusal} from './errors.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued} from './generated/distlock/v1/lock_service_pb.js';
import type {Link} from './link.js';
import type {Outcome} from './types.js';

export enum Phase {
  WAITING, // not answered yet
  GRANTED, // granted, but its deadline has passed already, or others of its request are missing
  HELD, // the program has it
  ENDED,
}

export type Answer = (refusal: Refusal | undefined) => void;
export type TellOutcome = (outcome: Outcome) => void;
export type TellQueued = (queued: AcquireQueued) => void;

/** One acquire of one lock or of several, until its answer. */
export class Request {
  leases: Lease[] = [];
  waitUntil = NEVER;
  oneTry = false;
  stranded = NEVER; // since when no broker has this request; NEVER: one has
  giveUpAt = NEVER;
  link: Link | undefined; // the session it was sent through
  turnedAway = false; // refused by a draining broker
  requestId = ''; // of its place in the queue; one try has none

  /** `answer`: called once. */
  constructor(public asked: number, public answer: Answer | undefined, readonly onQueued: TellQueued | undefined) {}

  get first(): Lease {
    return this.leases[0] as Lease; // a request has at least one lock
  }
}

/** One lock, from its request to its end. */
export class Lease {
  phase = Phase.WAITING;
  deadline = 0;
  leaseId = '';
  holderId = '';
  token = 0;
  waited = 0;
  holdCount = 1;
  cause = ''; // how it ended; '': it has not
  message = '';
  risk: string | undefined; // why renewals fail
  downgraded = false;
  modeUnsure = false;
  downgrades: Answer[] = []; // to be sent when it has arrived
  downgrading = 0; // sent, not answered
  stays = false; // no session can adopt it
  link: Link | undefined; // the session that has it; undefined: its former promise is all that is left
  to: Link | undefined; // the session that was asked to adopt it, as `toId`
  toId = 0;
  moveKey = ''; // of the adoption; kept until one has succeeded
  former: Link | undefined; // of a waiting one: the session it has left, until the next has its place
  crossed = false; // that session has granted it: to be given back there
  change: Change | undefined;
  onEnd: (() => void)[] = []; // told once, when it ends after it was held, other than by a release

  constructor(public id: number, readonly request: Request, public spec: LockSpec) {}

  /** Two holds of one reentrant lease. */
  same(other: Lease): boolean {
    const [a, b] = [this.spec, other.spec];
    return this === other || (a.reentrant && b.reentrant && this.token === other.token && a.key === b.key
      && a.namespace === b.namespace);
  }
}

/** What others are to see of a held lease, until an adoption in its session shows it. `told`: called once each. */
export class Change {
  sent: LockSpec | undefined; // by the adoption that is under way
  told: Answer[] = [];

  constructor(public spec: LockSpec) {}
}

const BEST_FIRST: Outcome[] = ['RELEASED', 'STILL_HELD', 'UNKNOWN', 'ALREADY_GONE'];

/**
 * A lease on its way back: released in each session that may have it. Without an answer, a later session adopts it
 * under `key`, and releases it then. `tell` hears the outcome when all have answered.
 */
export class Return {
  missing = 0;
  broken = false;
  outcome: Outcome = 'ALREADY_GONE';
  key: string;

  constructor(readonly lease: Lease, readonly lapsed: boolean, readonly tell?: TellOutcome) {
    this.key = lease.moveKey;
  }

  /** Of two sessions, only one has had the lease. */
  heard(outcome: Outcome): void {
    this.missing -= 1;
    if (BEST_FIRST.indexOf(outcome) < BEST_FIRST.indexOf(this.outcome)) this.outcome = outcome;
  }
}
