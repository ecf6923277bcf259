// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.LockSpec;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.function.*;

/** A lock by its name, and the terms on which it is taken. Immutable: each term makes another one. */
public final class NamedLock {
  /** The order of those who wait. Use one policy for all requests of a lock. */
  public enum Policy { FAIR, WRITER_PREFERRING, READER_PREFERRING, ADAPTIVE }

  /** When the stream breaks, the broker frees the lock after the last promise, or at once, or leaves it to its ttl. */
  public enum OnDisconnect { SAFE, RELEASE, EXPIRE }

  final LockSpec spec;
  final IntConsumer onQueued;  // may be null
  private final Locks locks;

  NamedLock(Locks locks, LockSpec spec, IntConsumer onQueued) {
    this.locks = locks;
    this.spec = spec;
    this.onQueued = onQueued;
  }

  NamedLock with(UnaryOperator<LockSpec.Builder> change) {
    return new NamedLock(locks, change.apply(spec.toBuilder()).build(), onQueued);
  }

  /** Up to 64 bytes; "" is "default". */
  public NamedLock namespace(String namespace) { return with(to -> to.setNamespace(namespace)); }

  /** How long the store keeps the lock without renewal, which is what a crash of the broker costs: 1 s to 1 h, 15 s. */
  public NamedLock ttl(Duration ttl) { return with(to -> to.setTtl(Durations.wire(ttl))); }

  /** The lock ends this long after its grant, with LossCause.MAX_HOLD. */
  public NamedLock maxHold(Duration maxHold) { return with(to -> to.setMaxHold(Durations.wire(maxHold))); }

  /** Keeps what the lock held from others for this long after an abnormal end: up to 60 s. */
  public NamedLock lockDelay(Duration lockDelay) { return with(to -> to.setLockDelay(Durations.wire(lockDelay))); }

  /**
   * Keeps the lock from everybody until this long after its grant when it is released sooner, so that a job that
   * several hosts start runs once a period: up to 25 h, of one exclusive lock.
   */
  public NamedLock minHold(Duration minHold) { return with(to -> to.setMinHold(Durations.wire(minHold))); }

  /** FAIR without it. */
  public NamedLock policy(Policy policy) { return with(to -> to.setPolicyValue(policy.ordinal() + 1)); }

  /** SAFE without it. */
  public NamedLock onDisconnect(OnDisconnect action) {
    return with(to -> to.setOnDisconnectValue(action.ordinal() + 1));
  }

  /** A label of the caller that others are shown: up to 256 bytes. Without it user@host:pid, if not reentrant. */
  public NamedLock owner(String owner) { return with(to -> to.setOwner(owner)); }

  /** Shown to others: up to 1 KiB in all. */
  public NamedLock metadata(Map<String, String> entries) { return with(to -> to.putAllMetadata(entries)); }

  /**
   * Another acquire with this owner, which must not be empty, succeeds at once while this client holds the lock, with
   * the same token. Each hold is given back on its own. Not for several locks at once.
   */
  public NamedLock reentrant(String owner) { return with(to -> to.setOwner(owner).setReentrant(true)); }

  /**
   * The lock outlives a broken stream, or the restart of the only broker, when a broker of the same store is reached
   * before the last promise ends (3 s).
   */
  public NamedLock resume() { return with(to -> to.setResume(true)); }

  /** Told how many are ahead, when a request has to wait, by the client's executor. Not for several locks at once. */
  public NamedLock onQueued(IntConsumer listener) { return new NamedLock(locks, spec, listener); }
  public String key() { return spec.getKey(); }

  /** Waits until the lock is granted. Throws as lock(Duration). */
  public HeldLock lock() throws InterruptedException { return lock(Locks.FOREVER); }

  /**
   * Takes the lock. An interrupt withdraws the request. Throws LockBusyException when others hold it during the whole
   * wait, LockUnavailableException, InvalidLockException, another LockRefusedException, or ClientClosedException.
   */
  public HeldLock lock(Duration wait) throws InterruptedException { return locks.lockAll(List.of(this), wait).get(0); }

  /** One try: empty when others hold the lock. Throws as lock(Duration) otherwise. */
  public Optional<HeldLock> tryLock() throws InterruptedException { return tryLock(Duration.ZERO); }

  /** Waits for at most so long: empty when others hold the lock. Throws as lock(Duration) otherwise. */
  public Optional<HeldLock> tryLock(Duration wait) throws InterruptedException {
    try {
      return Optional.of(lock(wait));
    } catch (LockBusyException busy) {
      return Optional.empty();
    }
  }

  /** As lock(), without blocking. */
  public CompletableFuture<HeldLock> lockAsync() { return lockAsync(Locks.FOREVER); }

  /** As lock(Duration), without blocking. Cancelling the future withdraws the request. */
  public CompletableFuture<HeldLock> lockAsync(Duration wait) {
    CompletableFuture<List<HeldLock>> all = locks.lockAllAsync(List.of(this), wait);
    CompletableFuture<HeldLock> one = new CompletableFuture<>();
    all.whenComplete((held, error) -> {
      if (error != null) one.completeExceptionally(error);
      else if (!one.complete(held.get(0))) held.get(0).close();
    });
    one.whenComplete((held, error) -> {
      if (error != null) all.cancel(false);
    });
    return one;
  }
}
