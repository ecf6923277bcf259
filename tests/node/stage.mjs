// SPDX-License-Identifier: Apache-2.0
//
// A lock table on a stage: the clock and the broker are the test. Times are in seconds.
import assert from 'node:assert/strict';
import {convert, duration, LockTable, message, Phase, SECOND, wire} from './package.mjs';

const ms = seconds => Math.round(seconds * SECOND);

/** One request of the program, and what it has heard. */
class Hold {
  answers = [];
  lost = 0;

  constructor(stage, specs, wait) {
    this.request = stage.table.acquire(specs, wait === undefined ? undefined : ms(wait), stage.now,
      answer => { this.answers.push(answer); });
    [this.lease] = this.request.leases;
    stage.tell();
  }

  get granted() {
    return this.answers.length === 1 && this.answers[0] === undefined;
  }

  get held() {
    return this.lease.phase === Phase.HELD;
  }

  get refused() {
    return this.answers[0]?.reason;
  }

  get id() {
    return this.lease.id;
  }
}

export class Stage {
  now = ms(1000);
  draining = []; // the times that the program was told

  constructor({brokers = 1, unreachableAfter = 10, opened = true, ...more} = {}) {
    this.table = new LockTable({address: 'there', brokers, label: 'test',
      unreachableAfter: unreachableAfter === null ? undefined : ms(unreachableAfter), connectTimeout: ms(5),
      onDraining: left => { this.draining.push(left / SECOND); }});
    if (opened) {
      this.start();
      this.opened(more);
    }
  }

  get link() {
    return this.table.link;
  }

  /** Runs the callbacks that the table has gathered. */
  tell() {
    const {effects} = this.table;
    this.table.effects = [];
    for (const effect of effects) effect();
  }

  start() {
    this.table.start(this.now);
    this.tell();
    return this.sent();
  }

  /** Time passes; nothing runs. */
  wait(seconds) {
    this.now += ms(seconds);
  }

  /** Time passes, and the timer runs. Returns what is sent. */
  tick(seconds = 0) {
    this.wait(seconds);
    this.table.tick(this.now);
    this.tell();
    return this.sent();
  }

  /** Time passes with the timer, and with a broker that answers each heartbeat. */
  live(seconds, {step = 0.1, answer = true} = {}) {
    const until = this.now + ms(seconds);
    while (this.now < until) {
      for (const {command} of this.tick(Math.min(step, (until - this.now) / SECOND))) {
        if (command.$case === 'heartbeat' && answer) this.ack(command.heartbeat.seq);
      }
    }
  }

  /** The commands that are sent now. */
  sent(link = this.link) {
    const packed = this.table.pack(link, this.now);
    return packed === undefined ? [] : wire.SessionRequest.decode(packed).commands;
  }

  names(commands = this.sent()) {
    return commands.map(({command}) => command.$case);
  }

  hear(event, {id = 0, link = this.link} = {}) {
    // As it comes from the wire.
    const encoded = wire.SessionEvent.encode({id, event}).finish();
    this.table.onEvent(link, wire.SessionEvent.decode(encoded), this.now);
    this.tell();
  }

  opened({validity = 3, features = ['permit', 'adopt'], link, maxBytes = 64 << 10, maxUnanswered = 0} = {}) {
    const opened = message(wire.SessionOpened, {sessionId: 's', brokerId: 'b', maxMessageBytes: maxBytes, features,
      maxUnanswered, validity: duration(ms(validity)), heartbeatInterval: duration(ms(validity) / 3)});
    this.hear({$case: 'opened', opened}, {link});
  }

  grant(hold, {validFor = 3, echo = 0, token = 7, leaseId = 'secret', link, id = hold.id} = {}) {
    const granted = message(wire.Grant, {leaseId, holderId: 'h', fencingToken: token, echoSeq: echo, holdCount: 1,
      validFor: duration(ms(validFor))});
    this.hear({$case: 'granted', granted}, {link, id});
  }

  ack(seq, {validFor = 3, limits = [], link} = {}) {
    const heartbeatAck = {seq, validFor: duration(ms(validFor)),
      limits: limits.map(([hold, limit]) => ({acquireId: hold.id, validFor: duration(ms(limit))}))};
    this.hear({$case: 'heartbeatAck', heartbeatAck}, {link});
  }

  /** A heartbeat is sent now; its seq. */
  beat(link = this.link) {
    link.heartbeatDue = true;
    return this.sent(link).find(({command}) => command.$case === 'heartbeat').command.heartbeat.seq;
  }

  refuse(id, reason, {link, ...more} = {}) {
    const refused = message(wire.Refusal, {reason: wire.RefusalReason[reason] ?? reason, ...more});
    this.hear({$case: 'refused', refused}, {id, link});
  }

  lose(hold, reason, link) {
    const lost = {lease: undefined, reason: wire.LostReason[reason] ?? reason, message: 'so it is'};
    this.hear({$case: 'lost', lost}, {id: hold.id, link});
  }

  released(id, outcome, link) {
    const released = {lease: undefined, outcome: wire.ReleaseOutcome[outcome] ?? outcome};
    this.hear({$case: 'released', released}, {id, link});
  }

  queued(hold, fields = {}) {
    this.hear({$case: 'queued', queued: message(wire.AcquireQueued, fields)}, {id: hold.id});
  }

  /** Grants all acquires, as they are sent. */
  grantAll() {
    let sent = of(this.sent(), 'acquire');
    while (sent.length > 0) {
      for (const {id} of sent) this.grant({id});
      sent = of(this.sent(), 'acquire');
    }
  }

  drain(seconds = 30) {
    this.hear({$case: 'draining', draining: {timeLeft: duration(ms(seconds)), deadlineTime: undefined}});
  }

  breaks(link = this.link) {
    this.table.onBroken(link, 'DISCONNECTED', 'the stream ended', this.now);
    this.tell();
  }

  acquire(key = 'k', {wait, ...lock} = {}) {
    return new Hold(this, [convert.specOf({key, ...lock})], wait);
  }

  acquireAll(keys, wait) {
    return new Hold(this, keys.map(key => convert.specOf({key})), wait);
  }

  /** A lock that is held. */
  hold(key = 'k', {validFor = 3, leaseId = 'secret', ...lock} = {}) {
    const hold = this.acquire(key, lock);
    hold.lease.onEnd.push(() => { hold.lost += 1; });
    this.sent();
    this.grant(hold, {validFor, echo: this.link.session.lastSent, leaseId});
    assert.ok(hold.granted && hold.held);
    return hold;
  }

  release(hold, tell) {
    this.table.release(hold.lease, tell, this.now);
    this.tell();
    return this.sent();
  }

  /** Looks at the clock, as a program's check does. */
  notice(hold) {
    const held = this.table.notice(hold.lease, this.now);
    this.tell();
    return held;
  }

  lapsed() {
    return this.link.session.lapsed(this.now);
  }
}

/** Holds a lock through a broker that drains; another one is known and has opened. */
export class Drained extends Stage {
  constructor({features = ['adopt'], ...lock} = {}) {
    super({brokers: 2});
    this.held = this.hold('k', lock);
    this.former = this.link;
    this.drain();
    assert.notEqual(this.link, this.former);
    this.start();
    this.opened({features});
    [this.adopt] = of(this.sent(), 'adopt');
  }
}

/** The commands of one kind, without their frames. */
export function of(commands, kind) {
  return commands.filter(({command}) => command.$case === kind).map(({id, command}) => ({id, ...command[kind]}));
}
