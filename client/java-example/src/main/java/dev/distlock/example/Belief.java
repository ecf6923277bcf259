// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import com.google.protobuf.Duration;
import dev.distlock.v1.Grant;
import dev.distlock.v1.LockSpec;

/**
 * Until when this process may believe in a lock: the arithmetic of "Belief" and "Hold" in
 * proto/distlock/v1/session.md. Make it before the call. Not thread-safe.
 */
final class Belief {
  private long grantedAt = Clock.now();  // an estimate; never too late by more than the shortest delay of a message
  private long deadline;
  private boolean held;

  void grant(Grant grant) {
    grantedAt += nanos(grant.getWaited());
    deadline = deadlineOf(grant.getSinceGranted(), grant.getValidFor());
    held = true;
  }

  void extend(Duration sinceGranted, Duration validFor) {
    long extended = deadlineOf(sinceGranted, validFor);
    if (holds()) deadline = extended;  // a deadline that passed is final
  }

  /** By the clock, at this moment. False is final. */
  boolean holds() {
    held = held && left() > 0;
    return held;
  }

  void end() {
    held = false;
  }

  /** Nanoseconds until the deadline. */
  long left() {
    return deadline - Clock.now();
  }

  private long deadlineOf(Duration sinceGranted, Duration validFor) {
    grantedAt = Math.min(grantedAt, Clock.now() - nanos(sinceGranted));
    return grantedAt + nanos(sinceGranted) + nanos(validFor);
  }

  /** `spec` for another call: its wait, if it has a bound, began at `asked`. */
  static LockSpec withTheRestOfItsWait(LockSpec spec, long asked) {
    long most = nanos(spec.getMaxWait());
    if (most == 0) return spec;  // no bound, or one try
    long left = Math.max(asked + most - Clock.now(), 1_000_000);
    Duration.Builder wait = Duration.newBuilder().setSeconds(left / 1_000_000_000);
    return spec.toBuilder().setMaxWait(wait.setNanos((int) (left % 1_000_000_000))).build();
  }

  static long nanos(Duration duration) {
    return duration.getSeconds() * 1_000_000_000L + duration.getNanos();
  }
}
