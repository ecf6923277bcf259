// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** The client was closed, or was closed while the call waited. */
public final class ClientClosedException extends DistlockException {
  private static final long serialVersionUID = 1;
  ClientClosedException(String message) { super(message); }
}
