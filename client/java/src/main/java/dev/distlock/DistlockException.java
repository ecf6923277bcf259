// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** All that this package throws for what happens to locks. */
public abstract class DistlockException extends RuntimeException {
  private static final long serialVersionUID = 1;
  DistlockException(String message) { super("distlock: " + message); }
}
