// SPDX-License-Identifier: Apache-2.0
//
// A broker in this process that grants everything, and misbehaves on command.
//
//   const broker = await FakeBroker.start(`unix://${folder}/x.sock`);
//   broker.onAcquire = (session, {id}) => session.refuse(id, 'LOCK_HELD');
//   const session = await broker.session();   // the newest, once it is open
//   session.lose(id, 'FORCED');
import assert from 'node:assert/strict';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {setTimeout as sleep} from 'node:timers/promises';
import {distlock, duration, grpc, message, wire} from './package.mjs';

const PATIENCE = 20_000; // milliseconds; only ends a test that hangs
const EVENTS_A_MESSAGE = 1000;

/** The condition's first true value. */
export async function eventually(condition, what = 'the condition') {
  const deadline = performance.now() + PATIENCE;
  while (performance.now() < deadline) {
    const value = await condition();
    if (value) return value;
    await sleep(5);
  }
  throw new Error(`${what} did not come true within ${PATIENCE} ms`);
}

/** One stream. `commands`: all that came. */
class FakeSession {
  commands = [];
  sizes = [];
  outbox = [];
  heard = 0; // the last heartbeat
  answersHeartbeats = true;
  ended = false;
  halfClosed = false;

  constructor(broker, call) {
    this.broker = broker;
    this.call = call;
    call.on('data', ({size, commands}) => {
      this.sizes.push(size);
      for (const {id, command} of commands) {
        const one = {id, kind: command.$case, ...command[command.$case]};
        this.commands.push(one);
        this.obey(one);
      }
    });
    call.on('error', () => { this.ended = true; });
    call.on('cancelled', () => { this.ended = true; });
    call.on('end', () => { this.halfClosed = !this.call.cancelled; });
  }

  event($case, fields, id = 0) {
    if (this.outbox.length === 0) setImmediate(() => { this.flush(); });
    this.outbox.push({id, event: {$case, [$case]: fields}});
  }

  flush() {
    const events = this.outbox.splice(0);
    while (events.length > 0 && !this.call.cancelled) this.call.write({events: events.splice(0, EVENTS_A_MESSAGE)});
  }

  grant(id, key = '', more = {}) {
    const {broker} = this;
    const granted = message(wire.Grant, {leaseId: `${broker.url} ${broker.leases++}`, holderId: 'h', holdCount: 1, key,
      fencingToken: broker.tokens++, validFor: duration(broker.validity), echoSeq: this.heard,
      ...more});
    this.event('granted', granted, id);
  }

  refuse(id, reason, more = {}) {
    this.event('refused', message(wire.Refusal, {reason: wire.RefusalReason[reason], ...more}), id);
  }

  lose(id, reason) {
    this.event('lost', {lease: undefined, reason: wire.LostReason[reason] ?? reason, message: 'by the test'}, id);
  }

  drain(seconds = 30) {
    this.event('draining', {timeLeft: duration(seconds * 1000), deadlineTime: undefined});
  }

  end(code = grpc.status.OK, details = '', metadata = new grpc.Metadata()) {
    this.flush();
    if (code === grpc.status.OK) this.call.end();
    else this.call.emit('error', {code, details, metadata});
  }

  got(kind) {
    return this.commands.filter(one => one.kind === kind);
  }

  /** The count-th command of that kind. */
  async awaitCommand(kind, count = 1) {
    await eventually(() => this.got(kind).length >= count, `${count} ${kind}`);
    return this.got(kind)[count - 1];
  }

  obey(one) {
    const {broker} = this;
    if (one.kind === 'heartbeat') this.heard = one.seq;
    if (broker.frozen) return;
    if (one.kind === 'open') {
      const opened = message(wire.SessionOpened, {sessionId: 's', brokerId: 'b', maxMessageBytes: broker.maxBytes,
        maxLeases: 10_000, features: broker.features, validity: duration(broker.validity),
        heartbeatInterval: duration(broker.interval)});
      this.event('opened', opened, one.id);
    } else if (one.kind === 'acquire') {
      broker.onAcquire(this, one);
    } else if (one.kind === 'adopt') {
      broker.onAdopt(this, one);
    } else if (one.kind === 'release') {
      this.event('released', {lease: undefined, outcome: wire.ReleaseOutcome.RELEASED}, one.id);
    } else if (one.kind === 'downgrade') {
      this.event('downgraded', {lease: undefined}, one.id);
    } else if (one.kind === 'heartbeat' && this.answersHeartbeats) {
      this.event('heartbeatAck', {seq: one.seq, validFor: duration(broker.validity), limits: []});
    } else if (one.kind === 'cancel') {
      this.refuse(one.acquireId, 'CANCELLED');
    } else if (one.kind === 'goodbye') {
      this.end();
    }
  }
}

