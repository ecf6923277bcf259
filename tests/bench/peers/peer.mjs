// SPDX-License-Identifier: Apache-2.0
//
// One measurement of one lock library: peer.mjs --system redlock --work pairs --store redis://127.0.0.1:6379 ...
// (pauses and hold in ms, warm in seconds). Prints one line of JSON: {"values": {column: number}} or {"error": "why
// there are none"}. The libraries keep their own defaults; all callers of the process share one ioredis connection, or
// one client of this project's package, as they would in a program.
import {setTimeout as sleep} from 'node:timers/promises';
import {parseArgs} from 'node:util';
import Redis from 'ioredis';
import Redlock from 'redlock';

const TTL_MS = 10_000;  // redlock has no default
const QUEUE_UP_MS = 300;  // time for the waiters to queue; the libraries do not report it

// Makes acquire(key), which resolves to release().
const systems = {
  'distlock': async ({broker}) => {
    const {connect} = await import('../../../client/node/dist/index.mjs');
    const dl = connect(broker);
    return async key => {
      const held = await dl.lock(key);
      return () => held.releaseSoon(); // as leaving a scope does: the next acquire stands behind it
    };
  },
  'redlock': ({store}) => {
    const redlock = new Redlock([new Redis(store)]);
    return async key => {
      const lock = await redlock.lock(key, TTL_MS);
      return () => lock.unlock();
    };
  },
};

function percentile(sorted, part) {
  return sorted.length === 0 ? 0 : sorted[Math.floor(part * (sorted.length - 1))];
}

const ascending = values => values.sort((a, b) => a - b);

// A timer of Node.js cannot hold a lock for 1 ms, because it fires up to 1 ms late.
async function hold(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end) await new Promise(setImmediate);
}

async function pairs(acquire, {callers, seconds, warm}) {
  const begin = performance.now() + warm * 1000;
  const end = begin + seconds * 1000;
  const micros = [];
  const caller = async i => {
    for (let asked = performance.now(); asked < end; asked = performance.now()) {
      const release = await acquire(`peer:pair:${i}`);
      await release();
      const done = performance.now();
      if (asked >= begin && done <= end) micros.push((done - asked) * 1000);
    }
  };
  await Promise.all(Array.from({length: callers}, (_, i) => caller(i)));
  if (micros.length === 0) throw new Error('nothing was done');
  ascending(micros);
  return {
    'pairs/s': micros.length / seconds,
    'p50 µs': percentile(micros, 0.5),
    'p99 µs': percentile(micros, 0.99),
  };
}

// Two parties in turn; the holder releases when the waiter has waited for one of the pauses.
async function handoff(acquire, {pauses}) {
  const micros = [];
  let release = await acquire('peer:handoff');
  for (const pause of pauses) {
    let released = 0;
    const next = acquire('peer:handoff').then(give => {
      if (released === 0) throw new Error('two parties held one lock');
      micros.push((performance.now() - released) * 1000);
      return give;
    });
    await Promise.race([next, sleep(pause)]);
    released = performance.now();
    await release();
    release = await next;
  }
  await release();
  ascending(micros);
  return {'p50 µs': percentile(micros, 0.5), 'p99 µs': percentile(micros, 0.99)};
}

// The time from the release that starts the waiters to the last release.
async function queueOnce(acquire, {waiters: count, hold: millis}) {
  const first = await acquire('peer:queue');
  let holders = 1;
  const waiter = async () => {
    const release = await acquire('peer:queue');
    if (++holders !== 1) throw new Error('two parties held one lock');
    await hold(millis);
    --holders;
    await release();
  };
  const waiters = Array.from({length: count}, waiter);
  await Promise.race([Promise.all(waiters), sleep(QUEUE_UP_MS)]);
  const start = performance.now();
  --holders;
  await first();
  await Promise.all(waiters);
  return performance.now() - start;
}

async function queue(acquire, {runs, ...shape}) {
  const millis = [];
  for (let i = 0; i < runs; ++i) millis.push(await queueOnce(acquire, shape));
  ascending(millis);
  return {'makespan ms': millis[Math.floor(runs / 2)], 'slowest ms': millis[runs - 1]};
}

const works = {pairs, handoff, queue};

async function main() {
  const text = {type: 'string'};
  const {values: {system, work, store, broker, pauses = '', ...rest}} = parseArgs({
    options: {
      system: text, work: text, store: text, broker: text, callers: text, seconds: text, warm: text, pauses: text,
      runs: text, waiters: text, hold: text,
    },
  });
  const shape = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, Number(value)]));
  const acquire = await systems[system]({store, broker});
  return {values: await works[work](acquire, {...shape, pauses: pauses.split(',').map(Number)})};
}

const answer = await main().catch(e => ({error: `${e.name}: ${e.message}`}));
console.log(JSON.stringify(answer));
process.exit('error' in answer ? 1 : 0);
