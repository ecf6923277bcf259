// SPDX-License-Identifier: Apache-2.0
//
// No lock is without an owner: what nobody can give back any more is given back.
import assert from 'node:assert/strict';
import {once} from 'node:events';
import {test} from 'node:test';
import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';
import {eventually, grantAll, stand} from './fake_broker.mjs';
import {clock, distlock, grpc, message, SECOND, wire} from './package.mjs';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc');

/** Collects what nobody keeps, until `condition`. */
async function collected(condition, what) {
  return eventually(() => {
    gc();
    return condition();
  }, what);
}

function warnings(context) {
  const heard = [];
  const listen = ({message: text}) => heard.push(text);
  process.on('warning', listen);
  context.after(() => process.off('warning', listen));
  return heard;
}

/** The holds that a broker still has: granted, and neither released nor withdrawn since. */
function heldAt(session) {
  const held = new Set();
  for (const one of session.commands) {
    if (one.kind === 'acquire') one.locks.forEach((_, i) => held.add(one.id + i));
    else if (one.kind === 'release' || one.kind === 'cancel') held.delete(one.acquireId);
  }
  return held.size;
}

const killed = {code: grpc.status.UNAVAILABLE, details: 'killed', metadata: new grpc.Metadata()};

test('a dropped handle is given back and warned of', async context => {
  const {broker, connect} = await stand(context);
  const heard = warnings(context);
  const ends = [];
  const dl = connect(broker.url, {observer: {ended: (_, cause) => { ends.push(cause); }}});
  await dl.lock('dropped');
  await (await dl.lock('released')).release();
  await dl.all(['a', 'b']);
  await Promise.race([dl.lock('late'), undefined]);
  const session = await broker.session();
  await collected(() => session.got('release').length === 5 && heard.length === 4, 'the end of what was dropped');
  for (const key of ['dropped', 'a', 'b', 'late']) {
    assert.equal(heard.filter(text => text.includes(`"${key}" was given back`)).length, 1, key);
  }
  assert.deepEqual(ends, Array(5).fill('GIVEN_BACK'));
});

test('what is still used is kept', async context => {
  const {broker} = await stand(context);
  const take = async () => {
    const dl = distlock.connect(broker.url);
    const {signal} = await dl.lock('c');
    return {part: (await dl.all(['a', 'b'])).parts[0], signal};
  };
  const kept = await take();
  const session = await broker.session();
  await collected(() => session.got('release').length > 0);
  await session.awaitCommand('heartbeat');
  gc();
  assert.ok(kept.part.isHeld && !kept.signal.aborted);
  assert.deepEqual([session.got('release').length, session.got('goodbye').length], [1, 0]);
  session.lose(session.got('acquire').find(({locks}) => locks[0].key === 'c').id, 'FORCED');
  await once(kept.signal, 'abort');
  delete kept.signal;
  delete kept.part;
  await collected(() => session.got('goodbye').length > 0, 'the end of the client');
});

test('clients that are dropped end', async context => {
  const {broker} = await stand(context);
  const use = async number => {
    const held = await distlock.connect(broker.url).lock(`k${number}`, {wait: '20s'});
    await held.release();
  };
  for (let number = 0; number < 60; ++number) await use(number);
  await collected(() => broker.sessions.length === 60
    && broker.sessions.every(session => session.got('goodbye').length === 1), 'the end of 60 clients');
});

test('a watch keeps its client', async context => {
  const {broker} = await stand(context);
  const calls = [];
  broker.onWatch = call => {
    calls.push(call);
    call.write(message(wire.WatchLockResponse, {lock: message(wire.LockInfo, {key: 'k'})}));
  };
  const states = (() => distlock.connect(broker.url).watch('k'))();
  await states.next();
  for (let i = 0; i < 5; ++i) {
    gc();
    await new Promise(resolve => { setTimeout(resolve, 20); });
  }
  calls[0].write(message(wire.WatchLockResponse, {lock: message(wire.LockInfo, {key: 'k', queueLength: 1})}));
  assert.equal((await states.next()).value.queueLength, 1);
  await states.return();
});

test('an observer that throws costs no lock', async context => {
  const {broker, connect} = await stand(context);
  const heard = warnings(context);
  const fail = () => { throw new Error('the exporter is down'); };
  const observer = {acquiring: fail, answered: fail, ended: fail, session: fail};
  const dl = connect(broker.url, {observer});
  assert.equal(await dl.using('k', () => 'done'), 'done');
  const held = await dl.lock('other', {onQueued: fail});
  assert.ok(held.isHeld);
  await held.release();
  const session = await broker.session();
  await eventually(() => heldAt(session) === 0 && heard.length >= 6);
  assert.ok(heard.every(text => text.includes('the exporter is down')));
});

