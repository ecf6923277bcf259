// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** A lock that was granted. Thread-safe. One that nothing refers to any more is given back, and the log names it. */
public interface HeldLock extends AutoCloseable {
  String key();

  /**
   * The fencing token: it grows with each grant of this lock and stays below 2^53. Pass it to the resource that the
   * lock protects, and let that refuse smaller ones.
   */
  long token();

  /** 1; greater when the lock was taken again by re-entry. */
  int holdCount();

  /** By the clock, at this moment: never true after the deadline, and false after a release. Cheap; no call. */
  boolean isHeld();

  /** Held, but renewals or heartbeats fail, or the stream broke: finish before validFor() is over. */
  boolean isAtRisk();

  /** How long the lock is held without further word from the broker; zero when it is not held. */
  Duration validFor();

  /** How the lock was lost. Empty while it is held, and when the program gave it back. */
  Optional<LockLostException> loss();

  /** Throws LockLostException when the lock is lost at this moment, IllegalStateException when it was given back. */
  default void check() {
    if (isHeld()) return;
    throw loss().<RuntimeException>map(lost -> lost)
        .orElseGet(() -> new IllegalStateException("distlock: the lock \"" + key() + "\" was given back"));
  }

  /**
   * Has the executor of the client call the listener when the lock is lost, or at once when it has been; never after a
   * release. A listener may be late by as long as the machine was suspended; isHeld() is not.
   */
  void onLoss(Consumer<LockLostException> listener);

  /** Gives the lock back. It ends at once; the future hears the broker's answer. */
  CompletableFuture<ReleaseOutcome> release();

  /** Makes an exclusive lock shared, without a gap. There is no way back. Fails with a LockRefusedException. */
  CompletableFuture<Void> downgrade();

  /**
   * Sends the release: the next acquire of the lock by this client finds it free. Waits for nothing, but with
   * {@code minHold} for the answer, for at most a second: a process that ended sooner would take the release along, and
   * its death leaves no block. Throws nothing; closing twice does nothing.
   */
  @Override void close();
}