export function grantAll(session, {id, locks}) {
  locks.forEach(({key}, i) => { session.grant(id + i, key); });
}

function method(name, request, response, more = {}) {
  return {
    path: `/distlock.v1.LockService/${name}`, requestStream: false, responseStream: false, ...more,
    requestSerialize: value => Buffer.from(request.encode(value).finish()),
    requestDeserialize: bytes => Object.assign(request.decode(bytes), {size: bytes.length}),
    responseSerialize: value => Buffer.from(response.encode(value).finish()),
    responseDeserialize: bytes => response.decode(bytes),
  };
}

const UNARY = ['Acquire', 'Renew', 'Release', 'GetLock', 'CheckToken'];
const DEFINITION = {
  Session: method('Session', wire.SessionRequest, wire.SessionResponse, {requestStream: true, responseStream: true}),
  WatchLock: method('WatchLock', wire.WatchLockRequest, wire.WatchLockResponse, {responseStream: true}),
  ...Object.fromEntries(UNARY.map(name => [name, method(name, wire[`${name}Request`], wire[`${name}Response`])])),
};

export class FakeBroker {
  onAcquire = grantAll;
  onAdopt = (session, {id, lock}) => { session.grant(id, lock.key, {fencingToken: this.adoptedToken}); };
  onWatch = () => undefined;
  adoptedToken = 1;
  features = ['permit', 'adopt'];
  maxBytes = 64 << 10;
  validity = 3000; // milliseconds, as the next
  interval = 1000;
  refuseSessions; // {code, details, metadata}
  frozen = false;
  sessions = [];
  tokens = 1;
  leases = 1;
  unary = {}; // method name -> function of the request: a response, or throws {code, details, metadata}

  constructor(url) {
    this.url = url;
  }

  static async start(url) {
    const broker = new FakeBroker(url);
    await broker.listen();
    return broker;
  }

  async listen() {
    const server = new grpc.Server();
    const unary = Object.fromEntries(UNARY.map(name => [name, (call, answer) => {
      try {
        answer(null, this.unary[name](call.request));
      } catch (error) {
        answer(error);
      }
    }]));
    server.addService(DEFINITION, {
      ...unary,
      Session: call => { this.open(call); },
      WatchLock: call => { this.onWatch(call); },
    });
    await new Promise((resolve, reject) => {
      const done = error => { if (error) reject(error); else resolve(); };
      server.bindAsync(this.url, grpc.ServerCredentials.createInsecure(), done);
    });
    this.server = server;
  }

  open(call) {
    if (this.refuseSessions !== undefined) call.emit('error', this.refuseSessions);
    else this.sessions.push(new FakeSession(this, call));
  }

  stop() {
    this.server.forceShutdown();
  }

  /** The number-th session, once it is open. */
  async session(number = 1) {
    const found = await eventually(() => this.sessions[number - 1], `session ${number}`);
    await found.awaitCommand('open');
    return found;
  }
}

/** A folder, a broker in it, and clients, all ended after the test. */
export async function stand(context) {
  const folder = mkdtempSync(join(tmpdir(), 'dlnode'));
  const made = [];
  const start = async name => {
    const broker = await FakeBroker.start(`unix://${folder}/${name}.sock`);
    made.push(broker);
    return broker;
  };
  const clients = [];
  const connect = (address, options) => {
    clients.push(distlock.connect(address, options));
    return clients.at(-1);
  };
  context.after(async () => {
    await Promise.all(clients.map(client => client.close()));
    for (const broker of made) broker.stop();
    rmSync(folder, {recursive: true, force: true});
  });
  return {folder, start, connect, broker: await start('broker')};
}

/** Awaits a rejection, and returns its error. */
export async function rejected(promise, kind) {
  const error = await promise.then(() => undefined, thrown => thrown);
  assert.ok(error instanceof kind, `${error?.stack ?? 'nothing was thrown'} is no ${kind.name}`);
  return error;
}
