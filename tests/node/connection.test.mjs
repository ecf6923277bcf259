// SPDX-License-Identifier: Apache-2.0
//
// Sessions that break, drain, freeze or end, and what happens to locks and waits meanwhile.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {says} from './contract.mjs';
import {eventually, grantAll, rejected, stand} from './fake_broker.mjs';
import {clock, convert, distlock, grpc, SECOND} from './package.mjs';

const {ClientClosedError, RefusedError, UnavailableError} = distlock;
const lossOf = held => eventually(() => held.signal.aborted && held.cause, 'the loss');

says('Open a new session: at the next broker at once, when several are known', 'a dead address costs nothing',
  async context => {
    const {broker, connect, folder} = await stand(context);
    for (let i = 0; i < 3; ++i) {
      const dl = connect(`unix://${folder}/nobody.sock,127.0.0.1:1,${broker.url}`, {unreachableAfter: '20s'});
      const held = await dl.lock('k');
      assert.ok(held.isHeld);
      await dl.close();
    }
  });

says('Ask again for what was not granted yet', 'a wait outlives its stream', async context => {
  const {broker, connect} = await stand(context);
  broker.onAcquire = () => undefined;
  const waiting = connect(broker.url).lock('k', {wait: '1m'});
  const first = await broker.session();
  const {requestId} = await first.awaitCommand('acquire');
  first.end(grpc.status.UNAVAILABLE, 'gone');
  const second = await broker.session(2);
  const again = await second.awaitCommand('acquire');
  assert.equal(again.requestId, requestId);
  assert.ok(convert.fromWire(again.locks[0].maxWait) < 60_000);
  second.grant(again.id);
  assert.ok((await waiting).isHeld);
});

for (const code of ['UNAVAILABLE', 'ABORTED', 'INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED', 'OK']) {
  says('Every end but the first means: all leases of the session are lost, except those that move.',
    `the end of a stream: ${code}`, async context => {
      const {broker, connect} = await stand(context);
      const held = await connect(broker.url).lock('k');
      (await broker.session()).end(grpc.status[code], 'the end');
      assert.equal(await lossOf(held), 'DISCONNECTED');
    });
}

says('The program hears nothing.', 'a drain moves locks and waits', async context => {
  const {broker, connect, start} = await stand(context);
  const other = await start('other');
  const dl = connect(`${broker.url},${other.url}`);
  const held = await dl.lock('k');
  const [first, second] = broker.sessions.length > 0 ? [broker, other] : [other, broker];
  first.onAcquire = () => undefined;
  const waiting = dl.lock('w');
  const {requestId} = await (await first.session()).awaitCommand('acquire', 2);
  second.adoptedToken = held.token;
  second.onAcquire = (session, command) => {
    assert.equal(command.requestId, requestId);
    grantAll(session, command);
  };
  const before = held.leaseId;
  (await first.session()).drain();
  await (await first.session()).awaitCommand('goodbye');
  assert.equal((await (await second.session()).awaitCommand('adopt')).leaseId, before);
  assert.ok(held.isHeld && held.leaseId !== before && !held.signal.aborted);
  assert.ok((await waiting).isHeld);
  assert.equal(await held.release(), 'RELEASED');
});

test('a drain of the only broker is told', async context => {
  const {broker, connect} = await stand(context);
  const told = [];
  const held = await connect(broker.url, {onDraining: left => told.push(left)}).lock('k');
  (await broker.session()).drain(30);
  await eventually(() => told.length > 0);
  assert.ok(held.isHeld);
  assert.deepEqual(told, [30_000]);
});

test('resume after a break', async context => {
  const {broker, connect} = await stand(context);
  const held = await connect(broker.url).lock('k', {resume: true});
  broker.adoptedToken = held.token;
  (await broker.session()).end(grpc.status.UNAVAILABLE, 'restarted');
  await eventually(() => held.atRisk);
  await (await broker.session(2)).awaitCommand('adopt');
  await eventually(() => !held.atRisk);
  assert.ok(held.isHeld && !held.signal.aborted);
});

says('Believe in nothing, end the stream.', 'a frozen broker', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  const session = await broker.session();
  broker.frozen = true;
  assert.equal(await lossOf(held), 'LAPSED');
  await eventually(() => session.ended);
  broker.frozen = false;
  assert.ok((await dl.lock('k', {wait: '20s'})).isHeld);
});

says('Look at the clock before you act', 'a blocked event loop does not prolong belief', async context => {
  const {broker, connect} = await stand(context);
  broker.onAcquire = (session, {id}) => { session.grant(id, 'k', {validFor: convert.toWire(300)}); };
  const held = await connect(broker.url).lock('k');
  const {signal} = held;
  const until = clock.now() + held.validFor;
  while (clock.now() < until); // nothing else runs
  assert.ok(!signal.aborted, 'a signal that was read before is not told yet');
  assert.equal(held.isHeld, false);
  assert.ok(signal.aborted);
});

says('is not handed to the program. It is still held: send a heartbeat, and hand it out if the next ack makes it good.',
  'a late grant', async context => {
    const {broker, connect} = await stand(context);
    broker.onAcquire = (session, {id}) => { session.grant(id, 'k', {validFor: convert.toWire(0)}); };
    const held = await connect(broker.url).lock('k');
    assert.ok(held.isHeld && held.validFor > 0);
    assert.ok((await broker.session()).got('heartbeat').length > 0);
  });

