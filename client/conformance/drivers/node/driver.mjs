// SPDX-License-Identifier: Apache-2.0
//
// The Node.js package, as client/conformance drives it. Commands come as JSON lines on stdin; what the package says
// goes out as JSON lines on stdout. client/conformance/README.md lists both.
import {writeSync} from 'node:fs';
import {createInterface} from 'node:readline';
import {isMainThread, parentPort, Worker, workerData} from 'node:worker_threads';
import * as distlock from '../../../node/dist/index.mjs';

// Node.js has no CLOCK_BOOTTIME; the runner says how far it is from the monotonic clock.
const APART = BigInt(process.env.DISTLOCK_BOOT_APART_NS ?? '0');
const bootNow = () => Number(process.hrtime.bigint() + APART);

/** One line on stdout, whole and at once. */
function say(event, more) {
  const line = Buffer.from(`${JSON.stringify({event, at: bootNow(), ...more})}\n`);
  for (let sent = 0; sent < line.length;) {
    try {
      sent += writeSync(1, line, sent);
    } catch (error) {
      if (error.code !== 'EAGAIN') process.exit(3); // nobody reads any more
    }
  }
}

/** The deadline, or a few microseconds less. */
const untilOf = held => bootNow() + Math.floor(held.validFor * 1e6);

const entries = new Map(); // the locks of the case, by name
let [client, server] = [];

function add(lock) {
  if (entries.has(lock)) throw new Error(`${lock} is in use`);
  const entry = {lock, held: undefined, stop: new AbortController()};
  entries.set(lock, entry);
  return entry;
}

function find(lock) {
  const entry = entries.get(lock);
  if (entry === undefined) throw new Error(`there is no ${lock}`);
  return entry;
}

function heldOf(lock) {
  const {held} = find(lock);
  if (held === undefined) throw new Error(`${lock} was not granted`);
  return held;
}

function granted(entry, held) {
  const {lock} = entry;
  entry.held = held;
  say('granted', {lock, token: held.token, hold_count: held.holdCount, until: untilOf(held)});
  const {signal} = held;
  const lost = () => say('lost', {lock, cause: signal.reason.cause, message: signal.reason.message});
  if (signal.aborted) lost();
  else signal.addEventListener('abort', lost);
}

function refused(lock, error) {
  const reason = error.name === 'AbortError' ? 'CANCELLED' : error.reason ?? 'CLIENT_CLOSED';
  const holders = (error.holders ?? []).map(({owner}) => owner);
  const more = error.retryAfter === undefined ? {} : {retry_after_ms: error.retryAfter};
  say('refused', {lock, reason, message: error.message, holders, ...more});
}

function optionsOf(line) {
  const names = {wait_ms: 'wait', ttl_ms: 'ttl', max_hold_ms: 'maxHold', lock_delay_ms: 'lockDelay',
    min_hold_ms: 'minHold', owner: 'owner', on_disconnect: 'onDisconnect', reentrant: 'reentrant', resume: 'resume'};
  const given = Object.entries(names).filter(([from]) => from in line);
  return Object.fromEntries(given.map(([from, to]) => [to, line[from]]));
}

const commands = {
  connect({address, unreachable_ms}) {
    const onDraining = timeLeft => say('draining', {time_left_ms: timeLeft});
    const more = unreachable_ms === undefined ? {} : {unreachableAfter: unreachable_ms};
    server = address;
    client = distlock.connect(address, {label: 'conformance', onDraining, ...more});
  },

  /** A thread that takes locks by a client of its own, and is ended at once. */
  async spawn({keys}) {
    const worker = new Worker(new URL(import.meta.url), {workerData: {address: server, keys}});
    const taken = await new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    await worker.terminate();
    say('worker', {taken});
  },

  async close() {
    await client.close();
    say('closed');
  },

  async acquire(line) {
    const {lock, key, mode = 'EXCLUSIVE', limit, permits = 1} = line;
    const entry = add(lock);
    const onQueued = ({position}) => say('queued', {lock, position});
    const options = {...optionsOf(line), signal: entry.stop.signal, onQueued};
    try {
      const held = mode === 'SHARED' ? await client.shared(key, options)
        : mode === 'PERMIT' ? await client.permits(key, {...options, limit, n: permits})
          : await client.lock(key, options);
      granted(entry, held);
    } catch (error) {
      refused(lock, error);
    }
  },

  /** Lock i of the request is called NAME.i. */
  async acquire_all(line) {
    const stop = new AbortController();
    const parts = line.keys.map((_, i) => Object.assign(add(`${line.lock}.${i}`), {stop}));
    try {
      const all = await client.all(line.keys, {...optionsOf(line), signal: stop.signal});
      parts.forEach((entry, i) => granted(entry, all.parts[i]));
    } catch (error) {
      parts.forEach(({lock}) => refused(lock, error));
    }
  },

  cancel({lock}) {
    find(lock).stop.abort();
  },

  async release({lock}) {
    const since = bootNow();
    const outcome = await heldOf(lock).release();
    say('released', {lock, outcome, since});
  },

  async downgrade({lock}) {
    try {
      await heldOf(lock).downgrade();
      say('downgraded', {lock});
    } catch (error) {
      say('not_downgraded', {lock, reason: error.reason ?? 'LOST'});
    }
  },

  state({lock}) {
    const held = heldOf(lock);
    const at = bootNow(); // before the question: so long at least the answer is true
    const {isHeld, cause, token} = held;
    const state = isHeld ? held.atRisk ? 'AT_RISK' : 'HELD' : cause === 'GIVEN_BACK' ? 'RELEASED' : 'LOST';
    say('state', {lock, at, state, cause, token, until: isHeld ? untilOf(held) : 0});
  },
};

async function work({address, keys}) {
  const own = distlock.connect(address, {label: 'worker'});
  const taken = [];
  for (const key of keys) {
    taken.push(await own.lock(key, {wait: 0}).then(() => 'GRANTED', error => error.reason ?? String(error)));
  }
  parentPort.postMessage(taken);
}

function drive() {
  say('ready', {language: 'Node.js', features: ['cancel', 'queued', 'many', 'ordered', 'stores', 'worker']});
  const lines = createInterface({input: process.stdin});
  lines.on('line', async text => {
    try {
      const line = JSON.parse(text);
      if (!Object.hasOwn(commands, line.do)) throw new Error(`cannot do ${line.do}`);
      await commands[line.do](line);
    } catch (error) {
      say('failed', {line: text, message: String(error)});
    }
  });
  lines.on('close', () => process.exit(0));
}

if (isMainThread) drive();
else await work(workerData);
