// SPDX-License-Identifier: Apache-2.0
//
// node-cron on several hosts: processes of the example, a real broker, and ends of each of them in the middle of a run.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {eventually} from './fake_broker.mjs';
import {one, world} from './harness.mjs';
import {Host, runsOf} from './hosts.mjs';
import {PACKAGE} from './package.mjs';

const EACH_SECOND = '* * * * * *';
const host = (context, broker, ...argv) => new Host(context, [`${PACKAGE}examples/node-cron.mjs`, ...argv], broker);

test('a task of 10 ms on three hosts runs once', async context => {
  const {broker} = await one(context);
  const hosts = [1, 2, 3].map(() => host(context, broker, EACH_SECOND));
  const runs = await runsOf(hosts, 5);
  const due = runs.map(([when]) => when);
  assert.equal(new Set(due).size, due.length, due.join(' '));
});

test('the run of a host that dies is done by another, with a greater token', async context => {
  const {broker} = await one(context);
  const hosts = [1, 2].map(() => host(context, broker, EACH_SECOND, '60000'));
  const [[when, token]] = await runsOf(hosts, 1);
  const [died, other] = hosts[0].told('run').some(run => run[0] === when) ? hosts : hosts.toReversed();
  await died.kill();
  const again = () => other.told('run').find(run => run[0] === when);
  const [, later] = await eventually(again, `the run of ${when} on the other host`);
  assert.ok(Number(later) > Number(token));
});

test('a broker that dies ends the run; without a broker no run begins, with one they go on', async context => {
  const {broker} = await one(context);
  const only = host(context, broker, EACH_SECOND, '60000');
  await only.says('run');
  await broker.kill();
  assert.deepEqual((await only.says('failed'))[0], ['LockLostError']);
  await eventually(() => only.lines.some(line => /onComplete failed LockLostError/.test(line)), 'the loss in the log');
  assert.deepEqual((await only.says('skipped'))[0], ['coordinator-error']);
  const before = only.told('run').length;
  await broker.start();
  await only.says('run', before + 1);
});

test('without a store no run begins, with one they go on', async context => {
  const made = world(context);
  const redis = await made.redis();
  const only = host(context, await made.distlockd(redis), EACH_SECOND);
  await only.says('run');
  await redis.kill();
  assert.deepEqual((await only.says('skipped'))[0], ['coordinator-error']);
  const before = only.told('run').length;
  await redis.start();
  await only.says('run', before + 1);
});

test('a host ends in good order', async context => {
  const {broker} = await one(context);
  const only = host(context, broker, EACH_SECOND);
  await only.says('done');
  assert.equal(await only.end(), 0);
});
