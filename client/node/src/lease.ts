// SPDX-License-Identifier: Apache-2.0
//
// The records of the lock table: of a request, of each lock that the request asks for, and of a session with a broker.
import {BinaryWriter} from '@bufbuild/protobuf/wire';
import {NEVER} from './clock.js';
import type {Refusal} from './errors.js';
import type {LockSpec} from './generated/distlock/v1/lock_pb.js';
import {type AcquireQueued, type SessionCommand, SessionRequest} from './generated/distlock/v1/lock_service_pb.js';
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
  store = ''; // of the session that had it last
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
  /** The spec to show to others, until an adoption in its session shows it. `sent`: by the one that is under way. */
  change: {spec: LockSpec; sent?: LockSpec; told: Answer[]} | undefined;
  onEnd: (() => void)[] = []; // told once, when it ends after it was held, other than by a release

  constructor(public id: number, readonly request: Request, public spec: LockSpec) {}

  /** Two holds of one reentrant lease. */
  same(other: Lease): boolean {
    const [a, b] = [this.spec, other.spec];
    return this === other || (a.reentrant && b.reentrant && this.token === other.token && a.key === b.key
      && a.namespace === b.namespace);
  }
}

/**
 * A lease on its way back: released in each session that may have it. Without an answer, a later session adopts it
 * under `key`, and releases it then. `tell` hears the outcome when all have answered.
 */
export class Return {
  missing = 0;
  broken = false;
  outcome: Outcome = 'ALREADY_GONE'; // the best of all: of two sessions, only one has had the lease

  constructor(readonly lease: Lease, readonly lapsed: boolean, readonly tell?: TellOutcome,
    readonly key = lease.moveKey) {}
}

export type Command = NonNullable<SessionCommand['command']>;

/** A message of one command, and its ids: one for each lock; 0 for OpenSession; none where no event answers. */
interface Encoded {
  first: number;
  count: number;
  bytes: Uint8Array;
}

const REMEMBERED = 64; // heartbeats
const FIRST_MAX_BYTES = 64 << 10;
export const MOST_AHEAD = 256; // commands without an event, where the broker tells no limit

// One for all, because each allocates a buffer. finish() empties it.
const writer = new BinaryWriter();

/** A message of one command. One behind the other, such messages are the message of all their commands. */
function bytesOf(id: number, command: Command): Uint8Array {
  return SessionRequest.encode({commands: [{id, command}]}, writer).finish();
}

/** One session, from its Open (heartbeat 0) to its end. */
export class SessionBelief {
  lastSent = 0;
  lastSentAt: number;
  lastAcked = -1;
  deadline: number;
  private readonly sent: Map<number, number>;

  /** `grace`: how long the broker has to answer the Open. */
  constructor(now: number, grace: number) {
    this.sent = new Map([[0, now]]);
    this.lastSentAt = now;
    this.deadline = now + grace;
  }

  /** A heartbeat is about to be handed to gRPC; its seq. */
  send(now: number): number {
    this.lastSent += 1;
    this.lastSentAt = now;
    this.sent.set(this.lastSent, now);
    this.sent.delete(this.lastSent - REMEMBERED);
    return this.lastSent;
  }

  /** The deadline of a promise that answers heartbeat `seq`; 0 for one that is forgotten or was never sent. */
  deadlineOf(seq: number, validFor: number): number {
    const sent = this.sent.get(seq);
    return sent === undefined ? 0 : sent + validFor;
  }

  /** Whether this ack extends anything. */
  ack(seq: number, validFor: number, now: number): boolean {
    const deadline = this.deadlineOf(seq, validFor);
    if (this.lapsed(now) || deadline === 0 || seq <= this.lastAcked) return false;
    // The grace of the Open is no promise: the first answer replaces it.
    this.deadline = this.lastAcked < 0 ? deadline : Math.max(this.deadline, deadline);
    this.lastAcked = seq;
    return true;
  }

  /** No answer came for a whole validity: the broker has given the session up, too. Final: then no ack counts. */
  lapsed(now: number): boolean {
    return now >= this.deadline;
  }

  get unanswered(): number {
    return this.lastSent - Math.max(this.lastAcked, 0);
  }

