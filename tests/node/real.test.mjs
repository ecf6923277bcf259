// SPDX-License-Identifier: Apache-2.0
//
// The package against a real broker and a real store: kinds of locks, looking, load.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {eventually, rejected} from './fake_broker.mjs';
import {one, world} from './harness.mjs';
import {distlock} from './package.mjs';

const {BusyError, InvalidRequestError, LockLostError} = distlock;
const lossOf = held => eventually(() => held.signal.aborted && held.cause, 'the loss');
const listed = async dl => {
  const keys = [];
  for await (const {key} of dl.list()) keys.push(key);
  return keys.sort();
};

test('all kinds of locks', async context => {
  const {broker, connect} = await one(context);
  const [dl, other] = [connect(broker.url), connect(broker.url)];
  const held = await dl.lock('k', {owner: 'me'});
  const busy = await rejected(other.lock('k', {wait: 0}), BusyError);
  assert.deepEqual(busy.holders.map(({owner, token}) => [owner, token]), [['me', held.token]]);
  assert.equal((await rejected(other.lock('k', {wait: 50}), BusyError)).reason, 'WAIT_TIMEOUT');
  assert.ok(await dl.checkToken('k', held.token));
  assert.ok(Number.isSafeInteger(held.token) && held.token > 2 ** 32);
  held.releaseSoon();
  const later = await other.lock('k', {wait: '20s'});
  assert.ok(later.token > held.token && !await dl.checkToken('k', held.token));
  const readers = [await dl.shared('t'), await other.shared('t', {wait: 0})];
  await rejected(dl.lock('t', {wait: 0}), BusyError);
  const permits = [await dl.permits('p', {limit: 3, n: 2}), await other.permits('p', {limit: 3, wait: 0})];
  await rejected(dl.permits('p', {limit: 3, wait: 0}), BusyError);
  const three = await dl.all(['b', 'a', {key: 'r', mode: 'SHARED'}], {wait: '5s'});
  assert.deepEqual(await listed(dl), ['a', 'b', 'k', 'p', 'r', 't']);
  await rejected(other.all(['c', 'a'], {wait: 0}), BusyError);
  assert.deepEqual(await three.release(), ['RELEASED', 'RELEASED', 'RELEASED']);
  for (const lock of [later, ...readers, ...permits]) assert.equal(await lock.release(), 'RELEASED');
  await eventually(async () => (await listed(dl)).length === 0, 'all locks being free');
  assert.match((await rejected(dl.lock('k', {ttl: 1}), InvalidRequestError)).message, /ttl/);
});

test('watching all locks under a prefix', async context => {
  const made = world(context);
  const redis = await made.redis();
  const broker = await made.distlockd(redis);
  const [dl, other] = [made.connect(broker.url), made.connect(broker.url)];
  const early = await dl.lock('job/early');
  await dl.lock('elsewhere');
  const seen = [];
  const stop = new AbortController();
  const watching = rejected((async () => {
    const onListed = () => seen.push('listed');
    for await (const {key, isFree} of other.watchLocks('job/', {onListed, signal: stop.signal})) {
      seen.push(`${key} ${isFree}`);
    }
  })(), distlock.AbortError);
  await eventually(() => seen.includes('listed'));
  assert.deepEqual(seen, ['job/early false', 'listed']);
  const late = await dl.lock('job/late');
  await eventually(() => seen.includes('job/late false'));
  late.releaseSoon();
  await eventually(() => seen.at(-1) === 'job/late true');
  await broker.kill();
  await lossOf(early);
  assert.equal(await redis.command('FLUSHALL'), '+OK\r\n');
  await broker.start(); // the watch goes on, and tells what has become free while no broker was there
  await eventually(() => seen.filter(told => told === 'listed').length === 2);
  assert.equal(seen.at(-2), 'job/early true');
  assert.ok(!seen.some(told => told.startsWith('elsewhere')));
  stop.abort();
  await watching;
});

test('a namespace of the client counts for looking, too', async context => {
  const {broker, connect} = await one(context);
  const dl = connect(broker.url, {defaults: {namespace: 'n', owner: 'me'}});
  const held = await dl.lock('k');
  assert.equal((await dl.inspect('k')).holders[0].owner, 'me');
  assert.equal((await dl.inspect('k', {namespace: ''})).holderCount, 0);
  assert.deepEqual(await listed(dl), ['k']);
  await held.release();
});

