// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import com.google.protobuf.Duration;

/** Until when one session may be believed in, from its OpenSession (heartbeat 0) to its end: "Belief" in session.md. */
final class Belief {
  private static final int REMEMBERED = 64;  // heartbeats whose sending times are kept
  private static final long LONGEST_S = 365L * 24 * 3600;  // longer than any promise; keeps sums of times in range

  private final long[] sentAt = new long[REMEMBERED];  // of heartbeat seq, at seq % REMEMBERED
  private long lastSent;
  private long lastAcked = -1;
  private long deadline;  // the broker has given the session up then, too; one that has passed stays

  /** patience: until when the answer to OpenSession must have come. */
  Belief(long now, long patience) {
    sentAt[0] = now;
    deadline = patience;
  }

  /** A duration of the wire in nanoseconds: 0 for an unset or negative one. */
  static long span(Duration wire) {
    long seconds = Math.min(wire.getSeconds(), LONGEST_S);
    return Math.max(seconds * Clock.SECOND + wire.getNanos(), 0);
  }

  long deadline() { return deadline; }
  long lastSentAt() { return at(lastSent); }
  private long at(long seq) { return sentAt[(int) (seq % REMEMBERED)]; }

  /** Notes that a heartbeat is about to be handed to gRPC; its seq. */
  long send(long now) {
    sentAt[(int) (++lastSent % REMEMBERED)] = now;
    return lastSent;
  }

  /** The end of a promise that answers heartbeat seq; 0 for one that is forgotten or was never sent. */
  long deadlineOf(long seq, Duration validFor) {
    return seq < 0 || seq > lastSent || seq <= lastSent - REMEMBERED ? 0 : at(seq) + span(validFor);
  }

  /** Takes the promise that answers heartbeat seq. False: it extends nothing. */
  boolean ack(long seq, long promised, long now) {
    if (now >= deadline || promised == 0 || seq <= lastAcked) return false;
    // The grace of the opening is no promise: the first answer replaces it.
    deadline = lastAcked < 0 ? promised : Math.max(promised, deadline);
    lastAcked = seq;
    return true;
  }

  boolean acked() { return lastAcked > 0; }  // whether the broker has answered a heartbeat
  boolean allAnswered() { return lastSent == Math.max(lastAcked, 0); }

  /** Whether a heartbeat is unanswered, and half of what was left until a deadline when it was sent is gone. */
  boolean overdue(long until, long now) {
    long since = at(Math.max(Math.max(lastAcked + 1, 1), lastSent - REMEMBERED + 1));
    return !allAnswered() && now - since >= (until - since) / 2;
  }
}
