// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Locks by name: what a program depends on. {@link Distlock} has those of a broker. */
public interface Locks extends AutoCloseable {
  /** A wait until the lock is granted. Duration.ZERO is one try. */
  Duration FOREVER = ChronoUnit.FOREVER.getDuration();

  /** How many locks a client has: held, asked for and not answered, and held while renewals fail. */
  record Stats(int held, int waiting, int atRisk) {}

  /** The readers and the writers of one lock. */
  record ReadWrite(NamedLock read, NamedLock write) {}

  /** One holder at a time. */
  default NamedLock mutex(String key) {
    return new NamedLock(this, LockSpec.newBuilder().setKey(key).setMode(LockMode.LOCK_MODE_EXCLUSIVE).build(), null);
  }

  /** Many readers, or one writer. */
  default ReadWrite readWrite(String key) {
    NamedLock write = mutex(key);
    return new ReadWrite(write.with(spec -> spec.setMode(LockMode.LOCK_MODE_SHARED)), write);
  }

  /** One of `limit` permits. All callers of a semaphore name the same limit. */
  default NamedLock semaphore(String key, int limit) { return semaphore(key, limit, 1); }

  /** So many of `limit` permits. */
  default NamedLock semaphore(String key, int limit, int permits) {
    return mutex(key).with(spec -> spec.setMode(LockMode.LOCK_MODE_PERMIT).setLimit(limit).setPermits(permits));
  }

  /**
   * Takes up to 64 different locks, all or nothing, in one order for all callers, so that none waits for another in a
   * circle. Throws as {@link NamedLock#lock(Duration)}.
   */
  List<HeldLock> lockAll(List<NamedLock> locks, Duration wait) throws InterruptedException;

  /** The same without blocking. Cancelling the future withdraws the request. */
  CompletableFuture<List<HeldLock>> lockAllAsync(List<NamedLock> locks, Duration wait);

  Stats stats();

  /**
   * Completed when this client holds nothing and waits for nothing, and brokers have confirmed what it gave back, or it
   * is closed: for a shutdown.
   */
  CompletableFuture<Void> drained();

  /** Gives all back. Calls that wait fail with a ClientClosedException. */
  @Override void close();
}
