// SPDX-License-Identifier: Apache-2.0
//
// Requests and their answers: "The stream", "How a session ends" and "Messages" of session.md.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {says} from './contract.mjs';
import {channel, convert, SECOND, wire} from './package.mjs';
import {of, Stage} from './stage.mjs';

const millis = ({maxWait}) => (maxWait === undefined ? undefined : convert.fromWire(maxWait));

says('OpenSession first, within 10 s; other commands may follow at once', 'waits leave with the open', () => {
  const stage = new Stage({opened: false});
  stage.acquire();
  assert.deepEqual(stage.names(stage.start()), ['open', 'acquire']);
});

says('An acquire of n locks uses the ids `id` .. `id + n - 1`, one for each lock.', 'ids of several locks', () => {
  const stage = new Stage();
  const [group, after] = [stage.acquireAll(['a', 'b', 'c']), stage.acquire('d')];
  const commands = of(stage.sent(), 'acquire');
  assert.deepEqual(commands.map(({locks}) => locks.length), [3, 1]);
  assert.deepEqual(group.request.leases.map(({id}) => id), [0, 1, 2].map(i => commands[0].id + i));
  assert.equal(after.id, commands[0].id + 3);
});

says('all `granted` together, each with its own token, or all `refused` for the same reason.',
  'several locks are answered once', () => {
    const stage = new Stage();
    const group = stage.acquireAll(['a', 'b']);
    stage.sent();
    stage.grant(group, {token: 1});
    assert.deepEqual(group.answers, []);
    stage.grant(group, {id: group.id + 1, token: 2});
    assert.ok(group.granted);
    assert.deepEqual(group.request.leases.map(({token}) => token), [1, 2]);
    const other = stage.acquireAll(['a', 'b']);
    stage.sent();
    stage.refuse(other.id, 'LOCK_HELD');
    stage.refuse(other.id + 1, 'LOCK_HELD');
    assert.ok(other.refused === 'LOCK_HELD' && other.answers.length === 1);
  });

says('`granted` may cross it: then CANCELLED follows, and nothing is held.', 'a cancel that crosses a grant', () => {
  const stage = new Stage();
  const hold = stage.acquire();
  stage.sent();
  stage.table.cancel(hold.request, stage.now);
  stage.tell();
  assert.equal(hold.refused, 'CANCELLED');
  assert.deepEqual(of(stage.sent(), 'cancel').map(({acquireId}) => acquireId), [hold.id]);
  stage.grant(hold);
  assert.ok(!hold.held && stage.table.live.size === 0);
  stage.refuse(hold.id, 'CANCELLED');
  assert.deepEqual(stage.names(), []);
});

test('a cancel of what is granted already gives it back', () => {
  const stage = new Stage();
  const hold = stage.hold();
  stage.table.cancel(hold.request, stage.now);
  assert.deepEqual(stage.names(), ['release']);
  assert.ok(!hold.held);
});

says('Commands are carried out in order', 'a release goes before the next acquire of the lock', () => {
  const stage = new Stage();
  const hold = stage.hold();
  stage.table.release(hold.lease, undefined, stage.now);
  stage.acquire();
  assert.deepEqual(stage.names(), ['release', 'acquire']);
});

says('Half-closing the stream without it counts as a break.', 'closing says goodbye', () => {
  const stage = new Stage();
  const hold = stage.hold();
  stage.table.close(stage.now);
  stage.tell();
  assert.deepEqual(stage.names(), ['goodbye']);
  assert.ok(hold.lost === 1 && hold.lease.cause === 'CLIENT_CLOSED');
});

says('Ignore an event that you do not know.', 'unknown events are ignored', () => {
  const stage = new Stage();
  const hold = stage.hold();
  const unknown = Uint8Array.of(0x08, 0x05, 0xfa, 0x07, 0x02, 0x08, 0x01); // field 127
  stage.table.onEvent(stage.link, wire.SessionEvent.decode(unknown), stage.now);
  stage.hear(undefined);
  assert.ok(hold.held);
});

says('Treat an unknown LostReason as a loss, an unknown RefusalReason as a refusal, an unknown ReleaseOutcome as an '
  + 'outcome that is not known.', 'unknown values', () => {
  const stage = new Stage();
  const [lost, refused, released, told] = [stage.hold('a'), stage.acquire('b'), stage.hold('c'), []];
  stage.lose(lost, 99);
  assert.ok(lost.lost === 1 && lost.lease.cause === 'UNKNOWN_99');
  stage.refuse(refused.id, 99);
  assert.equal(refused.refused, 'UNKNOWN_99');
  const [command] = of(stage.release(released, outcome => told.push(outcome)), 'release');
  stage.released(command.id, 99);
  assert.deepEqual(told, ['UNKNOWN']);
});

