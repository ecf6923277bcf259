// SPDX-License-Identifier: Apache-2.0
//
// The status page: while somebody looks at it, it asks page.json each second and shows what came. What callers have
// written is only ever put into text nodes, with signs that nobody would see written out.
'use strict';

const EVERY_MS = 1000;
const SLOWEST_MS = 8000;  // between two questions while the broker does not answer
const PATIENCE_MS = 5000;
const POINTS = 60;
const QUEUES = 5;
const SVG = 'http://www.w3.org/2000/svg';
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

const at = (id) => document.getElementById(id);
const seconds = (duration) => Number.parseFloat(duration ?? '0');
const visible = (text) =>
  String(text ?? '').replace(UNSEEN, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
const shortened = (name) => (name ?? '').replace(/^[A-Z_]*_(?=[A-Z]+$)/, '').toLowerCase();

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = visible(text);
  made.append(...children);
  return made;
}

function ago(timestamp) {
  return timestamp ? new Date(timestamp).toISOString().replace('T', ' ').slice(0, 19) : '';
}

function span(duration) {
  if (duration === undefined) return '';
  const s = seconds(duration);
  if (s < 10) return `${s.toFixed(1)} s`;
  const parts = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'min'],
    [Math.floor(s) % 60, 's']];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).map(([count, unit]) => `${count} ${unit}`).join(' ');
}

// The holders' share: of a semaphore how many permits out of how many, and what is free.
function share(lock) {
  const [holder] = lock.holders;
  if (!holder || !holder.limit) return shortened(holder?.mode);
  if (lock.holderCount > lock.holders.length) return `of ${holder.limit} permits`;
  const taken = lock.holders.reduce((sum, one) => sum + one.permits, 0);
  return `${taken} of ${holder.limit} permits` + (lock.block ? '' : `, ${holder.limit - taken} free`);
}

// ---- Requests ----

const search = {namespace: '', prefix: '', page: ''};
let chosen = null;  // {namespace, key} of the lock whose holders and waiters are shown
let failures = 0;
let answered = null;  // when the broker answered last
let timer = 0;
let asking = null;

async function ask(signal) {
  // A prefix is of one namespace, - is all of them.
  const namespace = search.namespace || (search.prefix ? 'default' : '-');
  const query = new URLSearchParams({namespace, prefix: search.prefix, page: search.page});
  if (chosen) {
    query.set('lockNamespace', chosen.namespace);
    query.set('lock', chosen.key);
  }
  const answer = await fetch(`page.json?${query}`, {cache: 'no-store', signal});
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).slice(0, 300)}`);
  return answer.json();
}

async function turn() {
  clearTimeout(timer);
  asking?.abort();
  asking = null;
  if (document.hidden) return;
  const mine = asking = new AbortController();
  const patience = setTimeout(() => mine.abort(), PATIENCE_MS);
  try {
    const said = await ask(mine.signal);
    if (asking !== mine) return;
    failures = 0;
    answered = new Date();
    show(said);
  } catch (error) {
    if (asking !== mine) return;
    failures += 1;
    const last = answered ? `; what is shown is of ${answered.toLocaleTimeString()}` : '';
    const why = error instanceof Error && error.name === 'Error' ? ` (${error.message})` : '';
    banner(`The broker does not answer${why}${last}`, false);
  } finally {
    clearTimeout(patience);
  }
  timer = setTimeout(turn, Math.min(EVERY_MS * 2 ** failures, SLOWEST_MS));
}

function banner(text, fromBroker) {
  const shown = at('banner');
  shown.hidden = text === '';
  shown.textContent = visible(text);
  shown.classList.toggle('says', fromBroker);
  document.body.classList.toggle('stale', text !== '' && !fromBroker);
}

// ---- Numbers and their rates ----

const NUMBERS = [
  ['leases', 'leases', (said) => Number(said.status.leases), false],
  ['waiters', 'waiters', (said) => Number(said.status.waiters), false],
  ['sessions', 'streams', (said) => Number(said.status.sessions), false],
  ['grants', 'grants/s', (said) => said.counters.grants, true],
  ['refusals', 'refusals/s', (said) => said.counters.refusals, true],
  ['lost', 'lost/s', (said) => said.counters.lost, true],
];
const past = new Map();  // the points of each line
let before = null;  // {broker, time, said}

function showNumbers(said) {
  const now = performance.now();
  if (before && before.broker !== said.status.brokerId) {
    before = null;
    past.clear();
  }
  const boxes = NUMBERS.map(([name, title, read, isRate]) => {
    let value = read(said);
    if (isRate) value = before ? Math.max(value - read(before.said), 0) / ((now - before.time) / 1000) : null;
    const points = past.get(name) ?? [];
    past.set(name, points);
    if (value !== null) points.push(value);
    if (points.length > POINTS) points.shift();
    const shown = value === null ? '–' : isRate ? value.toFixed(value < 10 ? 1 : 0) : value.toLocaleString('en');
    const box = element('div', null, element('span', title), element('b', shown), line(points));
    box.id = `number-${name}`;
    return box;
  });
  at('numbers').replaceChildren(...boxes);
  before = {broker: said.status.brokerId, time: now, said};
}

function line(points) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${POINTS - 1} 20`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  const most = Math.max(...points, 1);
  const drawn = document.createElementNS(SVG, 'polyline');
  const start = POINTS - points.length;
  drawn.setAttribute('points', points.map((p, i) => `${start + i},${(19 - 18 * p / most).toFixed(2)}`).join(' '));
  svg.append(drawn);
  return svg;
}

