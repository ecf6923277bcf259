// SPDX-License-Identifier: Apache-2.0
//
// Converts between the wire's messages and this package's values. Durations are milliseconds here.
import {hostname, userInfo} from 'node:os';
import {invalid, type Refusal} from './errors.js';
import * as wire from './generated/distlock/v1/lock_pb.js';
import {type AcquireQueued, ReleaseOutcome} from './generated/distlock/v1/lock_service_pb.js';
import type {Duration as WireDuration} from './generated/google/protobuf/duration_pb.js';
import type {Block, Duration, Holder, LockInfo, LockRequest, LockSettings, Mode, OnDisconnect, Outcome, Policy, Queued,
} from './types.js';
import {worded} from './words.js';

const UNITS: Record<string, number> = {ms: 1, s: 1000, m: 60_000, h: 3_600_000};
const LONGEST = 1e12; // milliseconds; the broker's own limits are far below
const LABEL_BYTES = 256;
const HALF = /\p{Surrogate}/u; // with this flag, one without the other

const MODES: Record<Mode, wire.LockMode> = {
  EXCLUSIVE: wire.LockMode.EXCLUSIVE, SHARED: wire.LockMode.SHARED, PERMIT: wire.LockMode.PERMIT,
};
const POLICIES: Record<Policy, wire.QueuePolicy> = {
  FAIR: wire.QueuePolicy.FAIR, WRITER_PREFERRING: wire.QueuePolicy.WRITER_PREFERRING,
  READER_PREFERRING: wire.QueuePolicy.READER_PREFERRING, ADAPTIVE: wire.QueuePolicy.ADAPTIVE,
};
const ON_DISCONNECT: Record<OnDisconnect, wire.OnDisconnect> = {
  SAFE: wire.OnDisconnect.SAFE, RELEASE: wire.OnDisconnect.RELEASE, EXPIRE: wire.OnDisconnect.EXPIRE,
};
const OUTCOMES: Record<number, Outcome> = {
  [ReleaseOutcome.RELEASED]: 'RELEASED', [ReleaseOutcome.STILL_HELD]: 'STILL_HELD',
  [ReleaseOutcome.ALREADY_GONE]: 'ALREADY_GONE',
};
const SHORT = 100; // milliseconds: whoever gives a smaller number may mean seconds
const SETTINGS = ['namespace', 'ttl', 'maxHold', 'lockDelay', 'minHold', 'policy', 'onDisconnect', 'owner',
  'metadata', 'reentrant', 'resume'];

const asked = new Set<string>(); // the fields that have been warned of

/** Milliseconds of a caller's duration. `field` names it in the error. */
export function milliseconds(value: Duration, field: string): number {
  const found = typeof value === 'string' ? parse(value) : value;
  if (typeof found !== 'number' || !(found >= 0 && found <= LONGEST)) {
    const text = typeof value === 'string' ? `'${value}'` : String(value);
    throw invalid(field, `is ${text}; it must be milliseconds, 0 or more, or a text such as '10s', '1.5m' or '500ms'`);
  }
  if (found !== 0 && found < SHORT && typeof value === 'number' && !asked.has(field)) {
    asked.add(field);
    process.emitWarning(`distlock: ${field} is ${found}, which is ${found} milliseconds: write '${found}ms' if that is `
      + `meant, else '${found}s'`);
  }
  return found;
}

function parse(text: string): number {
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return NaN;
  let sum = 0;
  for (const [, number, unit = ''] of text.matchAll(/([\d.]+)(ms|s|m|h)/g)) {
    sum += Number(number) * (UNITS[unit] ?? NaN);
  }
  return sum;
}

export function toWire(millis: number): WireDuration {
  const seconds = Math.floor(millis / 1000);
  const nanos = Math.round((millis - seconds * 1000) * 1e6);
  return nanos < 1e9 ? {seconds, nanos} : {seconds: seconds + 1, nanos: 0};
}

export function fromWire(duration: WireDuration | undefined): number {
  return duration === undefined ? 0 : duration.seconds * 1000 + duration.nanos / 1e6;
}

/** Throws for what is no text: half a character would become another one on its way, and two keys one lock. */
export function text(value: unknown, field: string): string {
  if (typeof value !== 'string') throw invalid(field, `is ${String(value)}; it must be a string`);
  if (HALF.test(value)) {
    throw invalid(field, `is ${JSON.stringify(value)}, which has half a character (a surrogate without the other one): `
      + 'cut texts between characters, as by Array.from()');
  }
  return value;
}

/** user@host:pid, as distlockctl says it. */
function processOwner(): string {
  let user: string;
  try {
    user = userInfo().username;
  } catch { // one without a name
    user = `uid${process.geteuid?.() ?? ''}`;
  }
  return cutLabel(`${user}@${hostname()}:${process.pid}`);
}

let here: string | undefined;

/** Holds of one reentrant lock are those of one owner: that must be named. */
function ownerOf({owner = '', reentrant = false}: LockSettings): string {
  if (owner !== '' || reentrant) return text(owner, 'owner');
  here ??= processOwner();
  return here;
}

/** A fencing token, as Held.token or a database's 64 bits have it. */
export function tokenOf(token: unknown): number {
  const found = typeof token === 'bigint' ? Number(token) : token;
  if (typeof found === 'number' && Number.isSafeInteger(found) && found >= 0) return found;
  const given = typeof token === 'string' ? `'${token}'` : String(token);
  throw invalid('token', `is ${given}; it must be a whole number or a bigint, from 0 up to 2^53`);
}

