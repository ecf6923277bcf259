// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.*;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Threads are interrupted, and futures cancelled, at random moments, with a real broker: no lock is left.
 * DISTLOCK_CANCELLATIONS: how many.
 */
@Timeout(1800)
final class InterruptTest {
  private static final int TIMES =
      Integer.parseInt(Optional.ofNullable(System.getenv("DISTLOCK_CANCELLATIONS")).orElse("1000"));
  private static final int THREADS = 6;
  private static final long LONGEST_STOP_NS = TimeUnit.SECONDS.toNanos(30);
  private static final List<String> KEYS = List.of("a", "b", "c", "d");
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final AtomicInteger interrupted = new AtomicInteger();
  private final AtomicInteger cancelled = new AtomicInteger();
  private final AtomicReference<Throwable> wrong = new AtomicReference<>();
  private volatile boolean over;

  @Test
  void interruptsAtRandomMomentsLeaveNoLock() throws Exception {
    // So long that no stall of a busy machine loses a lock, and that one which is left is not freed by its ttl.
    try (Broker broker = new Broker("--validity", "30s", "--default-ttl", "60s");
        Distlock dl = client(broker); Distlock other = client(broker)) {
      dl.mutex("a").lock(PATIENCE).close();  // connects
      List<Thread> threads = IntStream.range(0, THREADS).mapToObj(i -> new Thread(() -> work(dl))).toList();
      threads.forEach(Thread::start);
      Random dice = new Random();
      int seen = 0;
      for (long last = System.nanoTime(); interrupted.get() < TIMES && wrong.get() == null;) {
        threads.get(dice.nextInt(THREADS)).interrupt();
        LockSupport.parkNanos(dice.nextInt(400_000));
        if (seen != interrupted.get()) {
          seen = interrupted.get();
          last = System.nanoTime();
        }
        assertTrue(System.nanoTime() - last < LONGEST_STOP_NS, "stuck after " + seen);
      }
      over = true;
      for (Thread thread : threads) {
        for (int i = 0; i < 600 && thread.isAlive(); i++) {
          thread.interrupt();  // of a wait without end
          thread.join(100);
        }
        assertFalse(thread.isAlive());
      }
      assertNull(wrong.get());
      assertTrue(cancelled.get() > TIMES / 20, "few futures were cancelled: " + cancelled);
      nothingIsLeft(broker, dl, other);
      System.out.println(interrupted + " interrupts, " + cancelled + " cancelled futures: nothing is left");
    }
  }

  private static Distlock client(Broker broker) {
    return Distlock.builder().address(broker.address()).unreachableAfter(PATIENCE).build();
  }

  private static void nothingIsLeft(Broker broker, Distlock dl, Distlock other) throws Exception {
    await(() -> dl.stats().equals(new Locks.Stats(0, 0, 0)), () -> "left: " + dl.stats());
    for (String key : KEYS) {
      try (HeldLock free = other.mutex(key).lock(PATIENCE)) {
        await(() -> broker.look(key).getQueueLength() == 0, () -> "one waits still: " + broker.look(key));
        assertEquals(free.token(), broker.look(key).getHolders(0).getFencingToken());
      }
    }
  }

  private static void await(BooleanSupplier condition, Supplier<String> what) throws InterruptedException {
    for (long end = System.nanoTime() + PATIENCE.toNanos(); !condition.getAsBoolean(); Thread.sleep(10)) {
      assertTrue(System.nanoTime() < end, what);
    }
  }

  private void work(Distlock dl) {
    while (!over) {
      try {
        use(dl, ThreadLocalRandom.current());
      } catch (InterruptedException expected) {
        interrupted.incrementAndGet();
      } catch (LockBusyException | LockUnavailableException refused) {
        // another one has it, or the machine stood still for longer than the short wait
      } catch (Throwable other) {
        wrong.compareAndSet(null, other);
        return;
      }
    }
  }

  private void use(Distlock dl, Random dice) throws Exception {
    NamedLock lock = dl.mutex(KEYS.get(dice.nextInt(KEYS.size())));
    Duration wait = Duration.ofNanos(dice.nextInt(3_000_000));
    switch (dice.nextInt(6)) {
      case 0 -> lock.lock().close();
      case 1 -> lock.lock(wait).close();
      case 2 -> lock.tryLock(wait).ifPresent(HeldLock::close);
      case 3 -> dl.lockAll(List.of(dl.mutex("a"), dl.mutex("c")), Locks.FOREVER).forEach(HeldLock::close);
      case 4 -> {
        try (HeldLock held = lock.lock(Locks.FOREVER)) {
          Thread.sleep(0, dice.nextInt(400_000));
          held.check();
        }
      }
      default -> cancel(lock.lockAsync(), dice);
    }
  }

  /** A cancel of a future that has a lock already gives that back. */
  private void cancel(CompletableFuture<HeldLock> future, Random dice) throws InterruptedException {
    if (dice.nextBoolean()) future.orTimeout(dice.nextInt(2_000), TimeUnit.MICROSECONDS);
    else LockSupport.parkNanos(dice.nextInt(2_000_000));
    try {
      if (dice.nextBoolean() && future.cancel(true)) {
        cancelled.incrementAndGet();
        return;
      }
      future.get(60, TimeUnit.SECONDS).close();
    } catch (InterruptedException expected) {
      if (!future.cancel(true) && !future.isCompletedExceptionally()) future.join().close();
      throw expected;
    } catch (CancellationException | CompletionException | java.util.concurrent.ExecutionException over) {
      cancelled.incrementAndGet();
    } catch (java.util.concurrent.TimeoutException stuck) {
      throw new AssertionError(stuck);
    }
  }
}