// ---- Tables ----

// `rows`: of cells, which are texts or elements. Cells are named as the table's columns, for narrow screens.
function fill(id, rows, none) {
  const table = at(id);
  const columns = [...table.querySelectorAll('th')].map((head) => head.textContent);
  const made = rows.map((cells) => element('tr', null, ...cells.map((cell, i) => {
    const inside = cell instanceof Element ? cell : element('bdi', cell);
    const td = element('td', null, inside);
    if (columns[i]) td.dataset.column = columns[i];
    return td;
  })));
  if (made.length === 0 && none) {
    const td = element('td', none);
    td.colSpan = Math.max(columns.length, 1);
    td.className = 'none';
    made.push(element('tr', null, td));
  }
  // The focus stays where it is.
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.name : undefined;
  table.tBodies[0].replaceChildren(...made);
  if (focused !== undefined) {
    [...table.querySelectorAll('button')].find((button) => button.dataset.name === focused)?.focus();
  }
}

function nameOf(lock) {
  return `${lock.namespace}:${lock.key}`;
}

function nameButton(lock) {
  const button = element('button', null, element('bdi', nameOf(lock)));
  button.type = 'button';
  button.className = 'name';
  button.dataset.name = nameOf(lock);
  button.addEventListener('click', () => {
    chosen = {namespace: lock.namespace, key: lock.key};
    turn();
  });
  return button;
}

function lockRow(lock) {
  const [holder] = lock.holders;
  const more = lock.holderCount > lock.holders.length ? ` and ${lock.holderCount - lock.holders.length} more` : '';
  const owners = lock.holders.map((one) => one.owner || one.holderId).join(', ') + more;
  const block = lock.block;
  const kind = block?.minHold ? 'min_hold' : 'lock_delay';
  const blocked = block ? `blocked for ${span(block.timeLeft)}: ${kind} of ${block.owner}` : '';
  return [nameButton(lock), holder ? owners : blocked, share(lock), String(lock.fencingToken), span(holder?.heldFor),
    String(lock.queueLength)];
}

function showLocks(said) {
  at('hidden').hidden = said.hidden === '';
  at('hidden').textContent = visible(said.hidden);
  const locks = said.list?.locks ?? [];
  locks.sort((a, b) => b.queueLength - a.queueLength || (nameOf(a) < nameOf(b) ? -1 : 1));
  fill('locks', locks.map(lockRow), said.hidden === '' ? 'no lock is held' : '');
  at('more').hidden = !said.list?.nextPageToken;
  at('more').value = said.list?.nextPageToken ?? '';
  at('first').hidden = search.page === '';
  const queues = locks.filter((lock) => lock.queueLength > 0).slice(0, QUEUES);
  fill('queues', queues.map((lock) => {
    const meter = element('meter', null);
    meter.max = queues[0].queueLength;
    meter.value = lock.queueLength;
    return [nameOf(lock), String(lock.queueLength), meter];
  }), 'nobody waits');
}

function showOne(lock) {
  at('one').hidden = !lock;
  if (!lock) return;
  at('one-name').textContent = visible(nameOf(lock));
  const holders = lock.holders.map((one) => ['holder', one.owner, one.identity, shortened(one.mode),
    span(one.heldFor), ago(one.acquireTime), one.brokerId]);
  const waiters = lock.waiters.map((one, i) => [`waiter ${i + 1}`, one.owner, '', shortened(one.mode),
    '', ago(one.startTime), one.brokerId]);
  fill('one-rows', [...holders, ...waiters], 'nobody holds it');
}

function showStore(status) {
  fill('nodes', status.storeNodes.map((node) => [node.address,
    shortened(node.state).replace('_', ' ') + (node.problem ? `: ${node.problem}` : ''), node.role, node.version,
    node.replicas.map((one) => `${one.address}${one.online ? '' : ' (behind)'}`).join(', ')]), 'none is known yet');
}

function showBroker(status) {
  fill('broker', [['version', status.version], ['broker_id', status.brokerId],
    ['up for', `${Math.floor(seconds(status.uptime))} s`], ['listens at', status.listenAddresses.join(', ')],
    ['store', `${status.storeUrl} ${shortened(status.storeState)}`], ['draining', status.draining ? 'yes' : 'no'],
    ['shards', String(status.shards)]]);
}

function holdOff(said) {
  const left = said.list?.holdOff;
  if (left === undefined) return '';
  const time = seconds(left).toFixed(0);
  return `Nobody is newly granted a lock for ${time} s: the store may have forgotten holders (hold-off)`;
}

function show(said) {
  banner(said.problem === '' ? holdOff(said) : `The broker is not ready: ${said.problem}`, true);
  if (!said.status) return;
  showNumbers(said);
  showLocks(said);
  showOne(said.lock);
  showStore(said.status);
  showBroker(said.status);
}

// ---- Actions ----

function look() {
  search.namespace = at('namespace').value;
  search.prefix = at('prefix').value;
  at('namespace').placeholder = search.prefix ? 'default' : 'all';
  search.page = '';
  turn();
}
at('search').addEventListener('input', look);
at('search').addEventListener('submit', (event) => {
  event.preventDefault();
  look();
});
at('more').addEventListener('click', () => {
  search.page = at('more').value;
  turn();
});
at('first').addEventListener('click', () => {
  search.page = '';
  turn();
});
at('one-close').addEventListener('click', () => {
  chosen = null;
  turn();
});
document.addEventListener('visibilitychange', turn);
turn();
