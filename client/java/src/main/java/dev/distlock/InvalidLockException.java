// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** A value is wrong; the message names it. */
public final class InvalidLockException extends LockRefusedException {
  private static final long serialVersionUID = 1;
  InvalidLockException(Denial denial) { super(denial); }
}
