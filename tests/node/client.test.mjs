// SPDX-License-Identifier: Apache-2.0
//
// A program's locks, against a broker that misbehaves on command.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {inspect} from 'node:util';
import {says} from './contract.mjs';
import {eventually, rejected, stand} from './fake_broker.mjs';
import {channel, addresses, convert, distlock, duration, grpc, message, refusalOfStatus, wire} from './package.mjs';

const {
  AbortError, BusyError, ClientClosedError, InvalidRequestError, LockLostError, RefusedError, UnavailableError,
} = distlock;

/** Resolves when the signal is aborted. */
const aborted = signal => new Promise(resolve => {
  if (signal.aborted) resolve();
  else signal.addEventListener('abort', resolve, {once: true});
});

test('a lock', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url, {label: 'tests'});
  const held = await dl.lock('k', {wait: '60s', owner: 'me', metadata: {a: 'b'}});
  assert.ok(held.isHeld && held.token === 1 && held.validFor > 0 && held.validFor <= 3000 && held.cause === '');
  assert.equal(held.signal.aborted, false);
  const shown = [inspect(held), JSON.stringify(held), String(held)];
  assert.ok(shown.every(text => !text.includes(held.leaseId)), 'the lease id is secret');
  await held[Symbol.asyncDispose]();
  const session = await broker.session();
  const [{key, owner, metadata, maxWait}] = session.got('acquire')[0].locks;
  assert.deepEqual([key, owner, metadata], ['k', 'me', {a: 'b'}]);
  assert.ok(convert.fromWire(maxWait) > 0 && convert.fromWire(maxWait) <= 60_000);
  assert.equal(session.got('open')[0].client, 'tests');
  assert.ok(!held.isHeld && !held.signal.aborted && held.cause === 'GIVEN_BACK');
  assert.equal((await session.awaitCommand('release')).lapsed, false);
});

test('a release tells the outcome', async context => {
  const {broker, connect} = await stand(context);
  const held = await connect(broker.url).lock('k');
  assert.equal(await held.release(), 'RELEASED');
  assert.equal(await held.release(), 'ALREADY_GONE');
});

test('busy names the holders', async context => {
  const {broker, connect} = await stand(context);
  broker.onAcquire = (session, {id}) => {
    const holders = [message(wire.Holder, {holderId: 'h', owner: 'host 7', fencingToken: 9})];
    session.refuse(id, 'LOCK_HELD', {message: 'held by host 7', queueLength: 3, holders, retryAfter: duration(1500)});
  };
  const busy = await rejected(connect(broker.url).lock('k', {wait: 0}), BusyError);
  const told = [busy.holders[0].owner, busy.queueLength, busy.retryAfter, busy.reason];
  assert.deepEqual(told, ['host 7', 3, 1500, 'LOCK_HELD']);
  assert.match(busy.stack, /client\.test\.mjs/, 'the stack leads to the caller');
});

for (const [reason, kind] of Object.entries({WAIT_TIMEOUT: BusyError, LIMIT_MISMATCH: BusyError,
  STORE_UNAVAILABLE: UnavailableError, STORE_HOLD_OFF: UnavailableError,
  INVALID_ARGUMENT: InvalidRequestError, PERMISSION_DENIED: RefusedError,
  QUOTA_EXCEEDED: RefusedError})) {
  test(`refused: ${reason}`, async context => {
    const {broker, connect} = await stand(context);
    broker.onAcquire = (session, {id}) => { session.refuse(id, reason, {message: 'why'}); };
    const refused = await rejected(connect(broker.url).lock('k'), kind);
    assert.equal(refused.message, `${reason}: why`);
  });
}

for (const reason of ['EXPIRED', 'TAKEN', 'FORCED', 'MAX_HOLD', 'DRAINED', 'MOVED', 99]) {
  test(`a loss: ${reason}`, async context => {
    const {broker, connect} = await stand(context);
    const held = await connect(broker.url).lock('k');
    const {signal} = held;
    const session = await broker.session();
    session.lose(session.got('acquire')[0].id, reason);
    await aborted(signal);
    assert.ok(signal.reason instanceof LockLostError && !held.isHeld);
    assert.equal(signal.reason.cause, typeof reason === 'string' ? reason : 'UNKNOWN_99');
    assert.throws(() => { held.check(); }, LockLostError);
    await held[Symbol.asyncDispose](); // the program was told
  });
}

test('leaving the scope tells of a loss that the program was not told of', async context => {
  const {broker, connect} = await stand(context);
  const held = await connect(broker.url).lock('k');
  const session = await broker.session();
  session.lose(session.got('acquire')[0].id, 'FORCED');
  await eventually(() => held.cause === 'FORCED');
  assert.match((await rejected(held[Symbol.asyncDispose](), LockLostError)).message, /"k" is lost \(FORCED\)/);
  assert.ok(held.signal.aborted, 'a signal that is taken later is aborted');
});

