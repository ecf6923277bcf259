// SPDX-License-Identifier: Apache-2.0
//
// A session with a broker: what is known of it, and the commands that it has not sent yet.
import {BinaryWriter} from '@bufbuild/protobuf/wire';
import {SessionBelief} from './belief.js';
import {NEVER} from './clock.js';
import {SessionCommand} from './generated/distlock/v1/lock_service_pb.js';

export type Command = NonNullable<SessionCommand['command']>;

/** A command as bytes, and its ids: one for each lock; 0 for OpenSession, which has an event of its own. Without any: it
 * waits for no answers. */
interface Encoded {
  first: number;
  count: number;
  bytes: Uint8Array;
}

const FRAME = 6; // of a command in its message: tag and length, at most
const COMMANDS = (1 << 3) | 2; // tag of SessionRequest.commands
const FIRST_MAX_BYTES = 64 << 10;
export const MOST_AHEAD = 256; // commands without an event, where the broker tells no limit

// One for all, because each allocates a buffer. finish() empties it.
const writer = new BinaryWriter();

function bytesOf(id: number, command: Command): Uint8Array {
  try {
    return SessionCommand.encode({id, command}, writer).finish();
  } catch (error) {
    writer.finish();
    throw error;
  }
}

function idsOf(command: Command): number {
  if (command.$case === 'acquire') return command.acquire.locks.length;
  return command.$case === 'adopt' ? Math.max(command.adopt.holdCount, 1) : 1;
}

/** A session, or the place for the next one. */
export class Link {
  session = new SessionBelief(0, 0);
  streaming = false; // there is a stream, opened or not
  opened = false;
  adopts = false;
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
    if (!this.streaming) return NEVER;
    return this.opened && !this.leaving ? Math.min(this.heartbeatAt, this.session.deadline) : this.session.deadline;
  }

  /** False, and nothing is sent: it is too large for a message. Nothing may follow a Goodbye. */
  send(id: number, command: Command): boolean {
    if (this.leaving) return true;
    const bytes = bytesOf(id, command);
    if (bytes.length + FRAME > this.maxBytes) return false;
    if (command.$case === 'cancel') this.urgent.push({first: 0, count: 0, bytes});
    else this.commands.push({first: command.$case === 'open' ? 0 : id, count: idsOf(command), bytes});
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
  pack(now: number): Uint8Array | undefined {
    if (this.heartbeatDue) {
      this.heartbeatDue = false;
      const heartbeat = {seq: this.session.send(now)};
      this.urgent.unshift({first: 0, count: 0, bytes: bytesOf(0, {$case: 'heartbeat', heartbeat})});
      this.heartbeatAt = now + this.interval;
    }
    let left = this.maxBytes;
    for (const queue of [this.urgent, this.commands]) {
      let sent = 0;
      for (const command of queue) {
        if (command.count > 0 && this.commandsAhead >= this.mostAhead) break;
        const empty = left === this.maxBytes;
        left -= command.bytes.length + FRAME;
        if (left < 0 && !empty) break;
        for (let i = 0; i < command.count; ++i) this.ahead.set(command.first + i, command);
        this.commandsAhead += Math.min(command.count, 1);
        writer.uint32(COMMANDS).bytes(command.bytes);
        sent += 1;
      }
      queue.splice(0, sent);
    }
    return left === this.maxBytes ? undefined : writer.finish();
  }
}
