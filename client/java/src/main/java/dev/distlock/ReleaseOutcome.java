// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** The effect of a release. */
public enum ReleaseOutcome {
  /** The lock is free. */ RELEASED,
  /** Other holds of a reentrant lock are left. */ STILL_HELD,
  /** The lock was not held any more. */ ALREADY_GONE,
  /** No answer came. The lock is freed all the same, at the latest when its ttl ends. */ UNKNOWN;

  static ReleaseOutcome of(dev.distlock.v1.ReleaseOutcome wire) {
    return switch (wire) {
      case RELEASE_OUTCOME_RELEASED -> RELEASED;
      case RELEASE_OUTCOME_STILL_HELD -> STILL_HELD;
      case RELEASE_OUTCOME_ALREADY_GONE -> ALREADY_GONE;
      default -> UNKNOWN;
    };
  }

  /** Joins the outcomes of two sessions of which only one has had the lease. */
  ReleaseOutcome better(ReleaseOutcome other) {
    if (this == RELEASED || other == RELEASED) return RELEASED;
    if (this == STILL_HELD || other == STILL_HELD) return STILL_HELD;
    return this == other ? this : UNKNOWN;
  }
}
