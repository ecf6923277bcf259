// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.*;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The broker for tests of programs, and what a client tells of itself. */
@Timeout(120)
final class DoubleTest {
  private static final Duration MINUTE = Duration.ofMinutes(1);

  private final TestBroker broker = new TestBroker();
  private final Distlock dl = broker.client();
  private final Distlock other = broker.client();
  private final List<Object> told = new CopyOnWriteArrayList<>();
  private final List<String> logged = new CopyOnWriteArrayList<>();
  private final Logger log = Logger.getLogger("dev.distlock");
  private final Handler handler = new Handler() {
    @Override
    public void publish(LogRecord record) {
      logged.add(record.getMessage() + (record.getThrown() == null ? "" : " " + record.getThrown().getMessage()));
    }

    @Override
    public void flush() { }

    @Override
    public void close() { }
  };

  @BeforeEach
  void listen() {
    log.setUseParentHandlers(false);
    log.addHandler(handler);
  }

  @AfterEach
  void close() {
    dl.close();
    other.close();
    log.removeHandler(handler);
    log.setUseParentHandlers(true);
  }

  private static Duration seconds(int count) {
    return Duration.ofSeconds(count);
  }

  private boolean isFree(NamedLock lock) throws InterruptedException {
    Optional<HeldLock> held = lock.tryLock();
    held.ifPresent(HeldLock::close);
    return held.isPresent();
  }

  private static LossCause causeOf(HeldLock held) {
    return held.loss().orElseThrow().lossCause();
  }

  @Test
  void kindsOfLocks() throws Exception {
    dl.readWrite("r").read().lock();
    assertTrue(isFree(other.readWrite("r").read()));
    assertFalse(isFree(other.readWrite("r").write()));
    dl.semaphore("p", 3, 2).lock();
    assertFalse(isFree(other.semaphore("p", 3, 2)));
    assertTrue(isFree(other.semaphore("p", 3)));
    List<HeldLock> all = dl.lockAll(List.of(dl.mutex("x").owner("me"), dl.mutex("y")), Locks.FOREVER);
    LockBusyException busy = assertThrows(LockBusyException.class,
        () -> other.lockAll(List.of(other.mutex("z"), other.mutex("x")), Duration.ZERO));
    assertEquals("LOCK_HELD", busy.reason());
    assertEquals(List.of("me"), busy.holders().stream().map(LockRefusedException.Holder::owner).toList());
    assertTrue(isFree(other.mutex("z")), "all or none");
    assertEquals(new Locks.Stats(4, 0, 0), dl.stats());
    all.forEach(HeldLock::close);
    assertTrue(isFree(other.mutex("x")), "closing tells the broker at once");
    assertTrue(isFree(other.mutex("x").namespace("else")));

    HeldLock first = dl.mutex("e").reentrant("us").lock();
    HeldLock again = dl.mutex("e").reentrant("us").lock();
    assertEquals(2, again.holdCount());
    assertEquals(first.token(), again.token());
    assertEquals(ReleaseOutcome.STILL_HELD, again.release().get());
    first.downgrade().get();
    assertTrue(isFree(other.readWrite("e").read()));
    assertEquals(ReleaseOutcome.RELEASED, first.release().get());
    assertEquals(ReleaseOutcome.ALREADY_GONE, first.release().get());
    try (HeldLock next = other.mutex("e").lock()) {
      assertTrue(next.token() > first.token());
    }
    assertThrows(InvalidLockException.class, () -> dl.mutex("").lock());
  }

  @Test
  void timeThatTheTestMoves() throws Exception {
    HeldLock held = dl.mutex("k").lockDelay(seconds(10)).lock();
    broker.advance(MINUTE.multipliedBy(2));
    assertTrue(held.isHeld() && !held.isAtRisk() && held.validFor().compareTo(seconds(1)) > 0, "it is renewed");
    held.onLoss(lost -> told.add(lost.lossCause()));

    CompletableFuture<HeldLock> waiting = other.mutex("k").onQueued(told::add).lockAsync(seconds(5));
    CompletableFuture<Object> blocked = CompletableFuture.supplyAsync(() -> {
      try {
        return other.mutex("k").lock(seconds(60));
      } catch (InterruptedException interrupted) {
        return interrupted;
      }
    });
    broker.awaitWaiting("k", 2);
    assertEquals(List.of(0), told);
    broker.advance(seconds(5).minusNanos(1));
    assertFalse(waiting.isDone());
    broker.advance(Duration.ofNanos(1));
    CompletionException late = assertThrows(CompletionException.class, waiting::join);
    assertEquals("WAIT_TIMEOUT", assertInstanceOf(LockBusyException.class, late.getCause()).reason());

    broker.lose("k", LossCause.FORCED);
    assertEquals(LossCause.FORCED, causeOf(held));
    assertEquals(List.of(0, LossCause.FORCED), told);
    broker.advance(seconds(10).minusNanos(1));
    assertFalse(blocked.isDone(), "lock_delay runs");
    broker.advance(Duration.ofNanos(1));
    assertTrue(((HeldLock) blocked.get(60, TimeUnit.SECONDS)).isHeld());
    assertThrows(IllegalArgumentException.class, () -> broker.lose("k", LossCause.LAPSED), "no broker tells that");

    dl.mutex("once").minHold(MINUTE).lock().close();
    broker.advance(MINUTE.minusSeconds(1));
    assertFalse(isFree(other.mutex("once")));
    broker.advance(seconds(1));
    assertTrue(isFree(other.mutex("once")));
    HeldLock brief = dl.mutex("brief").maxHold(MINUTE).lock();
    broker.advance(MINUTE.minusNanos(1));
    assertTrue(brief.isHeld());
    broker.advance(Duration.ofNanos(1));
    assertEquals(LossCause.MAX_HOLD, causeOf(brief));
    assertTrue(isFree(other.mutex("brief")));
  }

