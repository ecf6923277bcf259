// SPDX-License-Identifier: Apache-2.0
//
// Until when the client believes: "Belief" and "The stream" of session.md, with the clock in the test's hand.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {test} from 'node:test';
import {says} from './contract.mjs';
import {PACKAGE, SECOND, WatchedClock} from './package.mjs';
import {of, Stage} from './stage.mjs';

says('end belief in everything when it has moved further than the monotonic clock by more than a second',
  'a jump of the wall clock ends all belief', () => {
    for (const jump of [2, -2]) {
      let [wall, monotonic] = [0, 0];
      const clock = new WatchedClock(() => monotonic, () => wall);
      monotonic = wall = 5 * SECOND;
      assert.equal(clock.now(), 5 * SECOND);
      wall += Math.sign(jump) * SECOND / 2; // somebody sets the clock a little
      assert.equal(clock.now(), 5 * SECOND);
      wall += jump * SECOND; // a suspend, or a clock that was wrong
      const jumped = clock.now();
      assert.ok(jumped > 3600 * SECOND);
      monotonic += SECOND;
      wall += SECOND;
      assert.equal(clock.now(), jumped + SECOND);
    }
  });

says('Use a clock that goes on while the machine is suspended', 'a suspend counts, a step of the wall clock does not',
  () => {
    let [wall, monotonic, up] = [0, 0, 0];
    const pass = (seconds, asleep = 0) => {
      monotonic += seconds * SECOND;
      wall += (seconds + asleep) * SECOND;
      up += Math.floor((seconds + asleep) * 100) / 100; // in hundredths
    };
    const clock = new WatchedClock(() => monotonic, () => wall, () => up);
    for (const step of [0.5, -0.5, 5, -5, 3600, -3600]) {
      pass(1);
      wall += step * SECOND;
      assert.equal(clock.now(), monotonic);
    }
    for (const asleep of [0.2, 0.9, 10, 3600]) { // also one that the monotonic clock has been told of late
      const before = clock.now();
      pass(0.1, asleep);
      const felt = clock.now() - before;
      assert.ok(felt >= (0.1 + asleep) * SECOND && felt <= (0.15 + asleep) * SECOND, `${asleep} s: ${felt} ms`);
    }
    const before = clock.now();
    pass(1.1, 30);
    wall -= 30 * SECOND; // set back in the same moment: seen within a second
    assert.ok(clock.now() - before >= 31.1 * SECOND);
  });

test('an uptime in whole seconds, as of systems without /proc, is no clock', () => {
  const program = `
    const [fs, os] = [require('fs'), require('os')];
    const {existsSync} = fs;
    const {uptime} = os;
    fs.existsSync = path => path !== '/proc/uptime' && existsSync(path);
    os.uptime = () => Math.floor(uptime());
    const {clock} = require(${JSON.stringify(`${PACKAGE}dist/clock.js`)});
    let left = 20;
    const looks = setInterval(() => {
      clock.now();
      if (--left === 0) clearInterval(looks);
      process.exitCode = clock.jumped === 0 ? 0 : 1;
    }, 170);`;
  assert.equal(spawnSync(process.execPath, ['-e', program]).status, 0);
});

test('a pause between the readings of the clocks is no jump', () => {
  let monotonic = 0;
  const wall = () => monotonic += 5 * SECOND;
  for (const up of [undefined, () => { // a clock that is right, read after a pause
    monotonic += 5 * SECOND;
    return monotonic / SECOND;
  }]) {
    const clock = new WatchedClock(() => monotonic, wall, up);
    for (let i = 0; i < 3; ++i) clock.now();
    assert.equal(clock.jumped, 0);
  }
});

test('a jump of the clock does not end waits', () => {
  const stage = new Stage();
  const [bounded, held] = [stage.acquire('w', {wait: 20}), stage.hold('h')];
  const day = 24 * 3600;
  stage.table.prolongWaits(day * SECOND, stage.now + day * SECOND);
  stage.wait(day);
  assert.equal(stage.notice(held), false);
  assert.ok(stage.lapsed());
  stage.breaks();
  const again = of(stage.start(), 'acquire');
  assert.deepEqual(again[0].locks[0].maxWait, {seconds: 20, nanos: 0});
  assert.deepEqual(bounded.answers, []);
});

test('a request that begins behind a jump waits as long as it asked for', () => {
  const stage = new Stage({opened: false, unreachableAfter: 2});
  const day = 24 * 3600;
  stage.now += day * SECOND; // which is seen a moment later
  const hold = stage.acquire('k', {wait: 1});
  stage.table.prolongWaits(day * SECOND, stage.now);
  stage.tick(1);
  assert.equal(hold.refused, 'UNREACHABLE');
  assert.match(hold.answers[0].message, /within 1000 ms/);
});

