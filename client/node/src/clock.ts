// SPDX-License-Identifier: Apache-2.0
//
// The clock that deadlines are counted by, in milliseconds with fractions: "Clock" in proto/distlock/v1/session.md.
// Node.js has none that goes on while the machine is suspended, but it tells since when the machine is up, which
// counts that time. The question costs as much as a small file, so it is asked once a second, and when the wall clock
// has moved further than the monotonic one, or back.
import {existsSync} from 'node:fs';
import {uptime} from 'node:os';

export const NEVER = Infinity;
export const SECOND = 1000;

const LONGEST_DRIFT = SECOND; // of the wall clock, where nothing tells of a suspend
const LEAST_STEP = SECOND / 20; // of the wall clock, that may be a suspend
const RESOLUTION = 20; // of the time since the machine is up
const FORWARD = 24 * 3600 * SECOND; // longer than any promise

// Now, because tests put other functions in their place.
const monotonicNow = performance.now.bind(performance);
const wallNow = Date.now.bind(Date);

/** Tells the time to a client. */
export interface Clock {
  readonly jumped: number;
  now(): number;
  /** Calls once, after so many milliseconds. */
  timer(call: () => void, delay: number): NodeJS.Timeout;
  cancel(timer: NodeJS.Timeout | undefined): void;
}

/**
 * Jumps ahead by what the machine has slept. Where that is not known: when the wall clock has moved further than the
 * monotonic one by more than a second, or back, by a day, which ends all belief.
 */
export class WatchedClock implements Clock {
  /** By how much it has jumped so far. */
  jumped = 0;
  private apart: number; // the wall clock, from the monotonic one
  private asleep: number; // the time since the machine is up, from the monotonic one
  private askedAt: number;

  /** uptime: seconds since the machine is up, suspends included; undefined: not known. */
  constructor(private readonly monotonic: () => number = monotonicNow, private readonly wall: () => number = wallNow,
    private readonly up?: () => number) {
    this.askedAt = monotonic();
    this.apart = wall() - this.askedAt;
    this.asleep = up === undefined ? 0 : up() * SECOND - monotonic();
  }

  now(): number {
    const before = this.monotonic();
    const wall = this.wall();
    const monotonic = this.monotonic();
    const apart = nearest(this.apart, wall - monotonic, wall - before);
    const step = Math.abs(apart - this.apart);
    if (this.up === undefined) {
      if (step > LONGEST_DRIFT) this.jump(apart, FORWARD);
    } else if (step > LEAST_STEP || monotonic - this.askedAt > SECOND) {
      this.askedAt = monotonic;
      this.jump(apart, this.slept(this.up));
    }
    return monotonic + this.jumped;
  }

  timer(call: () => void, delay: number): NodeJS.Timeout {
    return setTimeout(call, delay);
  }

  cancel(timer: NodeJS.Timeout | undefined): void {
    clearTimeout(timer);
  }

  private jump(apart: number, by: number): void {
    this.apart = apart;
    this.jumped += by;
  }

  /** How long the machine has slept since this was asked last, or a little more. */
  private slept(up: () => number): number {
    const before = this.monotonic();
    const now = up() * SECOND;
    const asleep = nearest(this.asleep, now - this.monotonic(), now - before);
    const slept = Math.abs(asleep - this.asleep);
    if (slept <= RESOLUTION) return 0;
    this.asleep = asleep;
    return slept + RESOLUTION;
  }
}

/** Between two readings this process may have had to wait: only what no moment between them explains is a step. */
function nearest(known: number, least: number, most: number): number {
  return Math.min(Math.max(known, least), most);
}

/** Elsewhere it comes in whole seconds, or follows the wall clock. */
function uptimeIfTold(): (() => number) | undefined {
  try {
    return existsSync('/proc/uptime') && uptime() > 0 ? uptime : undefined;
  } catch {
    return undefined;
  }
}

/** That of this thread. */
export const clock = new WatchedClock(monotonicNow, wallNow, uptimeIfTold());
