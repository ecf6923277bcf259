// SPDX-License-Identifier: Apache-2.0
//
// Processes: what keeps one alive, and that worker threads and forked children connect anew.
import assert from 'node:assert/strict';
import {fork, spawn} from 'node:child_process';
import {once} from 'node:events';
import {writeFileSync} from 'node:fs';
import {test} from 'node:test';
import {Worker} from 'node:worker_threads';
import {stand} from './fake_broker.mjs';
import {PACKAGE} from './package.mjs';

const HEAD = `import * as distlock from ${JSON.stringify(`${PACKAGE}dist/index.mjs`)};\n`
  + 'const dl = distlock.connect(process.env.DISTLOCK_SERVER);\n';

/** Runs a program; its exit code. One that does not end is killed. */
async function run(url, program) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', HEAD + program],
    {env: {...process.env, DISTLOCK_SERVER: url}, stdio: ['ignore', 'inherit', 'inherit'], timeout: 60_000});
  const [code] = await once(child, 'close');
  return code;
}

test('a client that holds nothing does not keep its process alive', async context => {
  const {broker} = await stand(context);
  const code = await run(broker.url, `
    await (await dl.lock('a')).release();
    (await dl.lock('b')).releaseSoon();`);
  assert.equal(code, 0);
  const session = await broker.session();
  assert.equal(session.got('release').length, 2, 'what was to be sent was sent');
});

test('a lock that is held keeps its process alive', async context => {
  const {broker} = await stand(context);
  const running = run(broker.url, `
    const held = await dl.lock('k');
    held.signal.addEventListener('abort', () => undefined);`);
  const session = await broker.session();
  await session.awaitCommand('heartbeat', 2);
  session.lose(session.got('acquire')[0].id, 'FORCED');
  assert.equal(await running, 0);
});

test('closing lets the process end at once', async context => {
  const {broker} = await stand(context);
  const code = await run(broker.url, `
    await dl.lock('k');
    await dl.close();`);
  assert.equal(code, 0);
  assert.equal((await broker.session()).got('goodbye').length, 1);
});

test('no broker: the process ends when the wait has', async context => {
  const {folder} = await stand(context);
  const code = await run(`unix://${folder}/nobody.sock`, `
    await dl.lock('k', {wait: 50}).catch(() => undefined);`);
  assert.equal(code, 0);
});

test('a worker thread and a forked child connect anew', async context => {
  const {broker, connect, folder} = await stand(context);
  const held = await connect(broker.url).lock('parent');
  const program = `${folder}/child.mjs`;
  writeFileSync(program, `${HEAD}await (await dl.lock('child')).release();\n`);
  const env = {...process.env, DISTLOCK_SERVER: broker.url};
  const [code] = await once(new Worker(program, {env}), 'exit');
  assert.equal(code, 0);
  const [childCode] = await once(fork(program, {env}), 'exit');
  assert.equal(childCode, 0);
  assert.equal(broker.sessions.length, 3);
  assert.ok(held.isHeld);
});