says('when it sent heartbeat `echo_seq` of a grant, or `seq` of an ack, + `valid_for`; OpenSession is 0',
  'a grant counts from its heartbeat', () => {
    const stage = new Stage();
    stage.live(10);
    const seq = stage.beat();
    const sentAt = stage.now;
    stage.ack(seq);
    const hold = stage.acquire();
    stage.sent();
    stage.wait(1);
    stage.grant(hold, {validFor: 2.5, echo: seq});
    assert.equal(hold.lease.deadline, sentAt + 2.5 * SECOND);
  });

says('A deadline that passed is final. No later message brings belief back.',
  'an ack after the deadline brings nothing back', () => {
    const stage = new Stage();
    const hold = stage.hold('k', {validFor: 1});
    const seq = stage.beat();
    stage.wait(1);
    stage.ack(seq);
    assert.ok(!hold.held && hold.lost === 1);
    stage.ack(stage.beat());
    assert.ok(!hold.held && hold.lost === 1);
  });

says('Tell the program that the lock is lost, and send `ReleaseLease{lapsed: true}`',
  'a lapsed lease is released as lapsed', () => {
    const stage = new Stage();
    const hold = stage.hold('k', {validFor: 1});
    const released = of(stage.tick(1), 'release');
    assert.deepEqual(released.map(one => [one.acquireId, one.lapsed]), [[hold.id, true]]);
    assert.ok(hold.lost === 1 && hold.lease.cause === 'LAPSED');
  });

says('Look at the clock before you act', 'a late timer does not matter', () => {
  const stage = new Stage();
  const hold = stage.hold('k', {validFor: 2});
  stage.wait(2);
  assert.equal(stage.notice(hold), false);
  assert.equal(hold.lost, 1);
});

says('Remember the sending times of the last 64 heartbeats; an ack for another one extends nothing.',
  'an ack for a forgotten or unknown heartbeat extends nothing', () => {
    const stage = new Stage();
    const hold = stage.hold('k', {validFor: 2});
    const before = hold.lease.deadline;
    for (let i = 0; i < 70; ++i) stage.beat();
    for (const seq of [1, 6, 71, 2 ** 40, -3]) {
      stage.ack(seq);
      assert.equal(hold.lease.deadline, before, `seq ${seq}`);
    }
    stage.ack(7);
    assert.ok(hold.lease.deadline > before);
  });

says('Not each heartbeat is answered: the newest ack covers all older ones.',
  'a conflated ack covers the older heartbeats', () => {
    const stage = new Stage();
    const hold = stage.hold();
    const first = stage.beat();
    stage.wait(1);
    const second = stage.beat();
    const at = stage.now;
    stage.ack(second);
    assert.equal(hold.lease.deadline, at + 3 * SECOND);
    stage.ack(first, {limits: [[hold, 0.1]]}); // late
    assert.equal(hold.lease.deadline, at + 3 * SECOND);
  });

says('`heartbeat_ack` extends every lease whose `granted` stands before it on the stream, and limits those it names.',
  'limits count also when they are shorter', () => {
    const stage = new Stage();
    const [one, other] = [stage.hold('one'), stage.hold('other')];
    stage.wait(1);
    const seq = stage.beat();
    const at = stage.now;
    stage.ack(seq, {limits: [[one, 0.5]]});
    assert.equal(one.lease.deadline, at + 0.5 * SECOND);
    assert.equal(other.lease.deadline, at + 3 * SECOND);
  });

says('0 = do not believe any more', 'a limit of zero ends belief', () => {
  const stage = new Stage();
  const hold = stage.hold();
  stage.ack(stage.beat(), {limits: [[hold, 0]]});
  assert.ok(!hold.held && hold.lost === 1);
});

says('A `granted` behind an ack counts by its own `echo_seq`.', 'an ack does not extend a later grant', () => {
  const stage = new Stage();
  const hold = stage.acquire();
  stage.sent();
  stage.wait(1);
  stage.ack(stage.beat());
  stage.grant(hold, {validFor: 3, echo: 0});
  assert.equal(hold.lease.deadline, stage.now + 2 * SECOND);
});

says('when OpenSession is older than a sixth of the validity', 'a heartbeat follows a slow open at once', () => {
  for (const [delay, names] of [[0.6, ['heartbeat']], [0.1, []]]) {
    const stage = new Stage({opened: false});
    stage.start();
    stage.wait(delay);
    stage.opened();
    assert.deepEqual(stage.names(), names);
  }
});

