// SPDX-License-Identifier: Apache-2.0
//
// The shims, against what redlock and redis-semaphore document of their classes.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {eventually, rejected, stand} from './fake_broker.mjs';
import {convert, distlock, PACKAGE, requireThere} from './package.mjs';

const {default: Redlock, ExecutionError, LockError, Lock, ResourceLockedError} =
  await import(`${PACKAGE}dist/compat/redlock.mjs`);
const semaphore = await import(`${PACKAGE}dist/compat/redis-semaphore.mjs`);
const {LostLockError, Mutex, MultiSemaphore, RedlockMutex, Semaphore, TimeoutError} = semaphore;

const busy = (session, {id}) => { session.refuse(id, 'LOCK_HELD'); };
const asked = async broker => (await broker.session()).got('acquire').at(-1).locks;
const lose = async broker => {
  const session = await broker.session();
  session.lose(session.got('acquire').at(-1).id, 'TAKEN');
};

async function stage(context) {
  const {broker, connect} = await stand(context);
  return {broker, dl: connect(broker.url)};
}

test('redlock: acquire and release', async context => {
  const {broker, dl} = await stage(context);
  const redlock = new Redlock([dl], {retryCount: 60, retryDelay: 1000});
  const before = Date.now();
  const lock = await redlock.acquire(['a', 'b'], 5000);
  const locks = await asked(broker);
  assert.deepEqual(locks.map(({key}) => key), ['a', 'b']);
  assert.equal(locks[0].maxHold, undefined, 'extend() moves its end');
  assert.ok(convert.fromWire(locks[0].maxWait) > 0 && convert.fromWire(locks[0].maxWait) <= 60_000);
  assert.ok(lock instanceof Lock && lock.expiration >= before + 5000 && lock.value === '1');
  assert.deepEqual([lock.resources, lock.tokens], [['a', 'b'], [1, 2]]);
  assert.deepEqual(await lock.release(), {attempts: []});
  await rejected(lock.release(), ExecutionError);
});

test('redlock: the names of version 4, and no end', async context => {
  const {broker, dl} = await stage(context);
  const redlock = new Redlock(dl, {retryCount: -1});
  const lock = await redlock.lock('a');
  const [{maxHold, maxWait}] = await asked(broker);
  assert.deepEqual([maxHold, maxWait, lock.expiration], [undefined, undefined, Infinity]);
  assert.equal(await lock.extend(60_000), lock);
  assert.ok(lock.expiration <= Date.now() + 60_000);
  await redlock.unlock(lock);
  assert.match((await rejected(lock.extend(60_000), ExecutionError)).message, /not held any more/);
  assert.equal(Redlock.LockError, LockError);
  assert.ok(new ResourceLockedError('held') instanceof Error, 'programs ask for it');
  const made = new ExecutionError('in a test', [Promise.resolve({})]);
  assert.deepEqual([made.name, made.message, made.attempts.length], ['ExecutionError', 'in a test', 1]);
  assert.equal(requireThere('./dist/compat/redlock.js').default, Redlock);
});

test('redlock: a duration ends the lock, unless it is extended', async context => {
  const {broker, dl} = await stage(context);
  const redlock = new Redlock([dl]);
  const lock = await redlock.acquire(['a'], 60_000);
  const session = await broker.session();
  const {expiration} = lock;
  assert.equal(await redlock.extend(lock, 300_000), lock);
  assert.ok(lock.expiration >= expiration + 200_000 && !lock.signal.aborted);
  assert.equal(session.got('release').length, 0);
  await lock.extend(20); // also a shorter one counts
  await eventually(() => lock.signal.aborted);
  assert.ok(lock.signal.reason instanceof ExecutionError);
  await eventually(() => session.got('release').length === 1);
  await rejected(lock.extend(60_000), ExecutionError);
  await rejected(lock.release(), ExecutionError);

  const late = await redlock.acquire(['b'], 20);
  const until = performance.now() + 40;
  while (performance.now() < until); // the event loop is blocked
  await rejected(late.extend(60_000), ExecutionError);
  assert.ok(late.signal.reason instanceof ExecutionError);
  const long = await redlock.acquire(['c'], 2 ** 40); // longer than a timer can be
  const lost = await redlock.acquire(['d'], 60_000);
  await lose(broker);
  await eventually(() => lost.signal.aborted);
  assert.ok(lost.signal.reason instanceof distlock.LockLostError && !long.signal.aborted);
  await rejected(lost.extend(60_000), ExecutionError);
  assert.deepEqual(await long.release(), {attempts: []});
});

