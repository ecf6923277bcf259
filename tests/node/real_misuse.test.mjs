// SPDX-License-Identifier: Apache-2.0
//
// Programs that use the package as it is not meant, with a real broker.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {test} from 'node:test';
import {inspect} from 'node:util';
import {rejected} from './fake_broker.mjs';
import {one} from './harness.mjs';
import {distlock, PACKAGE} from './package.mjs';

/** Runs a program with a client `dl`; its exit code. */
async function run(context, url, program) {
  const head = `import * as distlock from '${PACKAGE}dist/index.mjs'; const dl = distlock.connect('${url}');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', head + program],
    {stdio: ['ignore', 'pipe', 'pipe']});
  context.after(() => child.kill('SIGKILL'));
  child.stderr.resume();
  let said = '';
  child.stdout.on('data', text => { said += text; });
  const [code] = await once(child, 'close');
  assert.equal(said, 'inside\n');
  return code;
}

const ENDS = {
  'process.exit': ['await dl.using("k", () => { console.log("inside"); process.exit(3); });', 3],
  'process.exit of a handler': [`process.on("SIGTERM", () => process.exit(4));
    await dl.using("k", async signal => {
      console.log("inside");
      process.kill(process.pid, "SIGTERM");
      await new Promise(resolve => { signal.onabort = resolve; });
    });`, 4],
  'an exception': ['await dl.using("k", () => { console.log("inside"); throw new Error("of the body"); });', 1],
  'an exception that nobody catches': [`await dl.using("k", async signal => {
    console.log("inside");
    setImmediate(() => { throw new Error("elsewhere"); });
    await new Promise(resolve => { signal.onabort = resolve; });
  });`, 1],
  'a rejection that nobody handles': [`const held = await dl.lock("k");
    console.log("inside");
    Promise.reject(new Error(String(held.isHeld)));`, 1],
};
for (const [name, [program, wanted]] of Object.entries(ENDS)) {
  test(`${name} in a body ends the program, and its lock`, async context => {
    const {broker, connect} = await one(context);
    assert.equal(await run(context, broker.url, program), wanted);
    const began = performance.now();
    await (await connect(broker.url).lock('k', {wait: '30s'})).release();
    assert.ok(performance.now() - began < 13_000, 'not when its ttl of 15 s ends');
  });
}

// The release has arrived, for a death would leave no block.
for (const program of ['await dl.using("k", {minHold: "1h"}, () => { console.log("inside"); });',
  `const held = await dl.lock("k", {minHold: "1h"});
   console.log("inside");
   await held[Symbol.asyncDispose]();`]) {
  test(`minHold of a program that ends right after ${program.slice(0, 18)}`, async context => {
    const {broker, connect} = await one(context);
    assert.equal(await run(context, broker.url, `${program} process.exit(6);`), 6);
    assert.ok((await connect(broker.url).inspect('k')).block.timeLeft > 3_000_000);
  });
}

test('a client that is closed in a body', async context => {
  const {broker, connect} = await one(context);
  const dl = connect(broker.url);
  const lost = await rejected(dl.using(['a', 'b'], async signal => {
    const waits = rejected(dl.lock('a'), distlock.ClientClosedError);
    await dl.close();
    await waits;
    assert.ok(signal.aborted);
  }), distlock.LockLostError);
  assert.equal(lost.cause, 'CLIENT_CLOSED');
  await connect(broker.url).all(['a', 'b'], {wait: '20s'});
});

test('releases at once, and again, are one release', async context => {
  const {broker, connect} = await one(context);
  const [dl, other] = [connect(broker.url), connect(broker.url)];
  const held = await dl.lock('k');
  assert.deepEqual(await Promise.all([held.release(), held.release(), held.release()]),
    ['RELEASED', 'ALREADY_GONE', 'ALREADY_GONE']);
  const next = await other.lock('k', {wait: 0});
  held.releaseSoon();
  assert.equal(await held.release(), 'ALREADY_GONE');
  assert.equal((await dl.inspect('k')).holderCount, 1);
  assert.ok(next.isHeld);
});

test('a handle is for its thread, and its secret for nobody', async context => {
  const {broker, connect} = await one(context);
  const dl = connect(broker.url);
  const held = await dl.lock('k');
  assert.throws(() => structuredClone(held), {name: 'DataCloneError'});
  for (const text of [inspect(held, {depth: 10, showHidden: true}), JSON.stringify(held), String(held)]) {
    assert.ok(!text.includes(held.leaseId), text);
  }
  assert.ok(held.isHeld);
  await held.release();
});
