// SPDX-License-Identifier: Apache-2.0
//
// The package against real brokers and a real store: kills, stops, drains.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {test} from 'node:test';
import {eventually} from './fake_broker.mjs';
import {one, two} from './harness.mjs';
import {PACKAGE} from './package.mjs';

const lossOf = held => eventually(() => held.signal.aborted && held.cause, 'the loss');

/** Which broker a lock is held through. */
async function brokerOf(held, dl, brokers) {
  const {holders} = await dl.inspect(held.key);
  return brokers.find(broker => broker.log().includes(holders[0].brokerId));
}

test('a kill of the broker loses locks and keeps waits', async context => {
  const {brokers: [broker], connect} = await two(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k', {ttl: '1s'});
  const waiting = connect(broker.url, {unreachableAfter: '30s'}).lock('k', {wait: '60s'});
  await eventually(async () => (await dl.inspect('k')).queueLength === 1);
  await broker.kill();
  assert.ok(['DISCONNECTED', 'LAPSED'].includes(await lossOf(held)));
  await broker.start();
  assert.ok((await waiting).isHeld);
});

test('a stopped broker ends belief', async context => {
  const {broker, connect} = await one(context);
  const held = await connect(broker.url).lock('k');
  await broker.stop();
  assert.equal(await lossOf(held), 'LAPSED');
  broker.cont();
  const again = await connect(broker.url).lock('k', {wait: '30s'});
  assert.ok(again.token > held.token);
});

test('a drain moves what is held and what waits', async context => {
  const {brokers, connect} = await two(context);
  const dl = connect(brokers.map(({url}) => url).join(','));
  const held = await Promise.all(Array.from({length: 20}, (_, i) => dl.lock(String(i))));
  const both = await dl.all(['x', 'y']);
  const tokens = held.map(({token}) => token);
  const waiting = dl.lock('x', {wait: '60s'});
  await eventually(async () => (await dl.inspect('x')).queueLength === 1);
  const first = await brokerOf(held[0], dl, brokers);
  assert.equal(await first.drain(), 0);
  assert.ok(held.every(lock => lock.isHeld && !lock.signal.aborted) && both.isHeld);
  assert.deepEqual(held.map(({token}) => token), tokens);
  assert.deepEqual(new Set(await Promise.all(held.map(lock => lock.release()))), new Set(['RELEASED']));
  both.releaseSoon();
  assert.ok((await waiting).isHeld);
});

test('resume after a kill', async context => {
  const {brokers, connect} = await two(context);
  const dl = connect(brokers.map(({url}) => url).join(','));
  const [held, plain] = [await dl.lock('k', {resume: true}), await dl.lock('plain')];
  const first = await brokerOf(held, dl, brokers);
  await first.kill();
  await lossOf(plain);
  await eventually(() => held.isHeld && !held.atRisk);
  const other = connect(brokers.find(broker => broker !== first).url);
  assert.equal((await other.inspect('k')).token, held.token);
  assert.equal(await held.release(), 'RELEASED');
});

test('a kill of the process frees its locks', async context => {
  const {broker, connect} = await one(context);
  const program = `import * as distlock from '${PACKAGE}dist/index.mjs';
    const held = await distlock.connect('${broker.url}').lock('k');
    console.log(held.token);`; // the lock keeps it alive
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {stdio: ['ignore', 'pipe', 'inherit']});
  context.after(() => child.kill('SIGKILL'));
  const [token] = await once(child.stdout, 'data');
  child.kill('SIGKILL');
  assert.ok((await connect(broker.url).lock('k', {wait: '30s'})).token > Number(token));
});
