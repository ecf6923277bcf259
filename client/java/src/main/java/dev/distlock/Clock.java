// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.io.IOException;
import java.nio.file.*;
import java.util.function.LongSupplier;

/**
 * The clock that deadlines are counted by, in nanoseconds: "Clock" in proto/distlock/v1/session.md. Java's own stops
 * while the machine is suspended, but Linux tells since when the machine is up, which counts that time. The question
 * costs as much as a small file, so it is asked once a second, and when the wall clock has moved otherwise than the
 * monotonic one. Thread-safe.
 */
final class Clock {
  static final long MILLI = 1_000_000L;
  static final long SECOND = 1000 * MILLI;
  private static final long LONGEST_DRIFT = SECOND;  // of the wall clock, where nothing tells of a suspend
  private static final long LEAST_STEP = 50 * MILLI;  // of the wall clock, that may be a suspend
  private static final long RESOLUTION = 20 * MILLI;  // of the time since the machine is up
  private static final long FORWARD = 24 * 3600 * SECOND;  // longer than any promise
  private static final long UNREADABLE = -1;
  static final Clock SHARED = new Clock(System::nanoTime, () -> System.currentTimeMillis() * MILLI,
      uptime() == UNREADABLE ? null : Clock::uptime);

  private final LongSupplier monotonic;
  private final LongSupplier wall;
  private final LongSupplier up;
  private final long start;
  private long jumped;
  private long apart;   // the wall clock, from the monotonic one
  private long asleep;  // the time since the machine is up, from the monotonic one
  private long askedAt;

  /** up: the time since the machine is up, suspends included; null: not known. */
  Clock(LongSupplier monotonic, LongSupplier wall, LongSupplier up) {
    this.monotonic = monotonic;
    this.wall = wall;
    this.up = up;
    askedAt = monotonic.getAsLong();
    start = askedAt - SECOND;  // readings are positive
    apart = wall.getAsLong() - askedAt;
    asleep = up == null ? 0 : up.getAsLong() - askedAt;
  }

  /**
   * Jumps ahead by what the machine has slept. Where that is not known: when the wall clock has moved further than the
   * monotonic one by more than a second, or back, by a day, which ends all belief.
   */
  synchronized long now() {
    long before = monotonic.getAsLong();
    long told = wall.getAsLong();
    long now = monotonic.getAsLong();
    long apartNow = nearest(apart, told - now, told - before);
    long step = Math.abs(apartNow - apart);
    if (up == null ? step > LONGEST_DRIFT : step > LEAST_STEP || now - askedAt > SECOND) {
      askedAt = now;
      apart = apartNow;
      jumped += up == null ? FORWARD : slept();
    }
    return now - start + jumped;
  }

  /** How long the machine has slept since this was asked last, or a little more. */
  private long slept() {
    long before = monotonic.getAsLong();
    long told = up.getAsLong();
    if (told == UNREADABLE) return FORWARD;
    long asleepNow = nearest(asleep, told - monotonic.getAsLong(), told - before);
    long slept = Math.abs(asleepNow - asleep);
    if (slept <= RESOLUTION) return 0;
    asleep = asleepNow;
    return slept + RESOLUTION;
  }

  /** Between two readings this thread may have had to wait: only what no moment between them explains is a step. */
  private static long nearest(long known, long least, long most) { return Math.min(Math.max(known, least), most); }

  private static long uptime() {
    try {
      String text = Files.readString(Path.of("/proc/uptime"));
      return Math.round(Double.parseDouble(text.substring(0, text.indexOf(' '))) * SECOND);
    } catch (IOException | RuntimeException unreadable) {
      return UNREADABLE;
    }
  }
}
