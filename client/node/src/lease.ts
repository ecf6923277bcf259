// SPDX-License-Identifier: Apache-2.0
//
// What the lock table keeps of a request, of each lock that it asks for, of a session, and of a lease that moves.
import {SessionBelief} from './belief.js';
import {NEVER} from './clock.js';
import type {Refusal} from './errors.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import type {AcquireQueued} from './generated/distlock/v1/lock_service_pb.js';
import {type Command, writeCommand, writeRequest} from './session_codec.js';
import type {Outcome} from './types.js';

const FRAME = 6; // of a command in its message: tag and length, at most
const FIRST_MAX_BYTES = 64 << 10;
export const MOST_AHEAD = 256; // commands without an event, where the broker tells no limit

export enum Phase {
  WAITING, // not answered yet
  GRANTED, // granted, but its deadline has passed already, or others of its request are missing
  HELD, // the program has it
  ENDED,
}

export type Answer = (refusal: Refusal | undefined) => void;
export type TellOutcome = (outcome: Outcome) => void;

/** One acquire of one lock or of several, until its answer. */
export class Request {
  leases: Lease[] = [];
  waitUntil = NEVER;
  oneTry = false;
  stranded = NEVER; // since when no broker has this request; NEVER: one has
  wake = NEVER; // its entry in the table's timeouts
  link: Link | undefined; // the session it was sent through
  turnedAway = false; // refused by a draining broker
  requestId = '';

  /** `answer`: called once. */
  constructor(
    public asked: number,
    public answer: Answer | undefined,
    readonly onQueued: ((queued: AcquireQueued) => void) | undefined,
  ) {}

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
  stays = false; // no session can adopt it
  link: Link | undefined; // the session that has it; undefined: its former promise is all that is left
  move: Move | undefined;
  former: Link | undefined; // of a waiting one: the session it has left, until the next has its place
  crossed = false; // that session has granted it: to be given back there
  change: Change | undefined;
  onEnd: (() => void)[] = []; // told once, when it ends after it was held, other than by a release

  constructor(
    public id: number,
    readonly request: Request,
    public spec: LockSpec,
  ) {}

  /** Two holds of one reentrant lease. */
  same(other: Lease): boolean {
    const [a, b] = [this.spec, other.spec];
    return this === other || (a.reentrant && b.reentrant && this.token === other.token && a.key === b.key
      && a.namespace === b.namespace);
  }
}

/** What others are to see of a lease, until a session shows it. `told`: called once each. */
export class Change {
  sent: LockSpec | undefined; // by the adoption that is under way
  told: Answer[] = [];

  constructor(public spec: LockSpec) {}
}

/** An adoption, from the first AdoptLease until it is answered. All holds of a reentrant lease move together. */
export class Move {
  through: Link | undefined; // the session that was asked
  id = 0;
  holds: (Lease | undefined)[] = [];

  /** `requestId`: the same in every try: a try whose answer was lost may have succeeded. */
  constructor(readonly requestId: string) {}
}

/** A command, as bytes, and its ids: one for each lock; 0 for OpenSession, which has an event of its own. */
interface Encoded {
  first: number;
  last: number;
  bytes: Uint8Array;
}

function idsOf(command: Command): number {
  if (command.$case === 'acquire') return command.acquire.locks.length;
  return command.$case === 'adopt' ? Math.max(command.adopt.holdCount, 1) : 1;
}

/** A session with a broker, or the place for the next one; and the commands that it has not sent yet. */
export class Link {
  session = new SessionBelief(0, 0);
  streaming = false;
  opened = false;
  acked = false;
  adopts = false;
  authenticates = false;
  proof = 0; // id of the command that brought the last proof; 0: the call did
  proofRefused = false;
  draining = false;
  leaving = false;
  heartbeatDue = false;
  validity = 0;
  interval = 0;
  heartbeatAt = NEVER;
  drainedAt = NEVER;
  brokerId = '';
  maxBytes = FIRST_MAX_BYTES;
  mostAhead = MOST_AHEAD;
  private commands: Encoded[] = [];
  private cancels: Uint8Array[] = []; // these go before the commands, and do not wait for answers
  private goodbye: Uint8Array | undefined;
  private ahead: Encoded[] = []; // sent, without an event

  start(now: number, grace: number): void {
    this.end();
    this.session = new SessionBelief(now, grace);
    this.streaming = true;
    this.acked = this.adopts = this.authenticates = this.proofRefused = false;
    this.proof = 0;
    this.heartbeatAt = this.drainedAt = NEVER;
    this.maxBytes = FIRST_MAX_BYTES;
    this.mostAhead = MOST_AHEAD;
  }

  end(): void {
    this.streaming = this.opened = this.draining = this.leaving = this.heartbeatDue = false;
    this.commands = [];
    this.cancels = [];
    this.goodbye = undefined;
    this.ahead = [];
  }

  /** False, and nothing is sent: it is too large for a message. */
  send(id: number, command: Command): boolean {
    const bytes = writeCommand(id, command);
    if (bytes.length + FRAME > this.maxBytes) return false;
    if (command.$case === 'cancel') this.cancels.push(bytes);
    else if (command.$case === 'goodbye') this.goodbye = bytes;
    else if (command.$case === 'open') this.commands.push({first: 0, last: 0, bytes});
    else this.commands.push({first: id, last: id + idsOf(command) - 1, bytes});
    return true;
  }

  /** Takes a command back that has not been sent. False: it has. */
  drop(id: number): boolean {
    const at = this.commands.findIndex(({first}) => first === id);
    if (at >= 0) this.commands.splice(at, 1);
    return at >= 0;
  }

  /** The command with this id is not unanswered any more. Of several locks the first event counts. */
  onEvent(id: number): void {
    const at = this.ahead.findIndex(({first, last}) => first <= id && id <= last);
    if (at >= 0) this.ahead.splice(at, 1);
  }

  private get full(): boolean {
    return this.ahead.length >= this.mostAhead;
  }

  get empty(): boolean {
    return this.commands.length === 0 && this.cancels.length === 0 && this.goodbye === undefined;
  }

  /** The next message, or undefined. Takes the time of a heartbeat now, before the message is handed to gRPC. */
  pack(now: number): Uint8Array | undefined {
    const leave: Uint8Array[] = [];
    let left = this.maxBytes;
    const fits = (bytes: Uint8Array): boolean => {
      left -= bytes.length + FRAME;
      if (left < 0 && leave.length > 0) return false;
      leave.push(bytes);
      return true;
    };
    if (this.heartbeatDue) {
      this.heartbeatDue = false;
      const heartbeat = {seq: this.session.send(now)};
      fits(writeCommand(0, {$case: 'heartbeat', heartbeat}));
      this.heartbeatAt = now + this.interval;
    }
    let count = 0;
    while (count < this.cancels.length && fits(this.cancels[count] as Uint8Array)) count += 1;
    this.cancels.splice(0, count);
    count = 0;
    for (const command of this.commands) {
      if (this.full || !fits(command.bytes)) break;
      this.ahead.push(command);
      count += 1;
    }
    this.commands.splice(0, count);
    this.sayGoodbye(fits);
    return leave.length === 0 ? undefined : writeRequest(leave);
  }

  /** Goodbye waits for no answers, and nothing may follow it. */
  private sayGoodbye(fits: (bytes: Uint8Array) => boolean): void {
    if (this.goodbye === undefined || (this.commands.length > 0 && !this.full) || !fits(this.goodbye)) return;
    this.goodbye = undefined;
    this.commands = [];
  }
}
