// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import java.util.function.LongSupplier;

/**
 * The clock that deadlines are counted by, in nanoseconds. Java's only steady clock may stop while the machine is
 * suspended. So when the wall clock has moved further than it by more than a second, or back, this clock jumps ahead
 * by a day, which ends belief in every lock. Thread-safe.
 */
public final class Clock {
  private static final long SECOND = 1_000_000_000L;
  private static final long FORWARD = 24 * 3600 * SECOND;  // longer than any promise
  private static final Clock SHARED = new Clock(System::nanoTime, () -> System.currentTimeMillis() * 1_000_000);

  private final LongSupplier steady;
  private final LongSupplier wall;
  private long apart;
  private long jumps;

  public Clock(LongSupplier steady, LongSupplier wall) {
    this.steady = steady;
    this.wall = wall;
    apart = wall.getAsLong() - steady.getAsLong();
  }

  public synchronized long read() {
    long now = steady.getAsLong();
    long apartNow = wall.getAsLong() - now;
    if (Math.abs(apartNow - apart) > SECOND) {
      apart = apartNow;
      jumps += FORWARD;
    }
    return now + jumps;
  }

  /** That of the process. */
  static long now() {
    return SHARED.read();
  }
}
