// SPDX-License-Identifier: Apache-2.0
//
// Leases and waits that move to another session: "Moving a lease" and "Keeping a place" of session.md.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {says} from './contract.mjs';
import {SECOND, wire} from './package.mjs';
import {Drained, of, Stage} from './stage.mjs';

/** Waits through a broker that drains; another one is known and has opened. */
class Left extends Stage {
  constructor() {
    super({brokers: 2});
    this.waits = this.acquire('k', {wait: 20});
    [this.first] = of(this.sent(), 'acquire');
    this.former = this.link;
    this.drain();
    this.left = this.names(this.sent(this.former));
    [this.again] = of(this.start(), 'acquire');
    this.opened();
  }
}

says('open a session there, send all new acquires to it, adopt there what the former session holds, and say Goodbye to '
  + 'the former one when it holds nothing. The program hears nothing.', 'a drain moves leases', () => {
  const stage = new Drained();
  const {held, adopt, former} = stage;
  assert.deepEqual([adopt.leaseId, adopt.lock.key], ['secret', 'k']);
  assert.ok(adopt.requestId.length >= 16);
  assert.deepEqual(stage.names(stage.sent(former)), []);
  stage.grant(held, {leaseId: 'new', id: adopt.id});
  assert.ok(held.held && held.lost === 0 && held.lease.leaseId === 'new' && held.lease.token === 7);
  assert.deepEqual(stage.names(stage.sent(former)), ['goodbye']);
  const other = stage.acquire('other');
  assert.deepEqual(stage.names(), ['acquire']);
  assert.equal(other.lease.link, stage.link);
});

says('Until then keep both sessions alive with heartbeats.', 'both sessions beat while leases move', () => {
  const stage = new Drained();
  stage.wait(1);
  stage.table.tick(stage.now);
  assert.deepEqual(stage.names(), ['heartbeat']);
  assert.deepEqual(stage.names(stage.sent(stage.former)), ['heartbeat']);
});

says('What waits at the former broker is sent to the next one, and keeps its place.', 'waiters move', () => {
  const stage = new Left();
  assert.deepEqual(stage.left, []);
  assert.equal(stage.again.requestId, stage.first.requestId);
  assert.ok(stage.first.requestId.length >= 16);
  stage.refuse(stage.waits.id, 'CANCELLED', {link: stage.former});
  stage.grant(stage.waits);
  assert.ok(stage.waits.granted);
  assert.deepEqual(stage.names(stage.sent(stage.former)), ['goodbye']);
});

says('Say Goodbye to a former session only when all that waited there is answered by the next one, be it by `queued`.',
  'the goodbye waits for the next broker', () => {
    const stage = new Left();
    assert.deepEqual(stage.names(stage.sent(stage.former)), []);
    stage.queued(stage.waits, {position: 1});
    assert.deepEqual(stage.names(stage.sent(stage.former)), ['goodbye']);
    assert.deepEqual(stage.waits.answers, []);
  });

says('**Never count a grant by the former session**, not even one that was sent before.',
  'a grant by the former session goes back when the next one has the place', () => {
    const stage = new Left();
    stage.grant(stage.waits, {link: stage.former});
    assert.deepEqual(stage.waits.answers, []);
    assert.deepEqual(stage.names(stage.sent(stage.former)), []);
    stage.queued(stage.waits);
    const [release] = of(stage.sent(stage.former), 'release');
    assert.equal(release.acquireId, stage.waits.id);
    stage.released(release.id, 'RELEASED', stage.former);
    assert.deepEqual(stage.names(stage.sent(stage.former)), ['goodbye']);
    stage.grant(stage.waits);
    assert.ok(stage.waits.granted);
  });

says('One try has no place: send it without a `request_id`.', 'one try has no place', () => {
  const stage = new Stage();
  stage.acquire('k', {wait: 0});
  assert.equal(of(stage.sent(), 'acquire')[0].requestId, '');
});

