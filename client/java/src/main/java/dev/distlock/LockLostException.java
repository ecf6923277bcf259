// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

/** A lock ended before the program had given it back. */
public final class LockLostException extends DistlockException {
  private static final long serialVersionUID = 1;
  private final String key;
  private final LossCause lossCause;

  LockLostException(String key, LossCause lossCause, String message) {
    super("the lock \"" + key + "\" is lost (" + lossCause + ")" + (message.isEmpty() ? "" : ": " + message));
    this.key = key;
    this.lossCause = lossCause;
  }

  public String key() { return key; }
  public LossCause lossCause() { return lossCause; }
}