test('using', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const result = await dl.using(['a', 'b'], {wait: '60s'}, (signal, tokens) => {
    assert.ok(!signal.aborted && tokens.length === 2);
    return 'done';
  });
  assert.equal(result, 'done');
  assert.equal(await dl.using('one', async (_, [token]) => token), 3);
  await rejected(dl.using('k', () => { throw new RangeError('mine'); }), RangeError);
  const session = await broker.session();
  assert.equal((await session.awaitCommand('release', 4)).lapsed, false);
  const lose = () => { session.lose(session.got('acquire').at(-1).id, 'TAKEN'); };
  const obedient = dl.using('k', async signal => {
    lose();
    await aborted(signal);
    throw signal.reason;
  });
  assert.equal((await rejected(obedient, LockLostError)).cause, 'TAKEN');
  const aloof = dl.using('k', async signal => {
    lose();
    await aborted(signal);
    return 'too late';
  });
  await rejected(aloof, LockLostError);
  const failed = dl.using('k', async signal => {
    lose();
    await aborted(signal);
    throw new RangeError('of its own');
  });
  await rejected(failed, RangeError);
});

says('`granted` may cross it: then CANCELLED follows, and nothing is held.', 'a signal ends a wait', async context => {
  const {broker, connect} = await stand(context);
  broker.onAcquire = () => undefined;
  const dl = connect(broker.url);
  await rejected(dl.lock('k', {signal: AbortSignal.abort()}), AbortError);
  const controller = new AbortController();
  const waiting = dl.lock('k', {signal: controller.signal});
  const session = await broker.session();
  const {id} = await session.awaitCommand('acquire');
  session.grant(id); // crosses
  controller.abort('enough');
  const error = await rejected(waiting, AbortError);
  assert.ok(error.name === 'AbortError' && error.code === 'ABORT_ERR' && error.cause === 'enough');
  assert.equal((await session.awaitCommand('cancel')).acquireId, id);
  broker.onAcquire = (one, command) => { one.grant(command.id); };
  assert.ok((await dl.lock('k', {signal: new AbortController().signal})).isHeld);
});

test('a signal that comes between the grant and the program', async context => {
  const {broker, connect} = await stand(context);
  const ended = [];
  const dl = connect(broker.url, {observer: {ended: (_, cause) => ended.push(cause)}});
  const first = await dl.lock('a');
  const controller = new AbortController();
  first.signal.addEventListener('abort', () => { controller.abort(); });
  const session = await broker.session();
  broker.onAcquire = (one, {id}) => { // one message: the grant, and the loss whose listener aborts the wait
    one.grant(id, 'b');
    one.lose(one.got('acquire')[0].id, 'FORCED');
  };
  await rejected(dl.lock('b', {signal: controller.signal}), AbortError);
  assert.equal((await session.awaitCommand('release')).acquireId, session.got('acquire')[1].id);
  broker.onAcquire = (one, {id}) => {
    one.grant(id, 'c');
    one.lose(id, 'TAKEN');
  };
  const lost = await dl.lock('c');
  assert.ok(!lost.isHeld && lost.signal.aborted && lost.cause === 'TAKEN');
  assert.deepEqual(ended, ['FORCED', 'TAKEN']);
});

test('several locks', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const both = await dl.all(['a', {key: 'b', mode: 'SHARED'}, {key: 'c', mode: 'PERMIT', limit: 4, n: 3}], {ttl: '5s'});
  assert.deepEqual(both.tokens, [1, 2, 3]);
  assert.deepEqual([...both].map(part => part.key), ['a', 'b', 'c']);
  const session = await broker.session();
  const [{id, locks}] = session.got('acquire');
  assert.deepEqual(locks.map(({mode, permits, limit, ttl}) => [mode, permits, limit, ttl.seconds]),
    [[1, 0, 0, 5], [2, 0, 0, 5], [3, 3, 4, 5]]);
  session.lose(id + 1, 'TAKEN');
  await aborted(both.signal);
  assert.equal(both.signal.reason.key, 'b');
  assert.ok(!both.isHeld);
  assert.deepEqual(await both.release(), ['RELEASED', 'ALREADY_GONE', 'RELEASED']);
});

