// SPDX-License-Identifier: Apache-2.0
//
// distlock/testing: how a program that takes locks is tested without a daemon.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {rejected} from './fake_broker.mjs';
import {distlock, PACKAGE} from './package.mjs';

const {Broker} = await import(`${PACKAGE}dist/testing.mjs`);
const {BusyError, InvalidRequestError, LockLostError, RefusedError, UnavailableError} = distlock;

function here(count = 2) {
  const broker = new Broker();
  return [broker, ...Array.from({length: count}, () => broker.client())];
}

test('locks exclude each other', async () => {
  const [, mine, theirs] = here();
  const held = await mine.lock('k', {owner: 'me'});
  assert.ok(held.isHeld && held.token === 1 && mine.connected);
  const busy = await rejected(theirs.lock('k', {wait: 0}), BusyError);
  assert.deepEqual([busy.reason, busy.holders.map(({owner}) => owner)], ['LOCK_HELD', ['me']]);
  assert.match(busy.message, /lock "default:k" is not free: held by "me"/);
  assert.deepEqual(mine.stats(), {held: 1, atRisk: 0, waiting: 0, connected: true});
  assert.equal((await theirs.inspect('k')).holders[0].owner, 'me');
  const listed = [];
  for await (const {key} of theirs.list()) listed.push(key);
  assert.deepEqual(listed, ['k']);
  assert.ok(await theirs.checkToken('k', 1));
  assert.equal(await held.release(), 'RELEASED');
  assert.equal(await held.release(), 'ALREADY_GONE');
  const again = await theirs.lock('k', {wait: 0});
  assert.ok(again.token === 2 && !held.isHeld && !await mine.checkToken('k', 1));
  assert.ok(await mine.drained() && !(await mine.inspect('k')).isFree);
  await theirs.close();
  assert.ok((await mine.inspect('k')).isFree && again.cause === 'CLIENT_CLOSED');
});

test('readers share, permits are counted, several locks are one', async () => {
  const [broker, mine, theirs] = here();
  const readers = [await mine.shared('rw'), await theirs.shared('rw', {wait: 0})];
  await rejected(mine.lock('rw', {wait: 0}), BusyError);
  for (const one of readers) one.releaseSoon();
  await broker.settle();
  await (await theirs.lock('rw', {wait: 0})).release();
  const permits = [await mine.permits('s', {limit: 3, n: 2}), await theirs.permits('s', {limit: 3, wait: 0})];
  assert.equal((await rejected(mine.permits('s', {limit: 3, wait: 0}), BusyError)).reason, 'LOCK_HELD');
  assert.equal((await rejected(mine.permits('s', {limit: 4, wait: 0}), BusyError)).reason, 'LIMIT_MISMATCH');
  for (const one of permits) assert.ok(one.isHeld);
  const both = await mine.all(['a', 'b']);
  await rejected(theirs.all(['b', 'c'], {wait: 0}), BusyError);
  assert.deepEqual(await both.release(), ['RELEASED', 'RELEASED']);
  assert.ok((await theirs.all(['b', 'c'], {wait: 0})).isHeld);
  const again = {owner: 'me', reentrant: true, wait: 0};
  const [one, two] = [await mine.lock('r', again), await mine.lock('r', again)];
  assert.deepEqual([two.token, two.holdCount], [one.token, 2]);
  await rejected(theirs.lock('r', again), BusyError);
  assert.deepEqual([await two.release(), await one.release()], ['STILL_HELD', 'RELEASED']);
  const held = await mine.lock('d');
  await held.downgrade();
  assert.ok((await theirs.shared('d', {wait: 0})).isHeld);
});

test('waits end by time and by releases, in their order', async () => {
  const [broker, mine, theirs] = here();
  const held = await mine.lock('k');
  const late = rejected(theirs.lock('k', {wait: '30s'}), BusyError);
  await broker.awaitWaiting('k');
  await broker.advance(29_900);
  assert.ok(held.isHeld && theirs.stats().waiting === 1);
  await broker.advance('100ms');
  assert.equal((await late).reason, 'WAIT_TIMEOUT');
  const places = [];
  const stop = new AbortController();
  const waits = [theirs.lock('k', {onQueued: ({position}) => places.push(position)}),
    theirs.lock('k', {signal: stop.signal}), mine.lock('k', {onQueued: ({position}) => places.push(position)})];
  await broker.awaitWaiting('k', 3);
  assert.deepEqual(places, [0, 2]);
  stop.abort();
  await rejected(waits[1], distlock.AbortError);
  held.releaseSoon();
  const next = await waits[0];
  assert.ok(next.isHeld && mine.stats().waiting === 1);
  next.releaseSoon();
  assert.ok((await waits[2]).isHeld);
});