says('when half of what a grant or a limit leaves you is gone', 'a short ttl is kept', async context => {
  const {broker, connect} = await stand(context);
  broker.validity = 60_000;
  broker.interval = 20_000;
  broker.onAcquire = (session, {id}) => {
    session.answersHeartbeats = false;
    session.obey = one => {
      const {kind, seq} = one;
      const limits = [{acquireId: id, validFor: convert.toWire(3000)}];
      if (kind === 'heartbeat') session.event('heartbeatAck', {seq, validFor: convert.toWire(60_000), limits});
    };
    session.grant(id, 'k', {validFor: convert.toWire(3000)});
  };
  const held = await connect(broker.url).lock('k', {ttl: '1s'});
  const session = await broker.session();
  await session.awaitCommand('heartbeat', 3);
  assert.ok(held.isHeld);
});

says('Goodbye is the last command and frees all leases at once.', 'close says goodbye', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  assert.ok(dl.connected);
  const session = await broker.session();
  assert.ok(!session.halfClosed);
  broker.onAcquire = () => undefined;
  const waiting = rejected(dl.lock('w'), ClientClosedError);
  await dl.close();
  await waiting;
  assert.equal(session.got('goodbye').length, 1);
  assert.equal(held.cause, 'CLIENT_CLOSED');
  await rejected(dl.lock('k'), ClientClosedError);
  await dl.close();
});

test('close does not wait long for a frozen broker', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  await dl.lock('k');
  broker.frozen = true;
  const began = performance.now();
  await dl.close();
  assert.ok(performance.now() - began < 5 * SECOND);
});

test('a session that is denied', async context => {
  const {broker, connect} = await stand(context);
  broker.refuseSessions = {code: grpc.status.UNAUTHENTICATED, details: 'no token'};
  const refused = await rejected(connect(broker.url).lock('k', {wait: '10s'}), RefusedError);
  assert.deepEqual([refused.reason, refused.message], ['UNAUTHENTICATED', 'UNAUTHENTICATED: no token']);
});

test('nobody is there', async context => {
  const {connect, folder} = await stand(context);
  const dl = connect(`unix://${folder}/nobody.sock`, {unreachableAfter: 200});
  const refused = await rejected(dl.lock('k'), UnavailableError);
  assert.match(refused.message, /UNREACHABLE: no broker at .* within \d+ ms.*DISTLOCK_SERVER/);
  await rejected(dl.inspect('k'), UnavailableError);
});

test('an idle session that ends is opened again by the next call', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  await (await dl.lock('k')).release();
  const session = await broker.session();
  session.end(grpc.status.UNAVAILABLE, 'restarted');
  await eventually(() => !dl.connected);
  assert.equal(broker.sessions.length, 1);
  assert.ok((await dl.lock('k')).isHeld);
  assert.equal(broker.sessions.length, 2);
});

test('a wait survives a suspend, a lock does not', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  broker.onAcquire = () => undefined;
  const waiting = dl.lock('w', {wait: '1m'});
  await (await broker.session()).awaitCommand('acquire', 2);
  broker.onAcquire = grantAll;
  clock.asleep -= 5 * SECOND; // as if the machine had slept for so long, which moves the wall clock, too
  clock.apart -= 5 * SECOND;
  assert.equal(held.isHeld, false);
  assert.ok((await waiting).isHeld);
  assert.equal(broker.sessions.length, 2);
});

test('a step of the wall clock ends nothing', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  for (const step of [5, -5, 3600, -3600]) {
    clock.apart -= step * SECOND;
    assert.equal(held.isHeld, true, `${step} s`);
  }
  await (await broker.session()).awaitCommand('heartbeat', 2);
  assert.ok(held.isHeld && !held.signal.aborted);
});

says('Both sides pack all they have into one message.', 'what is asked for together leaves together', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  const session = await broker.session();
  const before = session.sizes.length;
  await held[Symbol.asyncDispose]();
  await Promise.all(Array.from({length: 20}, (_, i) => dl.lock(`k${i}`)));
  const beats = session.got('heartbeat').length;
  assert.ok(session.sizes.length - before <= 1 + beats, `${session.sizes.length - before} messages`);
  const order = session.commands.map(({kind}) => kind).filter(kind => kind !== 'heartbeat');
  assert.deepEqual(order.slice(0, 4), ['open', 'acquire', 'release', 'acquire']);
});

test('10 000 locks: one session, one timer, packed messages', async context => {
  const {broker, connect} = await stand(context);
  broker.validity = 30_000; // the broker is in this process, which is busy
  broker.interval = 100;
  const dl = connect(broker.url);
  const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length;
  const warm = await dl.lock('first');
  const before = timers();
  const held = await Promise.all(Array.from({length: 10_000}, (_, i) => dl.lock(`k${i}`, {wait: '1m'})));
  assert.ok(timers() <= before + 1, `${timers()} timers`);
  const session = await broker.session();
  assert.equal(broker.sessions.length, 1);
  assert.ok(session.sizes.length < 100, `${session.sizes.length} messages`);
  assert.ok(Math.max(...session.sizes) <= broker.maxBytes);
  const beats = session.got('heartbeat').length;
  await session.awaitCommand('heartbeat', beats + 2);
  assert.ok(held.every(one => one.isHeld));
  assert.deepEqual(new Set(await Promise.all(held.map(one => one.release()))), new Set(['RELEASED']));
  assert.ok(warm.isHeld);
});