test('values that cannot be sent', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  for (const wrong of [{wait: -1}, {wait: '5'}, {wait: NaN}, {ttl: -1}, {owner: 7}, {metadata: {a: 1}}, {policy: 'x'},
    {onDisconnect: 'toString'}, {ttl: '1 s'}]) {
    const {fieldProblems} = await rejected(dl.lock('k', wrong), InvalidRequestError);
    assert.ok(fieldProblems[0].field.startsWith(Object.keys(wrong)[0]));
  }
  assert.match((await rejected(dl.lock('k', {timeout: 5}), TypeError)).message, /namespace/);
  assert.throws(() => distlock.connect('x', {defaults: {timeout: 5}}), TypeError);
  await rejected(dl.permits('k', {}), InvalidRequestError);
  await rejected(dl.campaign('k', 'v', {metadata: {'distlock.election': 'x'}}), InvalidRequestError);
});

test('durations', () => {
  const of = value => convert.milliseconds(value, 'x');
  assert.deepEqual(['500ms', '10s', '1.5m', '2h', '1m30s', 7].map(of), [500, 10_000, 90_000, 7_200_000, 90_000, 7]);
  assert.deepEqual(convert.toWire(1999.9999999), {seconds: 2, nanos: 0});
  assert.deepEqual(convert.toWire(2500), {seconds: 2, nanos: 500_000_000});
});

test('downgrade, place in the queue, observer', async context => {
  const {broker, connect} = await stand(context);
  const [seen, queued] = [[], []];
  const observer = {
    acquiring: (keys, mode) => (seen.push([keys, mode]), 'span'),
    answered: (cookie, outcome, waited) => seen.push([cookie, outcome, waited >= 0]),
    ended: (cookie, cause, heldFor) => seen.push([cookie, cause, heldFor >= 0]),
    session: (what, address) => seen.push([what, address]),
  };
  broker.onAcquire = (session, {id}) => {
    session.event('queued', message(wire.AcquireQueued, {position: 2}), id);
    session.grant(id);
  };
  const dl = connect(broker.url, {observer});
  const held = await dl.lock('k', {onQueued: place => queued.push(place.position)});
  await held.downgrade();
  await held.release();
  assert.ok((await broker.session()).got('downgrade').length === 1);
  assert.deepEqual(queued, [2]);
  assert.deepEqual(seen, [[['k'], 'EXCLUSIVE'], ['opened', broker.url], ['span', 'GRANTED', true],
    ['span', 'GIVEN_BACK', true]]);
});

test('a callback that fails costs no lock', async context => {
  const {broker, connect} = await stand(context);
  const warned = [];
  const listen = warning => warned.push(warning.message);
  process.on('warning', listen);
  context.after(() => process.off('warning', listen));
  const fail = () => { throw new RangeError('by the test'); };
  broker.onAcquire = (session, {id}) => {
    session.event('queued', message(wire.AcquireQueued), id);
    session.grant(id);
  };
  const dl = connect(broker.url, {observer: {acquiring: fail, answered: fail, ended: fail}});
  const held = await dl.lock('k', {onQueued: fail});
  assert.equal(await held.release(), 'RELEASED');
  await eventually(() => warned.filter(text => text.includes('by the test')).length === 4);
});

test('an election', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const term = await dl.campaign('boss', 'one', {metadata: {zone: 'a'}});
  broker.adoptedToken = term.token;
  await dl.proclaim(term, 'uno');
  const session = await broker.session();
  assert.deepEqual(session.got('acquire')[0].locks[0].metadata, {zone: 'a', 'distlock.election': 'one'});
  assert.deepEqual(session.got('adopt')[0].lock.metadata, {zone: 'a', 'distlock.election': 'uno'});
  assert.ok(term.isHeld);
  const holder = message(wire.Holder, {holderId: 'h', metadata: {'distlock.election': 'uno'}, fencingToken: 1});
  broker.unary.GetLock = ({key}) => ({lock: message(wire.LockInfo, {key, holders: [holder], holderCount: 1})});
  assert.equal((await dl.leader('boss')).value, 'uno');
});

test('a lock is not free during a hold-off', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const left = {'held off': duration(38_000)};
  broker.unary.GetLock = ({key}) => ({lock: message(wire.LockInfo, {key}), holdOff: left[key]});
  const [free, heldOff] = [await dl.inspect('k'), await dl.inspect('held off')];
  assert.deepEqual([free.isFree, free.holdOff, heldOff.isFree, heldOff.holdOff], [true, 0, false, 38_000]);
});

