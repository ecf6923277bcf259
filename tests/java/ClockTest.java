// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The clock that ends belief, with clocks that the test moves. */
final class ClockTest {
  private static final long SECOND = Clock.SECOND;
  private static final long DAY = 24 * 3600 * SECOND;

  private long monotonic = 100;
  private long wall = 5000;
  private long up = 70 * SECOND;

  private void pass(long time) {
    monotonic += time;
    wall += time;
    up += time;
  }

  @Test
  void aSuspendIsCountedAtOnceWhenTheWallClockTells() {
    Clock clock = new Clock(() -> monotonic, () -> wall, () -> up);
    long before = clock.now();
    wall += 3 * SECOND;
    up += 3 * SECOND;
    long slept = clock.now() - before;
    assertTrue(slept >= 3 * SECOND && slept < 3 * SECOND + SECOND / 10, slept + " ns");
    assertEquals(before + slept, clock.now(), "a suspend is counted once");
  }

  @Test
  void aSuspendIsCountedWithinASecondWhenTheWallClockWasPutBack() {
    Clock clock = new Clock(() -> monotonic, () -> wall, () -> up);
    long before = clock.now();
    up += 3 * SECOND;
    pass(SECOND + 1);
    assertTrue(clock.now() - before >= 4 * SECOND);
  }

  @Test
  void aStepOfTheWallClockIsNoSuspend() {
    Clock clock = new Clock(() -> monotonic, () -> wall, () -> up);
    long before = clock.now();
    wall += DAY;
    assertEquals(before, clock.now());
    wall -= 2 * DAY;
    pass(7);
    assertEquals(before + 7, clock.now());
  }

  @Test
  void whereNothingTellsOfASuspendAStepEndsAllBelief() {
    Clock clock = new Clock(() -> monotonic, () -> wall, null);
    long before = clock.now();
    pass(SECOND);
    wall += SECOND / 2;
    assertEquals(before + SECOND, clock.now(), "small steps are a matter of course");
    wall += 2 * SECOND;
    assertTrue(clock.now() - before > 3600 * SECOND);
    long later = clock.now();
    pass(7);
    assertEquals(later + 7, clock.now());
  }

  @Test
  void theClockOfThisMachineGoesOn() {
    for (long i = 0, before = Clock.SHARED.now(); i < 1000; i++) {
      long now = Clock.SHARED.now();
      assertTrue(now >= before, now + " came after " + before);
      before = now;
    }
  }
}
