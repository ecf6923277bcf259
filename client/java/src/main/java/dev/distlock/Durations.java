// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.time.Duration;

/** Durations of Java and of the wire. */
final class Durations {
  private static final Duration LONGEST = Duration.ofDays(365);

  private Durations() {}

  static com.google.protobuf.Duration wire(long nanos) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(nanos / Clock.SECOND).setNanos((int) (nanos % Clock.SECOND)).build();
  }

  static com.google.protobuf.Duration wire(Duration duration) { return wire(nanos(duration)); }

  /** At most a year, which is longer than any broker takes. */
  static long nanos(Duration duration) { return (duration.compareTo(LONGEST) > 0 ? LONGEST : duration).toNanos(); }
  static Duration of(com.google.protobuf.Duration wire) { return Duration.ofNanos(Belief.span(wire)); }
}