says('Ask again for what was not granted yet, under the same `request_id`s, at once.', 'a break', () => {
  const stage = new Stage();
  stage.acquire();
  const [{requestId}] = of(stage.sent(), 'acquire');
  stage.breaks();
  assert.equal(of(stage.start(), 'acquire')[0].requestId, requestId);
  assert.notEqual(requestId, '');
});

says('A session may adopt its own lease, unless it is reentrant, to change owner and metadata',
  'what is shown of a lease changes', () => {
    const [stage, told] = [new Stage(), []];
    const proclaim = (hold, value) => {
      stage.table.proclaim(hold.lease, {v: value}, refusal => told.push(refusal?.reason), stage.now);
      stage.tell();
      return of(stage.tick(), 'adopt');
    };
    const hold = stage.hold();
    const asked = proclaim(hold, 'new');
    assert.deepEqual(asked[0].lock.metadata, {v: 'new'});
    assert.deepEqual(told, []);
    stage.lose(hold, 'MOVED');
    stage.grant(hold, {leaseId: 'next', id: asked[0].id});
    assert.ok(hold.held && hold.lost === 0 && hold.lease.leaseId === 'next');
    assert.deepEqual(told, [undefined]);
    const [again] = proclaim(hold, 'newer');
    assert.equal(again.leaseId, 'next');
    stage.refuse(again.id, 'INVALID_ARGUMENT');
    assert.ok(hold.held && told[1] === 'INVALID_ARGUMENT');
    assert.deepEqual(proclaim(stage.hold('r', {owner: 'me', reentrant: true}), 'x'), []);
    stage.release(hold);
    assert.deepEqual(proclaim(hold, 'x'), []);
    assert.deepEqual(told.slice(2), ['NOT_SUPPORTED', 'NOT_HOLDER']);
  });

says("The former session's promise counts until `granted` of the adoption arrives, or it ends. Only that session's "
  + 'acks extend it', 'acks of the former session count until the move', () => {
  const stage = new Drained();
  const {held, former} = stage;
  const before = held.lease.deadline;
  stage.wait(1);
  stage.ack(stage.beat());
  assert.equal(held.lease.deadline, before);
  stage.ack(stage.beat(former), {link: former});
  assert.equal(held.lease.deadline, stage.now + 3 * SECOND);
});

says('When `granted` arrives after the former deadline, the lease is lost: tell the program, and release it in the new '
  + 'session with `lapsed`.', 'an adoption that comes too late', () => {
  const stage = new Drained();
  stage.wait(2);
  const seq = stage.beat(); // the new session's promise goes on for two seconds more
  stage.wait(1);
  stage.grant(stage.held, {echo: seq, id: stage.adopt.id});
  assert.ok(!stage.held.held && stage.held.lost === 1);
  const released = of(stage.sent(), 'release').map(({acquireId, lapsed}) => [acquireId, lapsed]);
  assert.deepEqual(released, [[stage.adopt.id, true]]);
});

test('a change that the next broker refuses does not keep the lease from moving there', () => {
  const [stage, told] = [new Drained(), []];
  stage.refuse(stage.adopt.id, 'STORE_UNAVAILABLE');
  stage.table.proclaim(stage.held.lease, {v: 'new'}, refusal => told.push(refusal?.reason), stage.now);
  const [changed] = of(stage.tick(), 'adopt');
  assert.deepEqual(changed.lock.metadata, {v: 'new'});
  stage.refuse(changed.id, 'INVALID_ARGUMENT');
  const [plain] = of(stage.tick(), 'adopt');
  assert.deepEqual([plain.lock.metadata, told], [{}, ['INVALID_ARGUMENT']]);
  stage.grant(stage.held, {id: plain.id});
  assert.ok(stage.held.held && stage.held.lease.link === stage.link);
});

says("Otherwise only the new session's anchors count from `granted` on, also when the new deadline is earlier.",
  'the new session counts also when it promises less', () => {
    const stage = new Drained();
    const seq = stage.beat(stage.former);
    stage.grant(stage.held, {validFor: 1, id: stage.adopt.id});
    assert.equal(stage.held.lease.deadline, stage.now + SECOND);
    stage.ack(seq, {link: stage.former});
    assert.equal(stage.held.lease.deadline, stage.now + SECOND);
  });

