// SPDX-License-Identifier: Apache-2.0
//
// The messages that are read and written by hand, compared with what the generated code makes of them.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {duration, message, sessionCodec, wire} from './package.mjs';

const {readEvents, writeCommand, writeRequest} = sessionCodec;
const bytesOf = events => Buffer.from(wire.SessionResponse.encode({events}).finish());

const grant = message(wire.Grant, {namespace: 'n', key: 'k', mode: wire.LockMode.SHARED, leaseId: 'secret',
  holderId: 'é', fencingToken: Number.MAX_SAFE_INTEGER, validFor: {seconds: -3, nanos: -5}, echoSeq: 300,
  ttl: duration(15_000), waited: {seconds: 2 ** 40, nanos: 999_999_999},
  holdCount: 2, replicasAcked: 3, sinceGranted: duration(4)});
const unread = {namespace: '', key: '', mode: 0, ttl: undefined, replicasAcked: 0, sinceGranted: undefined};
const granted = (fields, id = 7) => ({id, event: {$case: 'granted', granted: fields}});
const released = {id: 2 ** 40, event: {$case: 'released',
  released: {lease: message(wire.LeaseRef, {key: 'k'}), outcome: wire.ReleaseOutcome.STILL_HELD}}};

test('events are read as the generated code reads them', () => {
  const events = [
    granted(grant), granted(message(wire.Grant)), granted(message(wire.Grant, {validFor: {seconds: 0, nanos: 0}})),
    released, {id: 0, event: {$case: 'heartbeatAck', heartbeatAck: {seq: 3, validFor: duration(3000),
      limits: [{acquireId: 7, validFor: duration(5)}]}}},
    {id: 9, event: {$case: 'refused', refused: message(wire.Refusal, {message: 'held'})}}, {id: 10, event: undefined},
  ];
  const wanted = wire.SessionResponse.decode(bytesOf(events)).events.map(event => {
    if (event.event?.$case === 'granted') Object.assign(event.event.granted, unread);
    if (event.event?.$case === 'released') event.event.released.lease = undefined;
    return event;
  });
  assert.deepEqual(readEvents(bytesOf(events)), wanted);
});

test('what is cut off or makes no sense is refused, and ends', () => {
  const bytes = bytesOf([granted(grant), released]);
  const whole = new Set([0, bytesOf([granted(grant)]).length, bytes.length]);
  for (let cut = 0; cut <= bytes.length; ++cut) {
    const read = () => readEvents(bytes.subarray(0, cut));
    if (whole.has(cut)) read();
    else assert.throws(read, `after ${cut} bytes`);
  }
  let seed = 1;
  for (let i = 0; i < 20_000; ++i) { // it must come to an end, whatever the bytes are
    const noise = Buffer.from(bytes);
    seed = (seed * 48_271) % 2_147_483_647;
    noise[seed % noise.length] = seed >> 8;
    try {
      readEvents(noise);
    } catch (error) {
      assert.ok(error instanceof Error);
    }
  }
  const huge = message(wire.Grant, {fencingToken: Number.MAX_SAFE_INTEGER});
  const tooLarge = bytesOf([granted(huge)]);
  tooLarge[tooLarge.indexOf(0x0f)] = 0x1f; // the token's last seven bits
  assert.throws(() => readEvents(tooLarge), /too large/);
});

test('fields of a newer contract are skipped', () => {
  const more = [0x98, 0x06, 5, 0x9d, 0x06, 1, 2, 3, 4, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 0x06, 1, 0];
  const inner = [...wire.Grant.encode(message(wire.Grant, {leaseId: 'secret'})).finish(), ...more];
  const event = [0x08, 7, 0x22, inner.length, ...inner];
  const [read] = readEvents(Buffer.from([0x0a, event.length, ...event, ...more]));
  assert.equal(read.event.granted.leaseId, 'secret');
});

test('commands are written as the generated code writes them', () => {
  const spec = message(wire.LockSpec, {key: 'k'.repeat(300), owner: 'é', mode: wire.LockMode.EXCLUSIVE,
    ttl: duration(1000), maxWait: duration(0), metadata: {a: 'b'}});
  const commands = [
    {$case: 'open', open: {client: 'c', generation: 3}},
    {$case: 'acquire', acquire: {locks: [spec, spec], requestId: 'r'.repeat(40)}},
    {$case: 'acquire', acquire: {locks: [message(wire.LockSpec, {key: 'k'})], requestId: ''}},
    {$case: 'release', release: {acquireId: 5, leaseId: '', lapsed: false}},
    {$case: 'release', release: {acquireId: 2 ** 45, leaseId: '', lapsed: true}},
    {$case: 'release', release: {acquireId: 0, leaseId: 'secret', lapsed: false}},
    {$case: 'heartbeat', heartbeat: {seq: 127}}, {$case: 'cancel', cancel: {acquireId: 128}},
  ];
  const listed = commands.map((command, i) => ({id: [1, 127, 128, 2 ** 32, 2 ** 52][i % 5], command}));
  const written = writeRequest(listed.map(({id, command}) => writeCommand(id, command)));
  assert.deepEqual(wire.SessionRequest.decode(written).commands, wire.SessionRequest.decode(
    wire.SessionRequest.encode({commands: listed}).finish()).commands);
});