  /** Whether a heartbeat is unanswered, and half of what was left until `deadline` when it was sent is gone. */
  overdue(deadline: number, now: number): boolean {
    const oldest = Math.max(this.lastAcked + 1, 1, this.lastSent - REMEMBERED + 1);
    const since = this.sent.get(oldest) ?? now;
    return now - since >= (deadline - since) / 2;
  }
}

/** A session, or the place for the next one. */
export class Link {
  session = new SessionBelief(0, 0);
  streaming = false; // there is a stream, opened or not
  opened = false;
  adopts = false;
  store = ''; // the id of the broker's store; '': not known
  authenticates = false;
  shown: string | undefined; // the proof that the broker was shown last; undefined: it wants to see it again
  proof = 0; // id of the command that brought it; 0: the call did
  draining = false;
  leaving = false;
  heartbeatDue = false;
  validity = 0;
  interval = 0;
  heartbeatAt = NEVER;
  drainedAt = NEVER;
  maxBytes = FIRST_MAX_BYTES;
  mostAhead = MOST_AHEAD;
  private readonly urgent: Encoded[] = []; // these go before the commands
  private readonly commands: Encoded[] = [];
  private readonly ahead = new Map<number, Encoded>(); // sent, without an event, by each of their ids
  private commandsAhead = 0;

  start(now: number, grace: number): void {
    this.session = new SessionBelief(now, grace);
    this.streaming = true;
  }

  /** When something is to be done for it. */
  get due(): number {
    const beat = this.heartbeatDue || this.leaving ? NEVER : this.heartbeatAt;
    return this.streaming ? Math.min(beat, this.session.deadline) : NEVER;
  }

  /** count: of its locks. False, and nothing is sent: it is too large for a message. Nothing may follow a Goodbye. */
  send(id: number, command: Command, count = 1): boolean {
    if (this.leaving) return true;
    const bytes = bytesOf(id, command);
    if (bytes.length > this.maxBytes) return false;
    if (command.$case === 'cancel') this.urgent.push({first: 0, count: 0, bytes});
    else this.commands.push({first: command.$case === 'open' ? 0 : id, count, bytes});
    return true;
  }

  /** Takes a command back that has not been sent. False: it has. */
  drop(id: number): boolean {
    const at = this.commands.findIndex(({first}) => first === id);
    if (at >= 0) this.commands.splice(at, 1);
    return at >= 0;
  }

  /** Behind what may be sent now: with the session the broker frees what it has not heard of. */
  sayGoodbye(): void {
    this.leaving = true;
    this.heartbeatDue = false;
    this.commands.splice(Math.max(this.mostAhead - this.commandsAhead, 0));
    this.commands.push({first: 0, count: 0, bytes: bytesOf(0, {$case: 'goodbye', goodbye: {}})});
  }

  /** An event has come under this id. Of several locks the first one counts. */
  onEvent(id: number): void {
    const found = this.ahead.get(id);
    if (found === undefined) return;
    this.commandsAhead -= 1;
    for (let i = 0; i < found.count; ++i) this.ahead.delete(found.first + i);
  }

  get empty(): boolean {
    return this.commands.length === 0 && this.urgent.length === 0;
  }

  /** The next message, or undefined. Takes the time of a heartbeat now, before the message is handed to gRPC. */
  pack(now: number): Buffer | undefined {
    if (this.heartbeatDue) {
      this.heartbeatDue = false;
      const heartbeat = {seq: this.session.send(now)};
      this.urgent.unshift({first: 0, count: 0, bytes: bytesOf(0, {$case: 'heartbeat', heartbeat})});
      this.heartbeatAt = now + this.interval;
    }
    const leave: Uint8Array[] = [];
    let left = this.maxBytes;
    for (const queue of [this.urgent, this.commands]) {
      let sent = 0;
      for (const command of queue) {
        if (command.count > 0 && this.commandsAhead >= this.mostAhead) break;
        left -= command.bytes.length;
        if (left < 0) break;
        for (let i = 0; i < command.count; ++i) this.ahead.set(command.first + i, command);
        this.commandsAhead += Math.min(command.count, 1);
        leave.push(command.bytes);
        sent += 1;
      }
      queue.splice(0, sent);
    }
    return leave.length === 0 ? undefined : Buffer.concat(leave);
  }
}