says('LeaseLost(MOVED), of a lease whose adoption was asked for, is no loss.', 'moved when asked for', () => {
  const stage = new Drained();
  stage.lose(stage.held, 'MOVED', stage.former);
  assert.ok(stage.held.held && stage.held.lost === 0);
  stage.grant(stage.held, {id: stage.adopt.id});
  assert.ok(stage.held.held);
});

for (const reason of ['EXPIRED', 'TAKEN', 'FORCED', 'MAX_HOLD']) {
  says('Every other LeaseLost is final.', `${reason} is final while a lease moves`, () => {
    const stage = new Drained();
    stage.lose(stage.held, reason, stage.former);
    assert.ok(stage.held.lease.cause === reason && stage.held.lost === 1);
  });
}

for (const [onDisconnect, survives] of [['SAFE', true], ['RELEASE', false]]) {
  for (const end of ['drained', 'broken']) {
    says('Nor is LeaseLost(DRAINED), or the end of the former stream, as long as the former promise lasts; but with '
      + 'ON_DISCONNECT_RELEASE both are.', `${end}, ${onDisconnect}`, () => {
      const stage = new Drained({onDisconnect});
      if (end === 'drained') stage.lose(stage.held, 'DRAINED', stage.former);
      else stage.breaks(stage.former);
      assert.equal(stage.held.held, survives);
      if (!survives) return;
      stage.wait(1);
      stage.grant(stage.held, {id: stage.adopt.id});
      assert.ok(stage.held.held && stage.held.lost === 0);
    });
  }
}

says('Repeat it until there is an answer, through whichever broker; a try whose answer was lost may have succeeded.',
  'a repeated adoption has the same request_id', () => {
    const stage = new Drained();
    stage.breaks();
    stage.start();
    stage.opened();
    const [again] = of(stage.sent(), 'adopt');
    assert.equal(again.requestId, stage.adopt.requestId);
    stage.grant(stage.held, {id: again.id});
    assert.ok(stage.held.held);
  });

says('The next move of the lease takes another one.', 'the next move has another request_id', () => {
  const stage = new Drained();
  stage.grant(stage.held, {leaseId: 'second', id: stage.adopt.id});
  stage.sent(stage.former);
  stage.breaks(stage.former);
  stage.drain();
  stage.start();
  stage.opened();
  const [again] = of(stage.sent(), 'adopt');
  assert.equal(again.leaseId, 'second');
  assert.notEqual(again.requestId, stage.adopt.requestId);
});

says('NOT_HOLDER means lost.', 'not holder', () => {
  const stage = new Drained();
  stage.refuse(stage.adopt.id, 'NOT_HOLDER');
  assert.ok(stage.held.lost === 1 && stage.held.lease.cause === 'TAKEN');
});

says('NOT_SUPPORTED, INVALID_ARGUMENT and the like: the lease stays where it is', 'one that stays', () => {
  const stage = new Drained();
  stage.refuse(stage.adopt.id, 'NOT_SUPPORTED');
  assert.ok(stage.held.held && stage.held.lease.link === stage.former);
  assert.deepEqual(stage.draining, [30]);
  stage.breaks(stage.former);
  assert.equal(stage.held.lost, 1);
});

says('Everything else: ask again after `retry_after`, or 100 ms, while the promise lasts.', 'other refusals', () => {
  const stage = new Drained();
  stage.refuse(stage.adopt.id, 'STORE_UNAVAILABLE');
  assert.deepEqual(stage.names(stage.tick(0.05)), []);
  assert.deepEqual(stage.names(stage.tick(0.05)), ['adopt']);
});

