// SPDX-License-Identifier: Apache-2.0
//
// Commands ahead of their answers, and new tokens: "Messages and connection" of session.md.
import assert from 'node:assert/strict';
import {says} from './contract.mjs';
import {of, Stage} from './stage.mjs';

const cancel = (stage, hold) => {
  stage.table.cancel(hold.request, stage.now);
  stage.tell();
};

says('The client sends at most `SessionOpened.max_unanswered` ahead', 'commands ahead are bounded', () => {
  const stage = new Stage({maxUnanswered: 2});
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(key => stage.acquire(key));
  assert.deepEqual(stage.names(), ['acquire', 'acquire']);
  stage.queued(a);
  assert.deepEqual(of(stage.sent(), 'acquire').map(({id}) => id), [c.id]);
  stage.grant(a);
  assert.deepEqual(stage.names(), []);
  stage.refuse(b.id, 'LOCK_HELD');
  assert.deepEqual(of(stage.sent(), 'acquire').map(({id}) => id), [d.id]);
});

says('(256 before that is known, or when it is 0)', 'the limit before the broker has told it', () => {
  const stage = new Stage({opened: false});
  for (let i = 0; i < 600; ++i) stage.acquire(String(i));
  const sent = stage.names(stage.start());
  assert.deepEqual([sent.length, sent[0]], [256, 'open']);
  stage.opened();
  assert.equal(stage.sent().length, 1);
  stage.breaks();
  assert.equal(stage.start().length, 256);
});

says('Heartbeats do not count, and go first; a Cancel never goes before its acquire.', 'what does not wait', () => {
  const stage = new Stage({maxUnanswered: 1});
  const [sent, waits, last] = ['a', 'b', 'c'].map(key => stage.acquire(key));
  assert.deepEqual(stage.names(), ['acquire']);
  stage.link.heartbeatDue = true;
  cancel(stage, waits);
  assert.equal(waits.refused, 'CANCELLED');
  cancel(stage, sent);
  assert.deepEqual(stage.names(), ['heartbeat', 'cancel']);
  stage.table.close(stage.now);
  stage.tell();
  assert.deepEqual(stage.names(), ['goodbye']);
  assert.ok(last.refused === 'CLIENT_CLOSED' && stage.link.empty);
});

says('A command is unanswered until its first event has come, `queued` included.', 'several locks are one', () => {
  const stage = new Stage({maxUnanswered: 1});
  const [group, after] = [stage.acquireAll(['a', 'b', 'c']), stage.acquire('d')];
  assert.deepEqual(stage.names(), ['acquire']);
  stage.grant(group, {id: group.id + 1});
  assert.deepEqual(of(stage.sent(), 'acquire').map(({id}) => id), [after.id]);
  stage.grant(group);
  stage.acquire('e');
  assert.deepEqual(stage.names(), []);
});

says('and keeps the others, in their order.', 'what was not sent moves without a place', () => {
  const stage = new Stage({brokers: 2, maxUnanswered: 1});
  const [sent, waits] = [stage.acquire('a'), stage.acquire('b')];
  const former = stage.link;
  assert.deepEqual(stage.names(stage.sent(former)), ['acquire']);
  stage.drain();
  assert.deepEqual([sent.lease.former, waits.lease.former], [former, undefined]);
  stage.refuse(sent.id, 'DRAINING', {link: former});
  assert.deepEqual(stage.names(stage.sent(former)), ['goodbye']);
  assert.deepEqual(stage.names(stage.start()), ['open', 'acquire', 'acquire']);
});

says('When the new proof is refused, the old one stays, and so do the session and its leases.', 'another token', () => {
  const stage = new Stage({features: ['adopt', 'authenticate']});
  const hold = stage.hold();
  for (const token of ['two', 'three']) stage.table.authenticate(stage.link, `Bearer ${token}`);
  const [two, three] = of(stage.sent(), 'authenticate');
  assert.deepEqual([two.authorization, three.authorization], ['Bearer two', 'Bearer three']);
  stage.hear({$case: 'authenticated', authenticated: {identity: 'me', validFor: undefined}}, {id: two.id});
  stage.refuse(three.id, 'PERMISSION_DENIED');
  assert.ok(hold.held);
  stage.breaks();
  stage.start();
  stage.opened({features: ['adopt']});
  stage.table.authenticate(stage.link, 'Bearer two');
  assert.deepEqual(stage.names(), []);
});
