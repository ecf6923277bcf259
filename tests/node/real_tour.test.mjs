// SPDX-License-Identifier: Apache-2.0
//
// The examples do what they show.
import assert from 'node:assert/strict';
import {execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {promisify} from 'node:util';
import {one} from './harness.mjs';
import {PACKAGE} from './package.mjs';

const run = promisify(execFile);
const environment = ({broker}) => ({...process.env, DISTLOCK_SERVER: broker.url});

test('the tour prints what it shows', async context => {
  const shown = readFileSync(`${PACKAGE}examples/tour.txt`, 'utf8');
  const env = environment(await one(context));
  const {stdout} = await run(process.execPath, [`${PACKAGE}examples/tour.mjs`], {env, timeout: 100_000});
  assert.equal(stdout, shown);
});

test('the service', async context => {
  const made = await one(context);
  const service = spawn(process.execPath, [`${PACKAGE}examples/service.mjs`, '0'],
    {env: environment(made), stdio: ['ignore', 'pipe', 'inherit']});
  context.after(() => service.kill('SIGKILL'));
  const [said] = await once(service.stdout, 'data');
  const url = `http://127.0.0.1:${/port (\d+)/.exec(said)[1]}/transfer?from=7&to=9&amount=5`;
  const moved = await fetch(url, {method: 'POST'});
  assert.match(await moved.text(), /^moved 5 under the tokens \d+ and \d+\n$/);
  const held = await made.connect(made.broker.url).lock('account/9', {wait: '20s'});
  assert.equal((await fetch(url, {method: 'POST'})).status, 409);
  await held.release();
  service.kill('SIGTERM');
  const [code] = await once(service, 'exit');
  assert.equal(code, 0);
});