says('SHARED once LeaseDowngraded has come. While a downgrade is not answered, do not adopt.',
  'a downgrade delays the move', () => {
    const stage = new Stage({brokers: 2});
    const [hold, former, told] = [stage.hold(), stage.link, []];
    stage.table.downgrade(hold.lease, refusal => told.push(refusal));
    const [command] = of(stage.sent(), 'downgrade');
    stage.drain();
    stage.start();
    stage.opened();
    assert.deepEqual(stage.names(), []);
    stage.hear({$case: 'downgraded', downgraded: {lease: undefined}}, {id: command.id, link: former});
    assert.deepEqual(told, [undefined]);
    assert.equal(of(stage.sent(), 'adopt')[0].lock.mode, wire.LockMode.SHARED);
  });

says('all holds move in one command.', 'reentrant holds move together', () => {
  const stage = new Stage({brokers: 2});
  const holds = [0, 1, 2].map(() => stage.hold('k', {owner: 'me', reentrant: true}));
  stage.drain();
  stage.start();
  stage.opened();
  const adopts = of(stage.sent(), 'adopt');
  assert.deepEqual(adopts.map(({holdCount}) => holdCount), [3]);
  holds.forEach((hold, i) => { stage.grant(hold, {id: adopts[0].id + i}); });
  assert.ok(holds.every(hold => hold.held && hold.lease.link === stage.link));
});

says('An acquire of the same lock and owner waits until they have arrived: it would wait for itself otherwise.',
  'a reentrant acquire waits for the move', () => {
    const stage = new Drained({owner: 'me', reentrant: true});
    const again = stage.acquire('k', {owner: 'me', reentrant: true});
    assert.deepEqual(stage.names(), []);
    stage.grant(stage.held, {id: stage.adopt.id});
    assert.deepEqual(stage.names(), ['acquire']);
    stage.grant(again);
    assert.ok(again.held);
  });

says('and the program wants the lease to outlive that: adopt it in the next session, wherever that is.',
  'resume after a break', () => {
    const stage = new Stage();
    const [hold, plain] = [stage.hold('k', {resume: true, leaseId: 'kept'}), stage.hold('plain')];
    stage.breaks();
    assert.ok(hold.held && hold.lost === 0 && hold.lease.risk !== undefined);
    assert.ok(plain.lost === 1 && plain.lease.cause === 'DISCONNECTED');
    stage.wait(1);
    stage.start();
    stage.opened();
    const [adopt] = of(stage.sent(), 'adopt');
    assert.equal(adopt.leaseId, 'kept');
    stage.grant(hold, {id: adopt.id});
    assert.ok(hold.held && hold.lease.risk === undefined);
  });

says('Not with ON_DISCONNECT_RELEASE: that broker frees the lock at once.', 'resume has no effect then', () => {
  const stage = new Stage();
  const hold = stage.hold('k', {resume: true, onDisconnect: 'RELEASE'});
  stage.breaks();
  assert.equal(hold.lost, 1);
});

says('if the features of the broker that has the lease contain `adopt`, too', 'a broker without adopt', () => {
  const stage = new Stage({features: []});
  const hold = stage.hold('k', {resume: true});
  stage.breaks();
  assert.equal(hold.lost, 1);
});

test('ten thousand leases move', () => {
  const stage = new Stage({brokers: 2});
  const holds = Array.from({length: 10_000}, (_, i) => stage.acquire(String(i)));
  stage.grantAll();
  const former = stage.link;
  stage.drain();
  stage.start();
  stage.opened({features: ['adopt']});
  const byKey = new Map(holds.map(hold => [hold.lease.spec.key, hold]));
  let moved = 0;
  for (let adopts = of(stage.sent(), 'adopt'); adopts.length > 0; adopts = of(stage.sent(), 'adopt')) {
    moved += adopts.length;
    for (const {id, lock} of adopts) stage.grant(byKey.get(lock.key), {id});
  }
  assert.equal(moved, 10_000);
  assert.ok(holds.every(hold => hold.held && hold.lease.link === stage.link));
  assert.deepEqual(stage.names(stage.sent(former)), ['goodbye']);
  assert.equal(stage.table.moves.size, 0);
});