test('re-entry, downgrade, max_hold', async context => {
  const {broker, connect} = await one(context);
  const [dl, other] = [connect(broker.url), connect(broker.url)];
  const mine = {owner: 'me', reentrant: true};
  const [first, second] = [await dl.lock('k', mine), await dl.lock('k', {...mine, wait: 0})];
  assert.ok(second.token === first.token && second.holdCount === 2);
  assert.equal(await first.release(), 'STILL_HELD');
  await second.downgrade();
  await (await other.shared('k', {wait: 0})).release();
  assert.equal(await second.release(), 'RELEASED');
  const short = await dl.lock('short', {ttl: '1s', maxHold: '1s'});
  assert.ok(['MAX_HOLD', 'LAPSED'].includes(await lossOf(short)));
});

test('elections', async context => {
  const {broker, connect} = await one(context);
  const [dl, other] = [connect(broker.url), connect(broker.url)];
  const seen = [];
  const watching = (async () => {
    for await (const leader of other.observe('boss')) {
      seen.push(leader?.value);
      if (leader?.value === 'two') return;
    }
  })();
  await eventually(() => seen.length > 0);
  const term = await dl.campaign('boss', 'one');
  await eventually(() => seen.includes('one'));
  const {token} = term;
  await term.proclaim('uno');
  await eventually(() => seen.includes('uno'));
  assert.ok(term.isHeld && term.token === token);
  assert.equal((await other.leader('boss')).value, 'uno');
  await rejected(other.campaign('boss', 'two', {wait: 0}), BusyError);
  term.releaseSoon();
  const next = await other.campaign('boss', 'two', {wait: '20s'});
  await watching;
  assert.equal(seen[0], undefined);
  await next.release();
  assert.equal(await dl.leader('boss'), undefined);
});

test('detached leases', async context => {
  const {broker, connect} = await one(context);
  const dl = connect(broker.url);
  const lease = await dl.acquireDetached('d', {ttl: '5s', wait: '20s'});
  assert.ok(lease.isHeld && lease.token > 0);
  const left = await lease.renew();
  assert.ok(left > 0 && left <= 5000);
  await rejected(dl.acquireDetached('d', {wait: 0}), BusyError);
  const elsewhere = connect(broker.url).detached(lease.leaseId, 'd');
  await elsewhere.renew();
  assert.equal(await elsewhere.release(), 'RELEASED');
  assert.equal((await rejected(lease.renew(), LockLostError)).cause, 'TAKEN');
  assert.ok(!lease.isHeld);
  const held = await dl.lock('k');
  await dl.detached(held.leaseId).release();
  assert.equal(await lossOf(held), 'RELEASED');
});

test('mutual exclusion under load', async context => {
  const {broker, connect} = await one(context);
  const clients = Array.from({length: 4}, () => connect(broker.url));
  let [inside, most] = [0, 0];
  const tokens = [];
  await Promise.all(Array.from({length: 12}, async (_, i) => {
    for (let turn = 0; turn < 25; ++turn) {
      await clients[i % 4].using('shared', {wait: '60s'}, async (signal, [token]) => {
        most = Math.max(most, ++inside);
        tokens.push(token);
        await new Promise(setImmediate);
        inside -= 1;
      });
    }
  }));
  assert.equal(most, 1);
  assert.deepEqual(tokens, [...new Set(tokens)].sort((a, b) => a - b));
  assert.equal(tokens.length, 300);
});

test('5 000 locks of one client', async context => {
  const {broker, connect} = await one(context, '--validity', '10s'); // time for a machine that is busy
  const dl = connect(broker.url);
  const held = await Promise.all(Array.from({length: 5000}, (_, i) => dl.lock(`k${i}`, {wait: '60s'})));
  assert.equal(new Set(held.map(({holderId}) => holderId)).size, 5000);
  assert.deepEqual(new Set(await Promise.all(held.map(lock => lock.release()))), new Set(['RELEASED']));
});
