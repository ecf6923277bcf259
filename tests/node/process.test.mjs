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

/** Runs a program; its exit code, and how long it took in milliseconds after it said `done`. */
async function run(url, program) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', HEAD + program],
    {env: {...process.env, DISTLOCK_SERVER: url}, stdio: ['ignore', 'pipe', 'inherit']});
  let said = 0;
  child.stdout.on('data', text => { if (String(text).includes('done')) said = performance.now(); });
  const [code] = await once(child, 'close');
  return {code, lingered: performance.now() - said};
}

test('a client that holds nothing does not keep its process alive', async context => {
  const {broker} = await stand(context);
  const {code, lingered} = await run(broker.url, `
    await (await dl.lock('a')).release();
    (await dl.lock('b')).releaseSoon();
    console.log('done');`);
  assert.equal(code, 0);
  assert.ok(lingered < 2500, `${lingered} ms`); // an open session would have lasted for ever
  const session = await broker.session();
  assert.equal(session.got('release').length, 2, 'what was to be sent was sent');
});

test('a lock that is held keeps its process alive', async context => {
  const {broker} = await stand(context);
  const running = run(broker.url, `
    const held = await dl.lock('k');
    held.signal.addEventListener('abort', () => console.log('done'));`);
  const session = await broker.session();
  await session.awaitCommand('heartbeat', 2);
  session.lose(session.got('acquire')[0].id, 'FORCED');
  assert.equal((await running).code, 0);
});

test('closing lets the process end at once', async context => {
  const {broker} = await stand(context);
  const {code, lingered} = await run(broker.url, `
    await dl.lock('k');
    await dl.close();
    console.log('done');`);
  assert.equal(code, 0);
  assert.ok(lingered < 2500, `${lingered} ms`);
  assert.equal((await broker.session()).got('goodbye').length, 1);
});

test('no broker: the process ends when the wait has', async context => {
  const {folder} = await stand(context);
  const {code} = await run(`unix://${folder}/nobody.sock`, `
    await dl.lock('k', {wait: 50}).catch(error => console.log(error.reason, 'done'));`);
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