test('detached leases repeat what had no answer, and end by the clock', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const asked = [];
  broker.unary.Acquire = request => {
    asked.push(request.requestId);
    if (asked.length < 3) throw {code: grpc.status.UNAVAILABLE, details: 'gone'};
    return {grants: [message(wire.Grant, {leaseId: 'l', fencingToken: 5, validFor: duration(20_000)})]};
  };
  let validFor = duration(20_000);
  broker.unary.Renew = () => ({validFor, ttl: validFor});
  let released = 0;
  broker.unary.Release = () => (released += 1, {outcome: wire.ReleaseOutcome.RELEASED});
  const lease = await dl.acquireDetached('d', {ttl: '5s', wait: '20s'});
  assert.equal(new Set(asked).size, 1);
  assert.ok(lease.token === 5 && await lease.renew() > 0);
  validFor = duration(20);
  await lease.renew();
  await eventually(() => !lease.isHeld);
  assert.equal((await rejected(lease.renew(), LockLostError)).cause, 'LAPSED');
  assert.equal(released, 1);
  validFor = duration(20_000);
  const handed = dl.detached('l', 'd');
  assert.throws(() => { handed.check(); }, /renew it/);
  await handed.renew();
  handed.check();
  assert.equal(await handed.release(), 'RELEASED');
});

test('watching goes on over reconnects', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  let streams = 0;
  broker.onWatch = call => {
    streams += 1;
    call.write({lock: message(wire.LockInfo, {key: call.request.key, fencingToken: streams})});
    if (streams < 3) call.emit('error', {code: grpc.status.UNAVAILABLE, details: 'gone'});
  };
  const seen = [];
  for await (const {token} of dl.watch('k')) {
    seen.push(token);
    if (token === 3) break;
  }
  assert.deepEqual(seen, [1, 2, 3]);
  const controller = new AbortController();
  const rest = dl.watch('k', {signal: controller.signal});
  await rest.next();
  const next = rest.next();
  controller.abort();
  await rejected(next, AbortError);
  const last = dl.watch('k');
  await last.next();
  const end = last.next();
  await dl.close();
  assert.equal((await end).done, true, 'the end of the client ends it');
  await rejected(dl.inspect('k'), ClientClosedError);
});

test('addresses', () => {
  const before = process.env.DISTLOCK_SERVER;
  process.env.DISTLOCK_SERVER = 'a:1,b:2';
  assert.equal(distlock.connect().address, 'a:1,b:2');
  delete process.env.DISTLOCK_SERVER;
  assert.match(distlock.connect().address, /^(127\.0\.0\.1:7420|unix:\/\/\/run\/distlock\/distlock\.sock)$/);
  if (before !== undefined) process.env.DISTLOCK_SERVER = before;
  assert.deepEqual(addresses.splitAddresses(' a:1, b:2,a:1,/x.sock '), ['a:1', 'b:2', 'unix:///x.sock']);
  const list = new addresses.Addresses('a,b,c', undefined, them => { them.reverse(); });
  assert.deepEqual([list.present, list.next(), list.next(), list.next()], ['c', true, true, false]);
});

says("Switch gRPC's retries off", 'the channel is as the contract says', () => {
  const options = channel.OPTIONS;
  assert.deepEqual([options['grpc.enable_retries'], options['grpc.enable_http_proxy']], [0, 0]);
  assert.deepEqual([options['grpc.keepalive_time_ms'], options['grpc.keepalive_timeout_ms']], [10_000, 5_000]);
  assert.equal(options['grpc.keepalive_permit_without_calls'], 1);
  assert.equal(options['grpc.max_receive_message_length'], 4 << 20);
});

test('details of a failed call', () => {
  const any = (name, type, fields) => (
    {typeUrl: `type.googleapis.com/google.rpc.${name}`, value: type.encode(message(type, fields)).finish()});
  const details = [
    any('ErrorInfo', wire.ErrorInfo, {reason: 'LOCK_HELD',
      metadata: {holder_id: 'h7', fencing_token: '12', queue_length: '2'}}),
    any('ResourceInfo', wire.ResourceInfo, {owner: 'host 7'}),
    any('RetryInfo', wire.RetryInfo, {retryDelay: duration(2000)}),
    any('BadRequest', wire.BadRequest, {fieldViolations: [{field: 'lock.ttl', description: 'too short', reason: ''}]}),
  ];
  const metadata = new grpc.Metadata();
  const status = wire.Status.encode(message(wire.Status, {code: 10, details})).finish();
  metadata.set('grpc-status-details-bin', Buffer.from(status));
  const refusal = refusalOfStatus({code: grpc.status.ABORTED, details: 'held', metadata});
  assert.deepEqual([refusal.reason, refusal.retryAfter, refusal.queueLength], ['LOCK_HELD', 2000, 2]);
  assert.deepEqual([refusal.holders[0].owner, refusal.holders[0].token], ['host 7', 12]);
  assert.equal(refusal.fieldProblems[0].field, 'lock.ttl');
  metadata.set('grpc-status-details-bin', Buffer.of(0xff, 0xff));
  assert.equal(refusalOfStatus({code: grpc.status.UNAVAILABLE, details: 'x', metadata}).reason, 'UNREACHABLE');
});