test('time ends what it must', async () => {
  const [broker, dl] = here(1);
  const held = await dl.lock('k', {maxHold: '10s'});
  const {signal} = held;
  await broker.advance(9900);
  assert.ok(held.isHeld && held.validFor > 0 && held.validFor <= 200 && !signal.aborted);
  await broker.advance(100);
  assert.ok(!held.isHeld && held.cause === 'MAX_HOLD' && signal.reason instanceof LockLostError);
  assert.throws(() => { held.check(); }, LockLostError);
  await (await dl.lock('job', {minHold: '1m'})).release();
  await broker.advance('59s');
  assert.equal((await rejected(dl.lock('job', {wait: 0}), BusyError)).block.timeLeft, 1000);
  await broker.advance('1s');
  await (await dl.lock('job', {wait: 0})).release();
  await broker.advance('24h');
  assert.ok((await dl.lock('k', {wait: 0})).isHeld);
});

test('losses that the test makes', async () => {
  const [broker, dl] = here(1);
  await assert.rejects(dl.using('k', {lockDelay: '20s'}, async signal => {
    await broker.lose('k', 'TAKEN');
    assert.ok(signal.aborted);
  }), error => error instanceof LockLostError && error.cause === 'TAKEN');
  assert.equal((await dl.inspect('k')).block.timeLeft, 20_000);
  await rejected(dl.lock('k', {wait: 0}), BusyError);
  await broker.advance('20s');
  assert.ok((await dl.lock('k', {wait: 0})).isHeld);
});

test('a broker that stands still', async () => {
  const [broker, dl] = here(1);
  const held = await dl.lock('k');
  await broker.advance('100s');
  assert.ok(held.isHeld && !held.atRisk);
  broker.freeze();
  const looked = rejected(dl.inspect('k'), UnavailableError);
  await broker.advance('2s');
  assert.ok(held.isHeld && held.atRisk && dl.stats().atRisk === 1);
  await broker.advance('1s');
  assert.ok(!held.isHeld && held.cause === 'LAPSED');
  await broker.advance('10s');
  await looked;
  await broker.thaw();
  await broker.advance('5s');
  assert.ok((await dl.lock('k', {wait: 0})).isHeld);
});

test('a broker that is gone and comes back', async () => {
  const [broker, dl] = here(1);
  const [plain, kept] = [await dl.lock('plain'), await dl.lock('kept', {resume: true})];
  await broker.stop();
  assert.ok(plain.cause === 'DISCONNECTED' && kept.isHeld && kept.atRisk);
  const refused = rejected(dl.lock('k', {wait: 0}), UnavailableError);
  await broker.advance('1s');
  assert.equal((await refused).reason, 'UNREACHABLE');
  await rejected(dl.inspect('k'), UnavailableError);
  broker.start();
  await broker.advance('1s');
  assert.ok(kept.isHeld && !kept.atRisk && (await dl.inspect('kept')).holderCount === 1);
  await broker.advance('3s');
  assert.ok(kept.isHeld && (await dl.lock('plain', {wait: 0})).isHeld);
});

test('refusals', async () => {
  const [broker, dl] = here(1);
  broker.refusing = 'QUOTA_EXCEEDED';
  assert.equal((await rejected(dl.lock('k'), RefusedError)).reason, 'QUOTA_EXCEEDED');
  broker.refusing = 'STORE_UNAVAILABLE';
  await rejected(dl.lock('k'), UnavailableError);
  broker.refusing = undefined;
  assert.ok((await dl.lock('k')).isHeld);
  assert.throws(() => { broker.refusing = 'WEATHER'; }, TypeError);
  assert.equal((await rejected(dl.acquireDetached('k'), RefusedError)).reason, 'NOT_SUPPORTED');
  const wrong = [[dl.lock(''), 'key'], [dl.lock('x'.repeat(513)), 'key'], [dl.lock('a', {ttl: '1ms'}), 'ttl'],
    [dl.permits('a', {limit: 1, n: 2}), 'limit'], [dl.lock('a', {reentrant: true}), 'owner'],
    [dl.all(['a', 'a']), 'locks[1].key']];
  for (const [call, field] of wrong) {
    assert.deepEqual((await rejected(call, InvalidRequestError)).fieldProblems.map(one => one.field), [field]);
  }
});

test('elections and watches', async () => {
  const [broker, mine, theirs] = here();
  const terms = theirs.observe('cron');
  assert.equal((await terms.next()).value, undefined);
  const term = await mine.campaign('cron', 'a:1');
  assert.equal((await terms.next()).value.value, 'a:1');
  await term.proclaim('a:2');
  assert.ok((await theirs.leader('cron')).value === 'a:2' && term.isHeld);
  assert.equal((await terms.next()).value.value, 'a:2');
  await broker.stop();
  broker.start();
  await broker.advance('3s');
  assert.equal((await terms.next()).value, undefined);
  await terms.return();
  await assert.rejects(mine.watchLocks().next(), RefusedError);
});

test('what the README shows', async () => {
  const page = readFileSync(`${PACKAGE}README.md`, 'utf8');
  const [, sample] = /^## Tests of your program\n[^]*?^```ts\nimport .*\n([^]*?)^```/m.exec(page);
  const run = new Function('Broker', 'distlock', 'assert', `return (async () => {${sample}})();`);
  await run(Broker, distlock, assert);
});
