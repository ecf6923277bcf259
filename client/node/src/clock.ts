// SPDX-License-Identifier: Apache-2.0
//
// The clock that deadlines are counted by, in milliseconds with fractions. Node.js has none that goes on while the
// machine is suspended, so the wall clock is looked at as well: "Clock" in proto/distlock/v1/session.md.

export const NEVER = Infinity;
export const SECOND = 1000;

const LONGEST_DRIFT = SECOND; // of the wall clock from the monotonic one
const FORWARD = 24 * 3600 * SECOND; // longer than any promise

/**
 * When the wall clock has moved further than the monotonic one by more than a second, or back, this clock jumps ahead
 * by a day, which ends all belief.
 */
export class WatchedClock {
  /** By how much it has jumped so far. */
  jumped = 0;
  private apart: number;

  constructor(
    private readonly monotonic: () => number = () => performance.now(),
    private readonly wall: () => number = () => Date.now(),
  ) {
    this.apart = wall() - monotonic();
  }

  now(): number {
    const before = this.monotonic();
    const wall = this.wall();
    const monotonic = this.monotonic();
    // Between the readings this process may have had to wait: only what no moment between them explains is a jump.
    const apart = Math.min(Math.max(this.apart, wall - monotonic), wall - before);
    if (Math.abs(apart - this.apart) > LONGEST_DRIFT) {
      this.apart = apart;
      this.jumped += FORWARD;
    }
    return monotonic + this.jumped;
  }
}

/** That of this thread. */
export const clock = new WatchedClock();
