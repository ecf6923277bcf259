// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Consumer;

/** The handle of a lease. */
final class LiveLock implements HeldLock {
  static final Cleaner CLEANER = Cleaner.create();

  final Distlock client;  // which is not dropped before its last lock
  private final Holding holding;
  private final Cleaner.Cleanable dropped;

  /** The state of a handle, which does not refer to that, so that it can be dropped. */
  static final class Holding {
    private final Engine engine;
    private final Lease lease;
    private final Executor executor;
    private List<Consumer<LockLostException>> listeners = new ArrayList<>();  // guarded by this
    private volatile boolean closed;  // by the program

    Holding(Engine engine, Lease lease, Executor executor) {
      this.engine = engine;
      this.lease = lease;
      this.executor = executor;
      lease.onLost = this::tell;
    }

    /** Null when it is held, or the program gave it back. */
    private LockLostException loss() {
      if (engine.holds(lease) || lease.cause == null) return null;
      return new LockLostException(lease.spec.getKey(), lease.cause, lease.message);
    }

    private void listen(Consumer<LockLostException> listener) {
      synchronized (this) { listeners.add(listener); }
      if (!engine.holds(lease)) tell();
    }

    /** Each listener is told once. */
    private void tell() {
      List<Consumer<LockLostException>> told;
      synchronized (this) {
        told = listeners;
        listeners = new ArrayList<>();
      }
      LockLostException lost = loss();
      if (lost != null) told.forEach(listener -> executor.execute(() -> listener.accept(lost)));
    }

    private CompletableFuture<ReleaseOutcome> release() {
      CompletableFuture<ReleaseOutcome> answer = new CompletableFuture<>();
      closed = true;
      engine.turn(table -> {
        // A loss that is noticed only now is told, and nothing is left to give back.
        boolean held = table.notice(lease);
        table.release(lease, held ? outcome -> executor.execute(() -> answer.complete(outcome)) : null);
        if (!held) answer.complete(ReleaseOutcome.ALREADY_GONE);
      });
      return answer;
    }

    private void drop() {
      if (closed || !lease.isHeld()) return;
      release();
      Engine.LOG.log(Level.WARNING, "distlock: the lock \"" + lease.spec.getKey() + "\" was given back because its "
          + "handle was dropped: keep what lock() returns, and close it");
    }
  }

  LiveLock(Distlock client, Holding holding) {
    this.client = client;
    this.holding = holding;
    dropped = CLEANER.register(this, holding::drop);
  }

  private Lease lease() { return holding.lease; }
  @Override public String key() { return lease().spec.getKey(); }
  @Override public long token() { return lease().token; }
  @Override public int holdCount() { return lease().holdCount; }
  @Override public boolean isHeld() { return client.engine.holds(lease()); }

  @Override public boolean isAtRisk() {
    boolean[] risk = new boolean[1];
    if (isHeld()) client.engine.turn(table -> risk[0] = table.isAtRisk(lease()));
    return risk[0];
  }

  @Override public Duration validFor() {
    return Duration.ofNanos(isHeld() ? Math.max(lease().deadline - client.engine.now(), 0) : 0);
  }

  @Override public Optional<LockLostException> loss() { return Optional.ofNullable(holding.loss()); }
  @Override public void onLoss(Consumer<LockLostException> listener) { holding.listen(listener); }

  @Override public CompletableFuture<ReleaseOutcome> release() {
    CompletableFuture<ReleaseOutcome> answer = holding.release();
    dropped.clean();  // nothing is left to do for it
    return answer;
  }

  @Override public CompletableFuture<Void> downgrade() {
    CompletableFuture<Void> answer = new CompletableFuture<>();
    client.engine.turn(table -> table.downgrade(lease(), denial -> client.executor.execute(() -> {
      if (denial == null) answer.complete(null);
      else answer.completeExceptionally(LockRefusedException.of(denial));
    })));
    return answer;
  }

  @Override public void close() {
    CompletableFuture<ReleaseOutcome> answer = release();
    if (!lease().spec.hasMinHold()) return;
    try {
      answer.get(1, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException unanswered) {
      return;  // the lock is freed in any case
    }
  }

  @Override public String toString() {
    return "lock \"" + key() + "\", token " + token() + (isHeld() ? ": held" : ": not held");
  }
}