test('redlock: busy', async context => {
  const {broker, dl} = await stage(context);
  broker.onAcquire = busy;
  const redlock = new Redlock([dl]);
  const failed = await rejected(redlock.acquire(['a'], 1000, {retryCount: 0}), ExecutionError);
  assert.ok(failed.cause instanceof distlock.BusyError);
  assert.equal(convert.fromWire((await asked(broker))[0].maxWait), 0);
  assert.throws(() => new Redlock([{}]), TypeError);
});

test('redlock: using', async context => {
  const {broker, dl} = await stage(context);
  const redlock = new Redlock([dl]);
  assert.equal(await redlock.using(['a'], 5000, async signal => (signal.aborted ? 0 : 7)), 7);
  assert.equal((await asked(broker))[0].maxHold, undefined);
  const lost = redlock.using(['a'], 5000, {retryCount: 1}, async signal => {
    await lose(broker);
    await eventually(() => signal.aborted);
    throw signal.error;
  });
  await rejected(lost, ExecutionError);
});

test('redis-semaphore: a mutex', async context => {
  const {broker, dl} = await stage(context);
  const mutex = new Mutex(dl, 'k', {lockTimeout: 5000, acquireTimeout: 60_000, identifier: 'me'});
  assert.deepEqual([mutex.isAcquired, mutex.identifier], [false, 'me']);
  await mutex.acquire();
  const [{owner, ttl, maxHold, maxWait}] = await asked(broker);
  assert.deepEqual([owner, convert.fromWire(ttl), maxHold], ['me', 5000, undefined]);
  assert.ok(convert.fromWire(maxWait) > 0 && convert.fromWire(maxWait) <= 60_000);
  assert.ok(mutex.isAcquired && mutex.token === 1);
  await mutex.release();
  await mutex.release();
  assert.ok(!mutex.isAcquired);
  assert.throws(() => { mutex.stopRefresh(); }, /renews locks itself/);
});

test('redis-semaphore: semaphores', async context => {
  const {broker, dl} = await stage(context);
  await new Semaphore([dl], 's', 5, {refreshInterval: 0, lockTimeout: 500}).acquire();
  const [{permits, limit, maxHold, ttl}] = await asked(broker);
  assert.deepEqual([permits, limit, convert.fromWire(maxHold), ttl], [1, 5, 500, undefined]);
  await new MultiSemaphore(dl, 'm', 5, 3).acquire();
  assert.deepEqual((await asked(broker)).map(one => [one.permits, one.limit]), [[3, 5]]);
  assert.ok(new RedlockMutex([dl], 'x') instanceof Mutex);
});

test('redis-semaphore: busy, lost, and what goes', async context => {
  const {broker, dl} = await stage(context);
  const told = [];
  const mutex = new Mutex(dl, 'k', {onLockLost(error) { told.push([error, this]); }});
  await mutex.acquire();
  await lose(broker);
  await eventually(() => told.length > 0);
  assert.ok(told[0][0] instanceof LostLockError && told[0][1] === mutex && !mutex.isAcquired);
  broker.onAcquire = busy;
  assert.equal(await mutex.tryAcquire(), false);
  assert.match((await rejected(new Mutex(dl, 'k').acquire(), TimeoutError)).message, /Acquire Mutex k timeout/);
  assert.equal(await new Mutex(dl, 'k', {acquireAttemptsLimit: 1}).tryAcquire(), false);
  assert.equal(convert.fromWire((await asked(broker))[0].maxWait), 0);
  assert.throws(() => new Mutex(dl, 'k', {identifier: 'me', acquiredExternally: true}), /detached/);
  assert.throws(() => new Mutex({}, 'k'), TypeError);
  const stop = AbortSignal.abort();
  await rejected(new Mutex(dl, 'k').acquire(stop), distlock.AbortError);
  assert.equal(semaphore.defaultTimeoutOptions.acquireTimeout, 10000);
});