  @Test
  void aBrokerThatFails() throws Exception {
    HeldLock lost = dl.mutex("a").lock();
    HeldLock kept = dl.mutex("b").resume().lock();
    broker.stop();
    assertEquals(LossCause.DISCONNECTED, causeOf(lost));
    assertTrue(kept.isHeld() && kept.isAtRisk());
    assertEquals(1, dl.stats().atRisk());
    CompletableFuture<HeldLock> one = dl.mutex("a").lockAsync(Duration.ZERO);
    broker.advance(seconds(1));
    ExecutionException away = assertThrows(ExecutionException.class, one::get);
    assertEquals("UNREACHABLE", assertInstanceOf(LockUnavailableException.class, away.getCause()).reason());
    broker.start();
    broker.advance(Duration.ofMillis(1900));
    assertTrue(kept.isHeld() && !kept.isAtRisk());

    broker.refuse("STORE_UNAVAILABLE");
    assertThrows(LockUnavailableException.class, () -> dl.mutex("a").lock());
    broker.refuse(null);
    broker.freeze();
    CompletableFuture<HeldLock> frozen = dl.mutex("c").lockAsync();
    broker.advance(seconds(3));
    assertEquals(LossCause.LAPSED, causeOf(kept));
    broker.thaw();
    broker.advance(seconds(5));
    assertTrue(frozen.get().isHeld());
    assertTrue(isFree(other.mutex("b")));
  }

  @Test
  void drainedWaitsForAllThatIsHeldAndOnItsWayBack() throws Exception {
    dl.drained().get(60, TimeUnit.SECONDS);
    HeldLock held = dl.mutex("k").lock();
    CompletableFuture<Void> drained = dl.drained();
    broker.settle();
    assertFalse(drained.isDone(), "it is held");
    broker.freeze();
    held.close();
    assertEquals(new Locks.Stats(0, 0, 0), dl.stats());
    broker.settle();
    assertFalse(drained.isDone(), "the broker has not confirmed it");
    broker.thaw();
    assertTrue(drained.isDone());
    CompletableFuture<HeldLock> waiting = dl.mutex("k").lockAsync();
    waiting.get();
    CompletableFuture<Void> closed = dl.drained();
    dl.close();
    closed.get(60, TimeUnit.SECONDS);
    dl.drained().get(60, TimeUnit.SECONDS);
  }

  @Test
  void listenersThatFailCostNoLock() throws Exception {
    HeldLock kept = dl.mutex("kept").lock();
    HeldLock held = dl.mutex("k").lock();
    held.onLoss(lost -> { throw new AssertionError("of a listener"); });
    held.onLoss(lost -> told.add(lost.lossCause()));
    CompletableFuture<HeldLock> waiting = other.mutex("k")
        .onQueued(ahead -> { throw new IllegalStateException("of onQueued"); }).lockAsync();
    broker.lose("k", LossCause.TAKEN);
    assertEquals(List.of(LossCause.TAKEN), told);
    assertTrue(waiting.get(60, TimeUnit.SECONDS).isHeld() && kept.isHeld());
    String failed = "distlock: an executor or callback of the program failed ";
    assertEquals(Set.of(failed + "of a listener", failed + "of onQueued"), Set.copyOf(logged));
  }

  @Test
  void anExecutorThatTakesNothingCostsNoLock() throws Exception {
    Distlock odd = broker.client(Distlock.builder().executor(task -> { throw new StackOverflowError("full"); }));
    HeldLock held = odd.mutex("k").lock();
    HeldLock kept = odd.mutex("kept").lockAsync().get(60, TimeUnit.SECONDS);
    CompletableFuture<LossCause> lost = new CompletableFuture<>();
    held.onLoss(loss -> lost.complete(loss.lossCause()));
    broker.lose("k", LossCause.FORCED);
    assertEquals(LossCause.FORCED, lost.get(60, TimeUnit.SECONDS));
    assertEquals(List.of("distlock: the executor of the program takes nothing full"), List.copyOf(Set.copyOf(logged)));
    broker.advance(MINUTE);
    assertTrue(kept.isHeld() && !held.isHeld());
    odd.close();
    assertTrue(isFree(other.mutex("kept")));
  }

  @Test
  void aDroppedHandleAndADroppedClient() throws Exception {
    dl.mutex("k").lock();
    Distlock[] dropped = {broker.client()};
    dropped[0].mutex("c").lock();
    Engine engine = dropped[0].engine;
    dropped[0] = null;
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60); !isFree(other.mutex("k"))
        || !isFree(other.mutex("c")) || !engine.table.closed; Thread.sleep(10)) {
      System.gc();
      assertTrue(System.nanoTime() < end, "it is not given back");
    }
    assertTrue(logged.get(0).contains("its handle was dropped"), logged::toString);
  }

  @Test
  void manyThreadsInTurn() throws Exception {
    int[] inside = {0, 0};
    List<CompletableFuture<Void>> all = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      all.add(CompletableFuture.runAsync(() -> {
        try (Distlock own = broker.client()) {
          for (int n = 0; n < 50; n++) {
            try (HeldLock held = own.mutex("k").lock()) {
              inside[1] = Math.max(inside[1], ++inside[0]);
              assertTrue(held.isHeld());
              inside[0]--;
            }
          }
        } catch (InterruptedException interrupted) {
          throw new IllegalStateException(interrupted);
        }
      }));
    }
    for (CompletableFuture<Void> one : all) one.get(60, TimeUnit.SECONDS);
    assertEquals(1, inside[1]);
    assertTrue(isFree(other.mutex("k")));
  }
}