for (const reason of ['EXPIRED', 'TAKEN', 'FORCED', 'MAX_HOLD', 'DRAINED', 'MOVED']) {
  says('Lost, the end of the stream, or the last message of a call end belief at once.', `a loss: ${reason}`, () => {
    const stage = new Stage();
    const hold = stage.hold();
    stage.lose(hold, reason);
    assert.ok(hold.lost === 1 && hold.lease.cause === reason);
    stage.lose(hold, reason);
    assert.equal(hold.lost, 1);
  });
}

says('A lost lease never comes back.', 'nothing brings a lost lease back', () => {
  const stage = new Stage();
  const hold = stage.hold();
  stage.lose(hold, 'FORCED');
  stage.grant(hold);
  stage.ack(stage.beat());
  assert.ok(!hold.held);
});

says('all leases of the session are lost, except those that move.', 'a break loses leases and keeps waits', () => {
  const stage = new Stage();
  const [hold, waits] = [stage.hold('a'), stage.acquire('b', {wait: 30})];
  stage.sent();
  stage.breaks();
  assert.ok(hold.lost === 1 && hold.lease.cause === 'DISCONNECTED');
  assert.deepEqual(waits.answers, []);
});

says('Ask again for what was not granted yet', 'waits go on with what is left', () => {
  const stage = new Stage();
  const [waits, tries] = [stage.acquire('b', {wait: 30}), stage.acquire('c', {wait: 0})];
  assert.deepEqual(of(stage.sent(), 'acquire').map(({locks}) => millis(locks[0])), [30_000, 0]);
  stage.wait(2);
  stage.breaks();
  assert.deepEqual(of(stage.start(), 'acquire').map(({locks}) => millis(locks[0])), [28_000, 0]);
  stage.opened();
  stage.grant(waits);
  stage.grant(tries);
  assert.ok(waits.granted && tries.granted);
});

says('What does not fit goes into the next message.', 'messages stay below the limit', () => {
  const stage = new Stage({maxBytes: 2000});
  for (let i = 0; i < 100; ++i) stage.acquire(`${'k'.repeat(100)}${i}`);
  const sizes = [];
  let commands = 0;
  for (let packed; (packed = stage.table.pack(stage.link, stage.now)) !== undefined;) {
    sizes.push(packed.length);
    commands += wire.SessionRequest.decode(packed).commands.length;
  }
  assert.ok(sizes.length > 5 && Math.max(...sizes) <= 2000 && commands === 100);
});

says('and 64 KiB before that is known', 'a request that no message takes', () => {
  const keys = Array.from({length: 40}, (_, i) => `${'x'.repeat(2000)}${i}`);
  const large = new Stage({opened: false});
  large.acquireAll(keys);
  assert.deepEqual(large.names(large.start()), ['open']);
  large.opened({maxBytes: 1 << 20});
  assert.deepEqual(large.names(), ['acquire']);
  large.breaks();
  assert.deepEqual(large.names(large.start()), ['open'], 'another broker may take less');
  const small = new Stage({opened: false});
  const group = small.acquireAll(keys);
  small.start();
  small.opened();
  assert.equal(group.refused, 'INVALID_ARGUMENT');
  assert.match(group.answers[0].message, /65536/);
});

says('an acquire beyond that is refused with QUOTA_EXCEEDED.', 'quota', () => {
  const stage = new Stage();
  const hold = stage.acquire();
  stage.sent();
  stage.refuse(hold.id, 'QUOTA_EXCEEDED', {message: 'this session may hold 1000'});
  assert.equal(hold.refused, 'QUOTA_EXCEEDED');
});

says("under the acquire's when somebody else released it", 'a release by others is a loss', () => {
  const stage = new Stage();
  const hold = stage.hold();
  stage.released(hold.id, 'RELEASED');
  assert.ok(hold.lost === 1 && hold.lease.cause === 'RELEASED');
});

says("An id is free again when its command is answered, an acquire's when its lease has ended.",
  'ids are never used twice', () => {
    const stage = new Stage();
    const seen = new Set();
    for (let i = 0; i < 5; ++i) {
      const hold = stage.hold();
      for (const id of [hold.id, ...stage.release(hold).map(one => one.id)]) {
        assert.ok(!seen.has(id));
        seen.add(id);
      }
    }
  });

says('How long to wait. Unset: until granted. 0: one try, which never queues.', 'the three waits', () => {
  const stage = new Stage();
  for (const wait of [undefined, 0, 2.5]) stage.acquire('k', {wait});
  assert.deepEqual(of(stage.sent(), 'acquire').map(({locks}) => millis(locks[0])), [undefined, 0, 2500]);
});

says('`max_wait` passed.', 'a silent broker does not prolong a wait', () => {
  const stage = new Stage();
  const hold = stage.acquire('k', {wait: 1});
  stage.sent();
  stage.live(1.4);
  assert.deepEqual(hold.answers, []);
  stage.live(0.2);
  assert.equal(hold.refused, 'WAIT_TIMEOUT');
  stage.grant(hold);
  assert.ok(!hold.held);
});

