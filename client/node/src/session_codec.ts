// SPDX-License-Identifier: Apache-2.0
//
// The messages of a session as bytes. What comes and goes with every lock - acquires, releases, grants - is read and
// written here, without what the lock table does not look at: the generated code makes a bigint of each number and a
// text of each name, which is half of what a lock costs this process. All else is the generated code's.
import {BinaryWriter} from '@bufbuild/protobuf/wire';
import {type Grant, LockMode, LockSpec} from './generated/distlock/v1/lock_pb.js';
import {ReleaseOutcome, SessionCommand, SessionEvent} from './generated/distlock/v1/lock_service_pb.js';
import type {Duration} from './generated/google/protobuf/duration_pb.js';

export type Command = NonNullable<SessionCommand['command']>;

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
// Numbers of fields in lock_service.proto and lock.proto.
const LIST = 1; // SessionRequest.commands, SessionResponse.events, AcquireLocks.locks
const ID = 1; // SessionCommand.id, SessionEvent.id
const COMMAND = {acquire: 3, release: 4};
const REQUEST_ID = 2;
const RELEASE = {acquireId: 1, lapsed: 3};
const EVENT = {granted: 4, released: 6};
const GRANT = {leaseId: 4, holderId: 5, fencingToken: 6, validFor: 7, echoSeq: 8, waited: 10, holdCount: 11};
const OUTCOME = 2;
const LONGEST_VARINT = 10;
const OUTCOMES = [ReleaseOutcome.UNSPECIFIED, ReleaseOutcome.RELEASED, ReleaseOutcome.STILL_HELD,
  ReleaseOutcome.ALREADY_GONE];

const tagOf = (number: number, kind: number): number => (number << 3) | kind; // less than 128 for all of these

// ---- Reading ----

/** Reads the fields of one message, [pos, end) of a buffer. */
class Fields {
  number = 0;
  kind = 0;

  constructor(readonly bytes: Buffer, public pos: number, readonly end: number) {}

  /** Goes to the next field; false: there is none. */
  next(): boolean {
    if (this.pos >= this.end) return false;
    const tag = this.varint();
    this.number = Math.floor(tag / 8);
    this.kind = tag % 8;
    return true;
  }

  varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < LONGEST_VARINT; ++i) {
      if (this.pos >= this.end) break;
      const byte = this.bytes[this.pos++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value <= Number.MAX_SAFE_INTEGER ? value : this.long(i + 1);
      scale *= 128;
    }
    throw new RangeError('a message of the broker ends within a number');
  }

  /** The number in the last `length` bytes, which is negative or too large. */
  private long(length: number): number {
    let value = 0n;
    for (let i = 1; i <= length; ++i) value = (value << 7n) | BigInt((this.bytes[this.pos - i] as number) & 0x7f);
    const found = Number(BigInt.asIntN(64, value));
    if (!Number.isSafeInteger(found)) throw new RangeError(`a number of the broker is too large: ${value}`);
    return found;
  }

  /** The end of what follows, which has a length. */
  private bounds(): number {
    const end = this.varint() + this.pos;
    if (end > this.end || end < this.pos) throw new RangeError('a message of the broker ends within a field');
    return end;
  }

  message(): Fields {
    const end = this.bounds();
    const found = new Fields(this.bytes, this.pos, end);
    this.pos = end;
    return found;
  }

  text(): string {
    const end = this.bounds();
    const found = this.bytes.toString('utf8', this.pos, end);
    this.pos = end;
    return found;
  }

  duration(): Duration {
    const from = this.message();
    const found = {seconds: 0, nanos: 0};
    while (from.next()) {
      if (from.number === 1 && from.kind === VARINT) found.seconds = from.varint();
      else if (from.number === 2 && from.kind === VARINT) found.nanos = from.varint();
      else from.skip();
    }
    return found;
  }

  skip(): void {
    if (this.kind === VARINT) this.varint();
    else if (this.kind === BYTES) this.pos = this.bounds();
    else if (this.kind === FIXED64 || this.kind === FIXED32) this.pos += this.kind === FIXED64 ? 8 : 4;
    else throw new RangeError('a message of the broker has a field of an unknown kind');
    if (this.pos > this.end) throw new RangeError('a message of the broker ends within a field');
  }
}

/** The events of a SessionResponse. Throws for bytes that are none. */
export function readEvents(bytes: Buffer): SessionEvent[] {
  const events: SessionEvent[] = [];
  const from = new Fields(bytes, 0, bytes.length);
  while (from.next()) {
    if (from.number === LIST && from.kind === BYTES) events.push(readEvent(from.message()));
    else from.skip();
  }
  return events;
}

function readEvent(from: Fields): SessionEvent {
  const begin = from.pos;
  let id = 0;
  let kind = 0;
  let body: Fields | undefined;
  while (from.next()) {
    if (from.number === ID && from.kind === VARINT) {
      id = from.varint();
    } else if (from.kind === BYTES) {
      kind = from.number;
      body = from.message();
    } else {
      from.skip();
      kind = from.number;
    }
  }
  if (kind === EVENT.granted && body !== undefined) return {id, event: {$case: 'granted', granted: readGrant(body)}};
  if (kind === EVENT.released && body !== undefined) {
    return {id, event: {$case: 'released', released: {lease: undefined, outcome: readOutcome(body)}}};
  }
  return SessionEvent.decode(from.bytes.subarray(begin, from.end));
}

