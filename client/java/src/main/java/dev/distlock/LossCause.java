// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.LostReason;

/** Why a lock ended before the program had given it back. The first six are told by the broker. */
public enum LossCause {
  /** The lock could not be renewed in time. */ EXPIRED,
  /** The store no longer knows it, or knows another holder. */ TAKEN,
  /** An administrator released it. */ FORCED,
  /** {@link NamedLock#maxHold} has passed. */ MAX_HOLD,
  /** The broker went down. */ DRAINED,
  /** Another session holds it now. */ MOVED,
  /** Its deadline passed without word from the broker. */ LAPSED,
  /** The stream to the broker ended. */ DISCONNECTED,
  /** Somebody who knew its lease id released it. */ RELEASED,
  /** {@link Locks#close} was called. */ CLIENT_CLOSED,
  /** A cause of a newer contract. */ UNKNOWN;

  static LossCause of(LostReason reason) {
    for (LossCause cause : values()) {
      if (reason.name().equals("LOST_REASON_" + cause)) return cause;
    }
    return UNKNOWN;
  }
}