says('when half of what a grant or a limit leaves you is gone', 'a short ttl keeps its belief', () => {
  const stage = new Stage();
  const hold = stage.hold('k', {ttl: '1s', validFor: 0.9});
  const lives = stage.now + 5 * SECOND;
  while (stage.now < lives) {
    for (const {seq} of of(stage.tick(0.05), 'heartbeat')) stage.ack(seq, {limits: [[hold, 0.9]]});
  }
  assert.ok(hold.held);
});

says('when half of what a grant or a limit leaves you is gone', 'a long grant asks half-way', () => {
  const stage = new Stage();
  stage.table.link.interval = 100 * SECOND;
  stage.table.link.heartbeatAt = stage.now + 100 * SECOND;
  stage.hold('k', {validFor: 2});
  assert.deepEqual(stage.names(stage.tick(0.99)), []);
  assert.deepEqual(stage.names(stage.tick(0.01)), ['heartbeat']);
});

says('Send one every `SessionOpened.heartbeat_interval`, counted from the sending of the last',
  'heartbeats come in the interval', () => {
    const stage = new Stage();
    for (let i = 0; i < 3; ++i) {
      assert.deepEqual(stage.names(stage.tick(0.9)), []);
      assert.deepEqual(stage.names(stage.tick(0.1)), ['heartbeat']);
    }
  });

says('the broker has given the session up, or will. Believe in nothing, end the stream.',
  'silence for a validity ends the session', () => {
    const stage = new Stage();
    const hold = stage.hold();
    stage.live(2.9, {answer: false});
    assert.ok(hold.held && !stage.lapsed());
    stage.tick(0.1);
    assert.ok(stage.lapsed() && !hold.held);
  });

says('A client without an answer for a whole validity must believe in nothing any more',
  'a late ack does not revive the session', () => {
    const stage = new Stage();
    stage.wait(1);
    const seq = stage.beat();
    stage.wait(2); // the promise of this ack would go on for a second
    stage.ack(seq);
    assert.ok(stage.lapsed());
  });

says('is not handed to the program. It is still held: send a heartbeat, and hand it out if the next ack makes it good.',
  'a late grant is handed out after the next ack', () => {
    const stage = new Stage();
    const hold = stage.acquire();
    stage.sent();
    const seq = stage.beat();
    stage.ack(seq);
    stage.wait(1);
    stage.grant(hold, {validFor: 1, echo: 0});
    assert.deepEqual(hold.answers, []);
    assert.deepEqual(stage.names(), ['heartbeat']);
    stage.ack(seq + 1);
    assert.ok(hold.granted && hold.held);
  });

says('Subtract nothing.', 'the deadline is the promise', () => {
  const stage = new Stage();
  const hold = stage.hold('k', {validFor: 2});
  stage.wait(1.999);
  assert.ok(stage.notice(hold));
  stage.wait(0.001);
  assert.ok(!stage.notice(hold));
});

says('A renewal failed. The lease is still held, and the broker keeps trying.', 'at risk, renewed, expired', () => {
  const stage = new Stage();
  const hold = stage.hold();
  const atRisk = {lease: undefined, validFor: undefined, cause: 'the store is slow', sinceGranted: undefined};
  const {cause: _, ...renewed} = atRisk;
  stage.hear({$case: 'atRisk', atRisk}, {id: hold.id});
  assert.ok(hold.held && hold.lease.risk === 'the store is slow');
  stage.hear({$case: 'renewed', renewed}, {id: hold.id});
  assert.ok(hold.held && hold.lease.risk === undefined);
  stage.hear({$case: 'atRisk', atRisk}, {id: hold.id});
  stage.ack(stage.beat(), {limits: [[hold, 0.5]]});
  stage.tick(0.5);
  assert.equal(hold.lease.cause, 'EXPIRED');
  assert.match(hold.lease.message, /the store is slow/);
});

says('while a heartbeat is unanswered and half of what the lease had left when the heartbeat was sent is gone',
  'a silent broker puts leases at risk before they lapse', () => {
    const stage = new Stage();
    const [hold, short] = [stage.hold(), stage.hold('short', {validFor: 1.5})];
    const atRisk = ({lease}) => stage.table.atRisk(lease, stage.now);
    stage.tick(1); // a heartbeat, which nobody answers
    assert.ok(!atRisk(hold) && !atRisk(short));
    stage.wait(0.25);
    assert.ok(!atRisk(hold) && atRisk(short));
    stage.wait(0.75);
    assert.ok(hold.held && atRisk(hold));
    stage.ack(stage.beat());
    assert.ok(hold.held && !atRisk(hold));
  });