function count(value: unknown, field: string): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) >= 2 ** 31) {
    throw invalid(field, `is ${String(value)}; it must be a whole number, 0 or more`);
  }
  return value as number;
}

function oneOf<T extends string, V>(values: Record<T, V>, value: T, field: string): V {
  if (Object.hasOwn(values, value)) return values[value];
  throw invalid(field, `is ${value}; it must be one of ${Object.keys(values).join(', ')}`);
}

/** Throws for an option that does not exist. `also`: those beside the settings of locks. */
export function checkNames(options: object, also: readonly string[], settings: readonly string[] = SETTINGS): void {
  for (const name of Object.keys(options)) {
    if (!settings.includes(name) && !also.includes(name)) {
      throw new TypeError(`there is no option ${name}; the options are ${[...also, ...settings].join(', ')}`);
    }
  }
}

function metadataOf(settings: LockSettings): Record<string, string> {
  const entries = Object.entries(settings.metadata ?? {});
  return Object.fromEntries(entries.map(([name, value]) => [text(name, 'metadata'), text(value, `metadata.${name}`)]));
}

/** Throws InvalidRequestError for what cannot be sent; the broker judges the rest. */
export function specOf(lock: LockRequest): wire.LockSpec {
  const duration = (field: 'ttl' | 'maxHold' | 'lockDelay' | 'minHold'): WireDuration | undefined => {
    const millis = milliseconds(lock[field] ?? 0, field);
    return millis === 0 ? undefined : toWire(millis); // 0 means the same as nothing
  };
  const {mode = 'EXCLUSIVE'} = lock;
  return {
    namespace: text(lock.namespace ?? '', 'namespace'),
    key: text(lock.key, 'key'),
    mode: oneOf(MODES, mode, 'mode'),
    permits: mode === 'PERMIT' || lock.n !== undefined ? count(lock.n ?? 1, 'n') : 0,
    limit: mode === 'PERMIT' || lock.limit !== undefined ? count(lock.limit, 'limit') : 0,
    ttl: duration('ttl'),
    policy: lock.policy === undefined ? wire.QueuePolicy.UNSPECIFIED : oneOf(POLICIES, lock.policy, 'policy'),
    owner: ownerOf(lock),
    metadata: metadataOf(lock),
    maxHold: duration('maxHold'),
    lockDelay: duration('lockDelay'),
    onDisconnect: oneOf(ON_DISCONNECT, lock.onDisconnect ?? 'SAFE', 'onDisconnect'),
    reentrant: lock.reentrant ?? false,
    resume: lock.resume ?? false,
    minHold: duration('minHold'),
    tellWanted: false,
  };
}

/** At most 256 bytes of it. */
export function cutLabel(label: string): string {
  const bytes = Buffer.from(label).subarray(0, LABEL_BYTES);
  return bytes.toString().replace(/\uFFFD+$/, '');
}

function modeOf(mode: wire.LockMode): Mode {
  if (mode === wire.LockMode.SHARED) return 'SHARED';
  return mode === wire.LockMode.PERMIT ? 'PERMIT' : 'EXCLUSIVE';
}

function holderOf(holder: wire.Holder): Holder {
  const {holderId, owner, metadata, mode, permits, fencingToken, acquireTime, timeLeft, ttl, brokerId} = holder;
  return {holderId, owner, metadata, mode: modeOf(mode), permits, token: fencingToken, acquireTime,
    timeLeft: fromWire(timeLeft), ttl: fromWire(ttl), brokerId};
}

function blockOf(block: wire.LockBlock | undefined): Block | undefined {
  if (block === undefined) return undefined;
  return {startTime: block.startTime, timeLeft: fromWire(block.timeLeft), owner: block.owner};
}

export function lockInfoOf(lock: wire.LockInfo | undefined, heldOff?: WireDuration): LockInfo {
  const from = lock ?? wire.LockInfo.decode(new Uint8Array());
  const waiters = from.waiters.map(({waiterId, owner, metadata, mode, permits, startTime, brokerId}) => (
    {waiterId, owner, metadata, mode: modeOf(mode), permits, startTime, brokerId}));
  const {namespace, key, fencingToken: token, queueLength, holderCount, block} = from;
  const holdOff = fromWire(heldOff);
  return {namespace, key, holders: from.holders.map(holderOf), waiters, token, queueLength, holderCount,
    block: blockOf(block), holdOff,
    isFree: holderCount === 0 && queueLength === 0 && block === undefined && holdOff === 0};
}

export function queuedOf(queued: AcquireQueued): Queued {
  return {position: queued.position, holders: queued.holders.map(holderOf), block: blockOf(queued.block)};
}

/** Without the prefix; a value of a newer contract is named by its number. */
function nameOf(names: Record<number, string>, value: number): string {
  return names[value] ?? `UNKNOWN_${value}`;
}

export function lostReasonOf(reason: number): string {
  return nameOf(wire.LostReason, reason);
}

export function outcomeOf(outcome: number): Outcome {
  return OUTCOMES[outcome] ?? 'UNKNOWN';
}

export function refusalOf(refusal: wire.Refusal): Refusal {
  return worded({
    reason: nameOf(wire.RefusalReason, refusal.reason),
    message: refusal.message,
    retryAfter: refusal.retryAfter === undefined ? undefined : fromWire(refusal.retryAfter),
    waited: fromWire(refusal.waited),
    holders: refusal.holders.map(holderOf),
    queueLength: refusal.queueLength,
    fieldProblems: refusal.fieldProblems,
    block: blockOf(refusal.block),
  });
}
