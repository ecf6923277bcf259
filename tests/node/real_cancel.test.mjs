// SPDX-License-Identifier: Apache-2.0
//
// Calls that a signal ends at any moment leave nothing behind at a real broker. DISTLOCK_CANCELLATIONS sets how many.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {setTimeout as sleep} from 'node:timers/promises';
import {eventually} from './fake_broker.mjs';
import {one} from './harness.mjs';
import {distlock} from './package.mjs';

const COUNT = Number(process.env.DISTLOCK_CANCELLATIONS ?? 2000);
const SIDE_BY_SIDE = 10;
const KEYS = 12; // so few that some have to wait
const pick = count => Math.floor(Math.random() * count);

/** A call of the package that the signal may end; what it gives has releaseSoon(), or is nothing. */
function take(dl, options) {
  const key = `k${pick(KEYS)}`;
  switch (pick(6)) {
    case 0: return dl.shared(key, options);
    case 1: return dl.permits(`p${pick(3)}`, {...options, limit: 3, n: 1 + pick(3)});
    case 2: return dl.all([key, `other${pick(KEYS)}`], options);
    case 3: return dl.using(key, options, () => sleep(pick(2)));
    case 4: return dl.lock(`free${pick(1e6)}`, options);
    default: return dl.lock(key, options);
  }
}

/** Waits for a moment that may be any: in this turn, in one of the next, or some milliseconds later. */
async function anyMoment() {
  const turns = pick(12);
  if (turns > 6) await sleep(pick(40));
  else for (let i = 0; i < turns; ++i) await new Promise(resolve => { setImmediate(resolve); });
}

async function cancelSome(dl, counts) {
  while (counts.aborted < COUNT) {
    const stop = new AbortController();
    const call = take(dl, {wait: ['1s', undefined, 0][pick(3)], signal: stop.signal}).then(held => {
      counts.granted += 1;
      held?.releaseSoon();
    }, error => {
      if (error instanceof distlock.AbortError) counts.aborted += 1;
      else if (error instanceof distlock.BusyError) counts.busy += 1;
      else throw error;
    });
    await anyMoment();
    stop.abort();
    await call;
  }
}

/** The keys that somebody holds or waits for. */
async function taken(dl) {
  const left = [];
  for await (const {key} of dl.list('', {namespace: '-'})) left.push(key);
  const names = prefix => Array.from({length: KEYS}, (_, i) => `${prefix}${i}`);
  for (const key of [...names('k'), ...names('other'), 'p0', 'p1', 'p2']) {
    if (!(await dl.inspect(key)).isFree) left.push(key);
  }
  return left;
}

test(`${COUNT} cancellations at any moment leave no lock and no waiter`, async context => {
  const {broker, connect} = await one(context);
  const clients = [connect(broker.url), connect(broker.url)];
  const counts = {aborted: 0, granted: 0, busy: 0};
  await Promise.all(Array.from({length: SIDE_BY_SIDE}, (_, i) => cancelSome(clients[i % 2], counts)));
  for (const dl of clients) {
    assert.ok(await dl.drained('20s'), 'all is given back');
    assert.deepEqual([dl.stats().held, dl.stats().waiting], [0, 0]);
  }
  let left;
  const none = async () => {
    left = await taken(clients[0]);
    return left.length === 0;
  };
  // The last ones are withdrawn without an answer.
  await eventually(none, 'the end of all locks').catch(() => undefined);
  const {aborted, granted, busy} = counts;
  context.diagnostic(`cancelled ${aborted}, granted ${granted}, busy ${busy}, leaked ${left.length}`);
  assert.deepEqual(left, []);
});
