// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** No broker or no store answered in time, or the store holds off after a restart or failover (STORE_HOLD_OFF). */
public final class LockUnavailableException extends LockRefusedException {
  private static final long serialVersionUID = 1;
  LockUnavailableException(Denial denial) { super(denial); }
}
