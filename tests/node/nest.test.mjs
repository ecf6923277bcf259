// SPDX-License-Identifier: Apache-2.0
//
// Nest: the example on several hosts with a real broker, and the decorator alone.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {promisify} from 'node:util';
import {eventually} from './fake_broker.mjs';
import {one, world} from './harness.mjs';
import {Host, runsOf} from './hosts.mjs';
import {distlock, PACKAGE, requireThere} from './package.mjs';

const EACH_TWO_SECONDS = '*/2 * * * * *';
const {Broker} = requireThere('./dist/testing.js');
const {lockOfRun, Locked} = requireThere('./dist/hosts/nest.js');
requireThere('reflect-metadata');

// The example, as a program that was compiled and has the package installed.
let root;
before(async () => {
  root = mkdtempSync(join(tmpdir(), 'dlnest'));
  mkdirSync(join(root, 'node_modules'));
  symlinkSync(PACKAGE, join(root, 'node_modules/distlock'));
  for (const name of readdirSync(`${PACKAGE}node_modules`)) {
    if (!name.startsWith('.')) symlinkSync(`${PACKAGE}node_modules/${name}`, join(root, 'node_modules', name));
  }
  symlinkSync(`${PACKAGE}examples/nest.mts`, join(root, 'nest.mts'));
  await promisify(execFile)(process.execPath, [`${PACKAGE}node_modules/typescript/bin/tsc`, '--strict', '--target',
    'es2022', '--module', 'node16', '--skipLibCheck', '--preserveSymlinks', '--experimentalDecorators',
    '--emitDecoratorMetadata', '--types', 'node', '--outDir', root, join(root, 'nest.mts')],
  {cwd: root}).catch(error => { assert.fail(error.stdout); });
});
after(() => { rmSync(root, {recursive: true, force: true}); });

const host = (context, broker, length = '10') => (
  new Host(context, ['--preserve-symlinks', join(root, 'nest.mjs'), EACH_TWO_SECONDS, length], broker));

test('a method of 10 ms on three hosts runs once', async context => {
  const {broker} = await one(context);
  const hosts = [1, 2, 3].map(() => host(context, broker));
  const runs = await runsOf(hosts, 3);
  const due = runs.map(([, when]) => Math.floor(Number(when) / 2000));
  assert.equal(new Set(due).size, due.length, due.join(' '));
});

test('a broker that dies ends the run; without a broker none begins, with one they go on', async context => {
  const {broker} = await one(context);
  const only = host(context, broker, '60000');
  await only.says('run');
  await broker.kill();
  await eventually(() => only.lines.some(line => line.includes('LockLostError')), 'word of the loss');
  await eventually(() => only.lines.some(line => line.includes('UnavailableError')), 'word of a run without a broker');
  const runs = only.told('run').length;
  await broker.start();
  await only.says('run', runs + 1);
});

test('without a store no run begins, with one they go on', async context => {
  const made = world(context);
  const redis = await made.redis();
  const only = host(context, await made.distlockd(redis));
  await only.says('run');
  await redis.kill();
  await eventually(() => only.lines.some(line => line.includes('UnavailableError')), 'word of a run without a store');
  const runs = only.told('run').length;
  await redis.start();
  await only.says('run', runs + 1);
});

test('when a host dies in its run, another has the next one, with a greater token', async context => {
  const {broker} = await one(context);
  const first = host(context, broker, '60000');
  const [[token]] = await first.says('run');
  const second = host(context, broker);
  await first.kill();
  const [[later]] = await second.says('run');
  assert.ok(Number(later) > Number(token));
});

test('an application that ends waits for its run', async context => {
  const {broker} = await one(context);
  const only = host(context, broker, '3000');
  const [[token]] = await only.says('run');
  only.child.kill('SIGTERM');
  await only.ended;
  assert.ok(only.told('done').some(done => done[0] === token), only.lines.join('\n'));
});

/** A service whose method is decorated as a compiler does it, and says what it was called with. */
function service(client, options = {}, method = async function (...given) { return given; }) {
  class Service {
    distlock = client;
  }
  const descriptor = {value: method, writable: true, configurable: true};
  Reflect.defineMetadata('schedule', 'daily', method);
  Locked('report', {minHold: '1m', ...options})(Service.prototype, 'report', descriptor);
  Object.defineProperty(Service.prototype, 'report', descriptor);
  return new Service();
}

test('the decorator: arguments, results, the lock, metadata of decorators below', async () => {
  const broker = new Broker();
  const mine = service(broker.client(), {}, async function report(...given) {
    assert.equal(lockOfRun().key, 'report');
    return [this.distlock === lockOfRun(), ...given];
  });
  assert.deepEqual(await mine.report(7, 8), [false, 7, 8]);
  assert.equal(Reflect.getMetadata('schedule', mine.report), 'daily');
  assert.equal(mine.report.name, 'report');
  assert.throws(() => lockOfRun(), /no method under Locked/);
});

test('one host has the run, until minHold is over', async () => {
  const broker = new Broker();
  const [mine, theirs] = [1, 2].map(() => service(broker.client()));
  assert.deepEqual(await mine.report(1), [1]);
  assert.equal(await theirs.report(2), undefined);
  await broker.advance('1m');
  assert.deepEqual(await theirs.report(3), [3]);
});

test('errors: of the method, of a loss, of a broker that is away, of a class without a client', async () => {
  const broker = new Broker();
  const failing = service(broker.client(), {}, async () => { throw new RangeError('its own'); });
  await assert.rejects(failing.report(), RangeError);
  await broker.advance('1m');
  const losing = service(broker.client(), {}, async () => { await broker.lose('report', 'FORCED'); });
  await assert.rejects(losing.report(), distlock.LockLostError);
  await broker.advance('1m');
  await broker.stop();
  const alone = service(broker.client());
  const refused = assert.rejects(alone.report(), distlock.UnavailableError);
  await broker.advance('2s');
  await refused;
  await assert.rejects(service(undefined).report(), /Service\.report needs a Client in the property distlock/);
});
