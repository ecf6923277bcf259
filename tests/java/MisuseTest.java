// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.*;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Programs that use the package as it is not meant, with a real broker: no lock is left, and no error is hidden. */
@Timeout(120)
final class MisuseTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private Broker broker;
  private Distlock dl;
  private Distlock other;

  @BeforeEach
  void connect() throws Exception {
    broker = new Broker("--default-ttl", "60s");
    dl = Distlock.builder().address(broker.address()).unreachableAfter(PATIENCE).build();
    other = Distlock.builder().address(broker.address()).unreachableAfter(PATIENCE).build();
  }

  @AfterEach
  void close() throws Exception {
    dl.close();
    other.close();
    broker.close();
  }

  private void isFree(String... keys) throws InterruptedException {
    for (String key : keys) other.mutex(key).lock(PATIENCE).close();
  }

  private static final class OfTheBody extends Exception {
    private static final long serialVersionUID = 1;
  }

  /** A resource that fails when it is closed. */
  private static AutoCloseable failing() {
    return () -> { throw new IllegalStateException("of close"); };
  }

  @Test
  void exceptionsOfABodyAndOfAnotherResourceAreKept() throws Exception {
    OfTheBody error = assertThrows(OfTheBody.class, () -> {
      try (HeldLock held = dl.mutex("k").lock(); AutoCloseable file = failing()) {
        assertTrue(held.isHeld());
        assertNotNull(file);
        throw new OfTheBody();
      }
    });
    assertEquals(List.of("of close"), List.of(error.getSuppressed()).stream().map(Throwable::getMessage).toList());
    isFree("k");
    assertThrows(IllegalStateException.class, () -> {
      try (HeldLock held = dl.mutex("k").lock(); AutoCloseable file = failing()) {
        assertTrue(held.isHeld());
        assertNotNull(file);
      }
    });
    isFree("k");
  }

  @Test
  void theSecondResourceIsBusy() throws Exception {
    try (HeldLock busy = other.mutex("b").lock()) {
      assertTrue(busy.isHeld());
      assertThrows(LockBusyException.class, () -> {
        try (HeldLock a = dl.mutex("a").lock(); HeldLock b = dl.mutex("b").lock(Duration.ZERO)) {
          fail(a + " " + b);
        }
      });
      isFree("a");
    }
  }

  @Test
  void aLossInABodyIsNotHiddenAndHidesNothing() throws Exception {
    OfTheBody error = assertThrows(OfTheBody.class, () -> {
      try (HeldLock held = dl.mutex("k").lock()) {
        CompletableFuture<LockLostException> told = new CompletableFuture<>();
        held.onLoss(told::complete);
        broker.force("k");
        assertEquals(LossCause.FORCED, told.get(60, TimeUnit.SECONDS).lossCause());
        assertEquals(LossCause.FORCED, assertThrows(LockLostException.class, held::check).lossCause());
        throw new OfTheBody();
      }
    });
    assertEquals(0, error.getSuppressed().length);
    isFree("k");
  }

  @Test
  void closedInTheBodyAndByTheClient() throws Exception {
    HeldLock outer;
    try (HeldLock held = dl.mutex("k").lock()) {
      outer = held;
      assertEquals(ReleaseOutcome.RELEASED, held.release().get());
      try (HeldLock next = other.mutex("k").lock(PATIENCE)) {
        assertEquals(ReleaseOutcome.ALREADY_GONE, held.release().get());
        assertTrue(next.isHeld() && !held.isHeld());
        assertEquals(next.token(), broker.look("k").getHolders(0).getFencingToken());
      }
    }
    assertEquals(Optional.empty(), outer.loss());
    try (HeldLock held = dl.mutex("c").lock()) {
      dl.close();
      assertEquals(LossCause.CLIENT_CLOSED, held.loss().orElseThrow().lossCause());
    }
    isFree("k", "c");
  }

  @Test
  void anInterruptedThreadGivesBackAndStaysInterrupted() throws Exception {
    try (HeldLock held = dl.mutex("k").lock()) {
      assertTrue(held.isHeld());
      Thread.currentThread().interrupt();
    }
    assertTrue(Thread.interrupted());
    isFree("k");
    Thread.currentThread().interrupt();
    assertThrows(InterruptedException.class, () -> dl.mutex("k").lock());
    assertFalse(Thread.currentThread().isInterrupted());
    isFree("k");
  }

  @Test
  void handlesThatAPoolOfThreadsDropsOrLeaves() throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(2);
    assertTrue(pool.submit(() -> dl.mutex("dropped").lock().token()).get(60, TimeUnit.SECONDS) > 0);
    HeldLock taken = pool.submit(() -> dl.mutex("passed").lock()).get(60, TimeUnit.SECONDS);
    pool.shutdownNow();
    assertTrue(taken.isHeld(), "it does not belong to the thread that took it");
    taken.close();
    isFree("passed");
    CompletableFuture<HeldLock> free = other.mutex("dropped").lockAsync();
    for (long end = System.nanoTime() + PATIENCE.toNanos(); !free.isDone(); Thread.sleep(10)) {
      System.gc();
      assertTrue(System.nanoTime() < end, "it is not given back");
    }
    free.get().close();
  }
}
