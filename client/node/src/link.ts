// SPDX-License-Identifier: Apache-2.0
//
// A session with a broker: what is known of it, and the commands that it has not sent yet.
import {BinaryWriter} from '@bufbuild/protobuf/wire';
import {SessionBelief} from './belief.js';
import {NEVER} from './clock.js';
import {SessionCommand} from './generated/distlock/v1/lock_service_pb.js';

export type Command = NonNullable<SessionCommand['command']>;

/** A command as bytes, and its ids: one for each lock; 0 for OpenSession, which has an event of its own. */
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
  maxBytes = FIRST_MAX_BYTES;
  mostAhead = MOST_AHEAD;
  private commands: Encoded[] = [];
  private cancels: Uint8Array[] = []; // these go before the commands, and do not wait for answers
  private goodbye: Uint8Array | undefined;
  private readonly ahead = new Map<number, Encoded>(); // sent, without an event, by each of their ids
  private commandsAhead = 0;

  start(now: number, grace: number): void {
    this.stop();
    this.session = new SessionBelief(now, grace);
    this.streaming = true;
    this.acked = this.adopts = this.authenticates = this.proofRefused = false;
    this.proof = 0;
    this.heartbeatAt = this.drainedAt = NEVER;
    this.maxBytes = FIRST_MAX_BYTES;
    this.mostAhead = MOST_AHEAD;
  }

  stop(): void {
    this.streaming = this.opened = this.draining = this.leaving = this.heartbeatDue = false;
    this.commands = [];
    this.cancels = [];
    this.goodbye = undefined;
    this.ahead.clear();
    this.commandsAhead = 0;
  }

  /** False, and nothing is sent: it is too large for a message. Nothing may follow a Goodbye. */
  send(id: number, command: Command): boolean {
    if (this.leaving) return true;
    const bytes = bytesOf(id, command);
    if (bytes.length + FRAME > this.maxBytes) return false;
    if (command.$case === 'cancel') this.cancels.push(bytes);
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
    this.commands.length = Math.min(this.commands.length, Math.max(this.mostAhead - this.commandsAhead, 0));
    this.goodbye = bytesOf(0, {$case: 'goodbye', goodbye: {}});
  }

  /** An event has come under this id. Of several locks the first one counts. */
  onEvent(id: number): void {
    const found = this.ahead.get(id);
    if (found === undefined) return;
    this.commandsAhead -= 1;
    for (let i = 0; i < found.count; ++i) this.ahead.delete(found.first + i);
  }

  get empty(): boolean {
    return this.commands.length === 0 && this.cancels.length === 0 && this.goodbye === undefined;
  }

  /** The next message, or undefined. Takes the time of a heartbeat now, before the message is handed to gRPC. */
  pack(now: number): Uint8Array | undefined {
    const leave: Uint8Array[] = [];
    let left = this.maxBytes;
    const add = (bytes: Uint8Array): boolean => {
      if (bytes.length + FRAME > left && leave.length > 0) return false;
      left -= bytes.length + FRAME;
      leave.push(bytes);
      return true;
    };
    if (this.heartbeatDue) {
      this.heartbeatDue = false;
      const heartbeat = {seq: this.session.send(now)};
      add(bytesOf(0, {$case: 'heartbeat', heartbeat}));
      this.heartbeatAt = now + this.interval;
    }
    let sent = 0;
    while (sent < this.cancels.length && add(this.cancels[sent] as Uint8Array)) sent += 1;
    this.cancels.splice(0, sent);
    sent = 0;
    for (const command of this.commands) {
      if (this.commandsAhead >= this.mostAhead || !add(command.bytes)) break;
      for (let i = 0; i < command.count; ++i) this.ahead.set(command.first + i, command);
      this.commandsAhead += 1;
      sent += 1;
    }
    this.commands.splice(0, sent);
    if (this.goodbye !== undefined && this.commands.length === 0 && add(this.goodbye)) this.goodbye = undefined;
    for (const bytes of leave) writer.uint32(COMMANDS).bytes(bytes);
    return leave.length === 0 ? undefined : writer.finish();
  }
}
