// SPDX-License-Identifier: Apache-2.0
//
// Until when a client may believe in a session: "Belief" in proto/distlock/v1/session.md. Numbers only.

const REMEMBERED = 64;

/** One session, from its Open (heartbeat 0) to its end. */
export class SessionBelief {
  lastSent = 0;
  lastSentAt: number;
  lastAcked = -1;
  deadline: number;
  private readonly sent: Map<number, number>;

  /** `grace`: how long the broker has to answer the Open. */
  constructor(now: number, grace: number) {
    this.sent = new Map([[0, now]]);
    this.lastSentAt = now;
    this.deadline = now + grace;
  }

  /** A heartbeat is about to be handed to gRPC; its seq. */
  send(now: number): number {
    this.lastSent += 1;
    this.lastSentAt = now;
    this.sent.set(this.lastSent, now);
    this.sent.delete(this.lastSent - REMEMBERED);
    return this.lastSent;
  }

  /** The deadline of a promise that answers heartbeat `seq`; 0 for one that is forgotten or was never sent. */
  deadlineOf(seq: number, validFor: number): number {
    const sent = this.sent.get(seq);
    return sent === undefined ? 0 : sent + validFor;
  }

  /** Whether this ack extends anything. */
  ack(seq: number, validFor: number, now: number): boolean {
    const deadline = this.deadlineOf(seq, validFor);
    if (this.lapsed(now) || deadline === 0 || seq <= this.lastAcked) return false;
    // The grace of the Open is no promise: the first answer replaces it.
    this.deadline = this.lastAcked < 0 ? deadline : Math.max(this.deadline, deadline);
    this.lastAcked = seq;
    return true;
  }

  /** No answer came for a whole validity: the broker has given the session up, too. Final: then no ack counts. */
  lapsed(now: number): boolean {
    return now >= this.deadline;
  }

  get unanswered(): number {
    return this.lastSent - Math.max(this.lastAcked, 0);
  }

  /** Whether a heartbeat is unanswered, and half of what was left until `deadline` when it was sent is gone. */
  overdue(deadline: number, now: number): boolean {
    if (this.unanswered === 0) return false;
    const oldest = Math.max(this.lastAcked + 1, 1, this.lastSent - REMEMBERED + 1);
    const since = this.sent.get(oldest) ?? now;
    return now - since >= (deadline - since) / 2;
  }
}
