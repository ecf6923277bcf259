// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** Others have the lock: LOCK_HELD, WAIT_TIMEOUT or LIMIT_MISMATCH. */
public final class LockBusyException extends LockRefusedException {
  private static final long serialVersionUID = 1;
  LockBusyException(Denial denial) { super(denial); }
}
