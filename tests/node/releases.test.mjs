// SPDX-License-Identifier: Apache-2.0
//
// Leases that are given back or lost while they move: "Moving a lease" of session.md.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {says} from './contract.mjs';
import {Drained, of, Stage} from './stage.mjs';

for (const [here, there] of [['RELEASED', 'ALREADY_GONE'], ['ALREADY_GONE', 'RELEASED']]) {
  says("Send ReleaseLease in both sessions: by the adoption's id in the new one, "
       + "by the acquire's id in the former.",
    `a release during the move goes to both: ${here}, ${there}`, () => {
      const stage = new Drained();
      const [told, acquired] = [[], stage.held.id];
      const now = of(stage.release(stage.held, outcome => told.push(outcome)), 'release');
      const old = of(stage.sent(stage.former), 'release');
      assert.deepEqual(now.map(({acquireId}) => acquireId), [stage.adopt.id]);
      assert.deepEqual(old.map(({acquireId}) => acquireId), [acquired]);
      assert.ok(!stage.held.held);
      stage.released(old[0].id, here, stage.former);
      assert.deepEqual(told, []);
      stage.released(now[0].id, there);
      assert.deepEqual(told, ['RELEASED']);
    });
}

says("When the former one's broker does not drain, name the lease_id there instead",
  'a release while what is shown of the lease changes', () => {
    for (const end of ['released', 'lapsed']) {
      const [stage, told] = [new Stage(), []];
      const hold = stage.hold('k', {leaseId: 'old'});
      stage.table.proclaim(hold.lease, {v: 'new'}, refusal => told.push(refusal?.reason), stage.now);
      const [asked] = of(stage.tick(), 'adopt');
      const commands = end === 'released' ? stage.release(hold, outcome => told.push(outcome)) : stage.tick(3);
      const released = of(commands, 'release').map(({acquireId, leaseId, lapsed}) => [acquireId, leaseId, lapsed]);
      assert.deepEqual(released, [[0, 'old', end === 'lapsed'], [asked.id, '', end === 'lapsed']], end);
      assert.ok(!hold.held && told[0] === 'NOT_HOLDER');
    }
  });

says('with `lapsed`, for a lease that is lost meanwhile.', 'a lease that ended between two sessions', () => {
  const stage = new Stage();
  const hold = stage.hold('k', {resume: true});
  stage.breaks();
  stage.tick(3);
  assert.equal(hold.lost, 1);
  stage.start();
  stage.opened();
  const commands = stage.sent();
  assert.deepEqual(stage.names(commands), ['adopt', 'release']);
  const [release] = of(commands, 'release');
  assert.ok(release.acquireId === commands[0].id && release.lapsed);
});

test('what ended between two sessions is freed also by a broker that adopts nothing', () => {
  const stage = new Stage();
  const hold = stage.hold('k', {leaseId: 'left'});
  stage.release(hold);
  stage.breaks();
  stage.start();
  stage.opened({features: []});
  const [release] = of(stage.sent(), 'release');
  assert.deepEqual([release.acquireId, release.leaseId, release.lapsed], [0, 'left', false]);
  assert.ok(!stage.table.drained);
  stage.released(release.id, 'RELEASED');
  assert.ok(stage.table.drained);
  stage.breaks();
  stage.start();
  stage.opened();
  assert.deepEqual(stage.names(), []);
});