test('an observer of async functions that fail costs nothing', async context => {
  const {broker, connect} = await stand(context);
  const heard = warnings(context);
  const fail = async () => { throw new Error('the exporter is down'); };
  const dl = connect(broker.url, {observer: {answered: fail, ended: fail, session: fail}});
  await (await dl.lock('k')).release();
  await eventually(() => heard.length >= 3);
});

test('callbacks may call at any moment', async context => {
  const {broker, connect} = await stand(context);
  let dl;
  const again = [];
  const observer = {
    answered() {
      if (again.length < 3) again.push(dl.lock(`again${again.length}`, {wait: '5s'}));
    },
    session: () => { again.push(dl.lock('by session', {wait: '5s'})); },
  };
  dl = connect(broker.url, {observer});
  const held = await dl.lock('k');
  held.signal.addEventListener('abort', () => {
    assert.equal(held.isHeld, false);
    again.push(dl.lock('after', {wait: '5s'}));
    held.releaseSoon();
  });
  (await broker.session()).lose((await broker.session()).got('acquire')[0].id, 'FORCED');
  await once(held.signal, 'abort');
  await eventually(() => again.length >= 3); // of each kind
  for (const one of await Promise.all(again)) await one.release();
});

test('a thousand waits have one signal', async context => {
  const {broker, connect} = await stand(context);
  const heard = warnings(context);
  const dl = connect(broker.url);
  const stop = new AbortController();
  broker.onAcquire = () => undefined;
  broker.unary.GetLock = () => message(wire.GetLockResponse);
  const waits = Array.from({length: 1000}, (_, i) => dl.lock(`k${i}`, {signal: stop.signal}));
  const session = await broker.session();
  await session.awaitCommand('acquire', 256);
  grantAll(session, session.got('acquire')[0]);
  const first = await waits.shift();
  stop.abort(new Error('shutdown'));
  const ends = await Promise.allSettled(waits);
  assert.ok(ends.every(({reason}) => reason instanceof distlock.AbortError && reason.cause.message === 'shutdown'));
  assert.ok(first.isHeld);
  await new Promise(resolve => { setImmediate(resolve); });
  assert.deepEqual(heard, []);
});

for (const end of ['killed', 'unanswered', 'lapsed']) {
  test(`what is given back without a broker is given back to the next: ${end}`, async context => {
    const {broker, connect} = await stand(context);
    const held = await connect(broker.url).lock('k', {resume: true});
    const {leaseId, signal} = held;
    const session = await broker.session();
    if (end === 'unanswered') {
      broker.frozen = true;
      const outcome = held.release();
      await session.awaitCommand('release');
      broker.frozen = false;
      session.end(grpc.status.UNAVAILABLE, 'killed');
      assert.equal(await outcome, 'UNKNOWN');
    } else {
      broker.refuseSessions = killed;
      session.end(grpc.status.UNAVAILABLE, 'killed');
      await eventually(() => held.atRisk);
      if (end === 'killed') assert.equal(await held.release(), 'UNKNOWN');
      else await once(signal, 'abort');
      broker.refuseSessions = undefined;
    }
    const adopt = await (await broker.session(2)).awaitCommand('adopt');
    assert.equal(adopt.leaseId, leaseId);
    const release = await broker.sessions[1].awaitCommand('release');
    assert.deepEqual([release.acquireId, release.lapsed], [adopt.id, end === 'lapsed']);
  });
}

test('what could not be given back is asked for again', async context => {
  const {broker, connect} = await stand(context);
  const tried = [];
  broker.onAdopt = (session, command) => {
    tried.push(command);
    if (tried.length === 1) session.refuse(command.id, 'STORE_UNAVAILABLE');
    else if (tried.length === 2) session.end(grpc.status.UNAVAILABLE, 'killed');
    else session.grant(command.id);
  };
  const dl = connect(broker.url);
  const held = await dl.lock('k', {resume: true});
  broker.refuseSessions = killed;
  (await broker.session()).end(grpc.status.UNAVAILABLE, 'killed');
  await eventually(() => held.atRisk);
  await held.release();
  broker.refuseSessions = undefined;
  await eventually(() => tried.length === 3);
  assert.equal(new Set(tried.map(({requestId}) => requestId)).size, 1);
  const until = clock.now() + SECOND / 2;
  await eventually(() => clock.now() > until);
  assert.equal(tried.length, 3, 'it was given back');
});

test('waits that are ended at any moment leave no lock', async context => {
  const {broker, connect} = await stand(context);
  const dl = connect(broker.url);
  await (await dl.lock('k')).release();
  const session = await broker.session();
  for (let i = 0; i < 1000; ++i) {
    const stop = new AbortController();
    const use = dl.using(`k${i}`, {signal: stop.signal}, () => undefined).catch(error => error);
    for (let turns = i % 7; turns > 0; --turns) await new Promise(resolve => { setImmediate(resolve); });
    stop.abort();
    await use;
  }
  await eventually(() => heldAt(session) === 0);
});