test('no broker at all', () => {
  const stage = new Stage({opened: false, unreachableAfter: 2});
  const [hold, bounded] = [stage.acquire(), stage.acquire('k', {wait: 1})];
  stage.tick(1);
  assert.equal(bounded.refused, 'UNREACHABLE');
  assert.deepEqual(hold.answers, []);
  stage.tick(1);
  assert.equal(hold.refused, 'UNREACHABLE');
  assert.match(hold.answers[0].message, /DISTLOCK_SERVER/);
});

says('By default one try looks for 1 s, a wait with an end for all of its time, one without for 10 s',
  'for how long a broker is looked for', () => {
    const stage = new Stage({opened: false, unreachableAfter: null});
    const [tries, bounded, hold] = [stage.acquire('k', {wait: 0}), stage.acquire('k', {wait: 30}), stage.acquire()];
    stage.tick(0.9);
    assert.deepEqual(tries.answers, []);
    stage.tick(0.1);
    assert.equal(tries.refused, 'UNREACHABLE');
    stage.tick(9);
    assert.equal(hold.refused, 'UNREACHABLE');
    assert.deepEqual(bounded.answers, []);
    stage.tick(20);
    assert.equal(bounded.refused, 'UNREACHABLE');
  });

says('go to another broker', 'a draining broker with no other turns waits away when it holds nothing', () => {
  const stage = new Stage();
  const waits = stage.acquire('k', {wait: 20});
  stage.sent();
  stage.refuse(waits.id, 'DRAINING');
  assert.deepEqual(stage.names(), ['goodbye']);
  assert.deepEqual(waits.answers, []);
  stage.breaks();
  assert.deepEqual(stage.names(stage.start()), ['open', 'acquire']);
});

says('It is the same lease with the same token; hold_count is one greater.', 'reentrant holds end one by one', () => {
  const stage = new Stage();
  const [one, two] = [0, 1].map(() => stage.hold('k', {owner: 'me', reentrant: true}));
  assert.deepEqual(of(stage.release(one), 'release').map(({acquireId}) => acquireId), [one.id]);
  assert.ok(two.held && !one.held);
});

test('a table is idle when nothing is held, waited for or unanswered', () => {
  const stage = new Stage();
  assert.ok(stage.table.idle);
  const hold = stage.hold();
  assert.ok(!stage.table.idle);
  const [{id}] = stage.release(hold);
  assert.ok(!stage.table.idle, 'the release is not answered');
  stage.released(id, 'RELEASED');
  assert.ok(stage.table.idle);
});

test('a thousand waits end when their time has come, and those that were answered do not come back', () => {
  const stage = new Stage();
  const at = i => 1 + ((i * 7919) % 1000) / 100;
  const holds = Array.from({length: 1000}, (_, i) => stage.acquire(String(i), {wait: at(i)}));
  for (let sent; (sent = of(stage.sent(), 'acquire')).length > 0;) {
    for (const {id} of sent) stage.queued({id});
  }
  holds.forEach((hold, i) => { if (i % 10 !== 0) stage.refuse(hold.id, 'LOCK_HELD'); });
  const since = stage.now;
  while (stage.table.live.size > 0) {
    const before = stage.table.live.size;
    stage.live(0.05, {step: 0.05});
    const over = holds.filter((_, i) => i % 10 === 0 && since + (at(i) + 0.5) * SECOND + 10 <= stage.now);
    assert.ok(over.every(hold => hold.refused === 'WAIT_TIMEOUT'));
    const early = holds.filter((_, i) => i % 10 === 0 && since + (at(i) + 0.5) * SECOND > stage.now);
    assert.ok(early.every(({answers}) => answers.length === 0) && stage.table.live.size <= before);
  }
  assert.ok(holds.every(({answers}) => answers.length === 1));
});

test('ten thousand locks', () => {
  const stage = new Stage();
  const holds = Array.from({length: 10_000}, (_, i) => stage.acquire(String(i)));
  stage.grantAll();
  assert.ok(holds.every(({held}) => held));
  stage.wait(1);
  stage.ack(stage.beat());
  stage.tick(2.5);
  assert.ok(holds.every(({held}) => held));
  stage.tick(0.5);
  assert.ok(!holds.some(({held}) => held) && stage.table.live.size === 0);
});

test('the reader of sessions reads what the generated code reads', () => {
  for (const [id, message] of [[0, ''], [127, 'a'], [128, 'ä€😀'], [2 ** 53 - 1, 'x'.repeat(200)], [-1, '\uFEFFb']]) {
    const lost = {lease: undefined, reason: wire.LostReason.FORCED, message};
    const bytes = Buffer.from(wire.SessionEvent.encode({id, event: {$case: 'lost', lost}}).finish());
    assert.deepEqual(wire.SessionEvent.decode(new channel.Reader(bytes)), {id, event: {$case: 'lost', lost}});
    assert.throws(() => wire.SessionEvent.decode(new channel.Reader(bytes.subarray(0, -1))), RangeError);
  }
  const large = Buffer.from([8, ...Array(7).fill(0x80), 0x10]); // an id of 2^53
  assert.throws(() => wire.SessionEvent.decode(new channel.Reader(large)), /larger than/);
});