function readGrant(from: Fields): Grant {
  const grant: Grant = {namespace: '', key: '', mode: LockMode.UNSPECIFIED, leaseId: '', holderId: '', fencingToken: 0,
    validFor: undefined, echoSeq: 0, ttl: undefined, waited: undefined, holdCount: 0, replicasAcked: 0,
    sinceGranted: undefined};
  while (from.next()) {
    if (from.kind === BYTES) {
      switch (from.number) {
        case GRANT.leaseId: grant.leaseId = from.text(); break;
        case GRANT.holderId: grant.holderId = from.text(); break;
        case GRANT.validFor: grant.validFor = from.duration(); break;
        case GRANT.waited: grant.waited = from.duration(); break;
        default: from.skip();
      }
    } else if (from.kind === VARINT) {
      const value = from.varint();
      if (from.number === GRANT.fencingToken) grant.fencingToken = value;
      else if (from.number === GRANT.echoSeq) grant.echoSeq = value;
      else if (from.number === GRANT.holdCount) grant.holdCount = value;
    } else {
      from.skip();
    }
  }
  return grant;
}

function readOutcome(from: Fields): ReleaseOutcome {
  let outcome = 0;
  while (from.next()) {
    if (from.number === OUTCOME && from.kind === VARINT) outcome = from.varint();
    else from.skip();
  }
  return OUTCOMES[outcome] ?? ReleaseOutcome.UNSPECIFIED; // one of a newer contract is not known
}

// ---- Writing ----

// One for all, because each allocates a buffer. finish() empties it.
const writer = new BinaryWriter();

function bytesInVarint(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes += 1;
  return bytes;
}

/** Writes a number from 0 on; returns the position behind it. */
function putVarint(into: Buffer, pos: number, value: number): number {
  let [at, rest] = [pos, value];
  for (; rest >= 128; rest = Math.floor(rest / 128)) into[at++] = (rest % 128) | 0x80;
  into[at++] = rest;
  return at;
}

const bytesInField = (length: number): number => 1 + bytesInVarint(length) + length;

function putHead(into: Buffer, pos: number, number: number, length: number): number {
  into[pos] = tagOf(number, BYTES);
  return putVarint(into, pos + 1, length);
}

function writeRelease(id: number, acquireId: number, lapsed: boolean): Buffer {
  const length = 1 + bytesInVarint(acquireId) + (lapsed ? 2 : 0);
  const made = Buffer.allocUnsafe(1 + bytesInVarint(id) + bytesInField(length));
  made[0] = tagOf(ID, VARINT);
  let pos = putHead(made, putVarint(made, 1, id), COMMAND.release, length);
  made[pos] = tagOf(RELEASE.acquireId, VARINT);
  pos = putVarint(made, pos + 1, acquireId);
  if (lapsed) {
    made[pos] = tagOf(RELEASE.lapsed, VARINT);
    made[pos + 1] = 1;
  }
  return made;
}

/** requestId: ASCII. */
function writeAcquire(id: number, locks: readonly LockSpec[], requestId: string): Buffer {
  writer.finish(); // what an encoding that failed has left
  const specs = locks.map(lock => LockSpec.encode(lock, writer).finish());
  let length = requestId === '' ? 0 : bytesInField(requestId.length);
  for (const spec of specs) length += bytesInField(spec.length);
  const made = Buffer.allocUnsafe(1 + bytesInVarint(id) + bytesInField(length));
  made[0] = tagOf(ID, VARINT);
  let pos = putHead(made, putVarint(made, 1, id), COMMAND.acquire, length);
  for (const spec of specs) {
    pos = putHead(made, pos, LIST, spec.length);
    made.set(spec, pos);
    pos += spec.length;
  }
  if (requestId !== '') made.write(requestId, putHead(made, pos, REQUEST_ID, requestId.length), 'latin1');
  return made;
}

/** A SessionCommand. */
export function writeCommand(id: number, command: Command): Uint8Array {
  if (command.$case === 'release' && command.release.leaseId === '') {
    return writeRelease(id, command.release.acquireId, command.release.lapsed);
  }
  if (command.$case === 'acquire') return writeAcquire(id, command.acquire.locks, command.acquire.requestId);
  writer.finish();
  return SessionCommand.encode({id, command}, writer).finish();
}

/** A SessionRequest of so many commands. */
export function writeRequest(commands: readonly Uint8Array[]): Buffer {
  let length = 0;
  for (const command of commands) length += bytesInField(command.length);
  const made = Buffer.allocUnsafe(length);
  let pos = 0;
  for (const command of commands) {
    pos = putHead(made, pos, LIST, command.length);
    made.set(command, pos);
    pos += command.length;
  }
  return made;
}
