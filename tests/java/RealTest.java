// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.*;

import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The package with a real broker and a real store. */
@Timeout(120)
final class RealTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private Broker broker;
  private Distlock dl;
  private Distlock other;

  @BeforeEach
  void connect() throws Exception {
    broker = new Broker();
    dl = client();
    other = client();
  }

  @AfterEach
  void close() throws Exception {
    dl.close();
    other.close();
    broker.close();
  }

  private Distlock client() {
    return Distlock.builder().address(broker.address()).unreachableAfter(PATIENCE).build();
  }

  private static void await(BooleanSupplier condition, String what) throws InterruptedException {
    for (long end = System.nanoTime() + PATIENCE.toNanos(); !condition.getAsBoolean(); Thread.sleep(10)) {
      assertTrue(System.nanoTime() < end, what);
    }
  }

  @Test
  void aMutex() throws Exception {
    HeldLock held = dl.mutex("k").owner("me").lock();
    assertTrue(held.isHeld() && !held.isAtRisk() && held.validFor().toMillis() > 0);
    held.check();
    assertEquals(new Locks.Stats(1, 0, 0), dl.stats());
    LockBusyException busy = assertThrows(LockBusyException.class, () -> other.mutex("k").lock(Duration.ZERO));
    assertEquals("LOCK_HELD", busy.reason());
    assertEquals("me", busy.holders().get(0).owner());
    assertEquals(held.token(), busy.holders().get(0).token());
    assertEquals(Optional.empty(), other.mutex("k").tryLock(Duration.ofMillis(50)));

    CompletableFuture<HeldLock> waiting = other.mutex("k").lockAsync();
    await(() -> broker.look("k").getQueueLength() == 1, "no place in the queue");
    assertEquals(1, other.stats().waiting());
    assertEquals(ReleaseOutcome.RELEASED, held.release().get());
    try (HeldLock next = waiting.get(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
      assertTrue(next.token() > held.token());
    }
    assertFalse(held.isHeld());
    assertEquals(Optional.empty(), held.loss());
    assertThrows(IllegalStateException.class, held::check);
    assertTrue(dl.mutex("k").tryLock(PATIENCE).isPresent());
  }

  @Test
  void whoeverNamesNoOwnerIsNamed() throws Exception {
    dl.lockAll(List.of(dl.mutex("a"), dl.mutex("b").owner("me")), Locks.FOREVER);
    HeldLock again = dl.mutex("c").reentrant("us").lock();
    String own = "@" + Files.readString(Path.of("/proc/sys/kernel/hostname")).strip() + ":"
        + ProcessHandle.current().pid();
    String shown = broker.look("a").getHolders(0).getOwner();
    assertTrue(shown.endsWith(own) && shown.length() > own.length(), shown);
    assertEquals("me", broker.look("b").getHolders(0).getOwner());
    assertEquals("us", broker.look("c").getHolders(0).getOwner());
    again.close();
  }

  /** A program that ends right after a body. */
  static final class Once {
    public static void main(String[] address) throws Exception {
      Distlock.builder().address(address[0]).build().mutex("once").minHold(Duration.ofHours(1)).lock().close();
      Runtime.getRuntime().halt(7);
    }
  }

  @Test
  void minHoldOfAProgramThatEndsRightAfterABody() throws Exception {
    String classes = Arrays.stream(((URLClassLoader) Once.class.getClassLoader()).getURLs()).map(URL::getPath)
        .collect(Collectors.joining(":"));
    Process child = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
        classes, Once.class.getName(), broker.address()).inheritIO().start();
    assertEquals(7, child.waitFor());
    assertTrue(broker.look("once").hasBlock(), "a death would leave none");
  }

  @Test
  void readersWritersAndPermits() throws Exception {
    HeldLock writer = dl.readWrite("t").write().lock();
    assertTrue(other.readWrite("t").read().tryLock().isEmpty());
    writer.downgrade().get();
    assertTrue(other.readWrite("t").read().tryLock().isPresent());
    assertTrue(other.readWrite("t").write().tryLock().isEmpty());

    assertTrue(dl.semaphore("p", 3, 2).tryLock().isPresent());
    assertTrue(other.semaphore("p", 3).tryLock().isPresent());
    assertTrue(other.semaphore("p", 3).tryLock().isEmpty());
  }

  @Test
  void severalAndNoneAtAll() throws Exception {
    List<HeldLock> two = dl.lockAll(List.of(dl.mutex("b"), dl.mutex("a")), Locks.FOREVER);
    assertEquals(List.of("b", "a"), two.stream().map(HeldLock::key).toList());
    assertThrows(LockBusyException.class,
        () -> other.lockAll(List.of(other.mutex("c"), other.mutex("a")), Duration.ZERO));
    assertTrue(other.mutex("c").tryLock().isPresent());
    InvalidLockException wrong =
        assertThrows(InvalidLockException.class, () -> dl.mutex("x").ttl(Duration.ofMillis(1)).lock());
    assertTrue(wrong.getMessage().contains("ttl"), wrong.getMessage());
  }

  @Test
  void aListenerHearsOfALoss() throws Exception {
    HeldLock held = dl.mutex("k").lock();
    CompletableFuture<LockLostException> told = new CompletableFuture<>();
    held.onLoss(told::complete);
    broker.force("k");
    assertEquals(LossCause.FORCED, told.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).lossCause());
    assertEquals(LossCause.FORCED, assertThrows(LockLostException.class, held::check).lossCause());
    assertEquals(ReleaseOutcome.ALREADY_GONE, held.release().get());
    CompletableFuture<LockLostException> late = new CompletableFuture<>();
    held.onLoss(late::complete);
    assertEquals("k", late.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).key());
  }

  @Test
  void aFrozenBrokerSendsNoErrorSoTheClockDecides() throws Exception {
    HeldLock held = dl.mutex("k").lock();
    CompletableFuture<LockLostException> told = new CompletableFuture<>();
    held.onLoss(told::complete);
    broker.signal("STOP");
    try {
      assertEquals(LossCause.LAPSED, told.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).lossCause());
      assertFalse(held.isHeld());
    } finally {
      broker.signal("CONT");
    }
    assertTrue(other.mutex("k").lock(PATIENCE).token() > held.token());
  }

  @Test
  void whatGivesUpWaitsNoLonger() throws Exception {
    HeldLock held = dl.mutex("k").lock();
    CompletableFuture<HeldLock> cancelled = other.mutex("k").lockAsync();
    CompletableFuture<HeldLock> impatient = other.mutex("k").lockAsync().orTimeout(100, TimeUnit.MILLISECONDS);
    CompletableFuture<Throwable> interrupted = new CompletableFuture<>();
    Thread waiter = new Thread(() -> {
      try (HeldLock never = other.mutex("k").lock()) {
        interrupted.complete(new AssertionError("granted " + never));
      } catch (InterruptedException expected) {
        interrupted.complete(expected);
      }
    });
    waiter.start();
    assertThrows(CompletionException.class, impatient::join);
    await(() -> broker.look("k").getQueueLength() == 2, "the queue has not two");
    cancelled.cancel(true);
    waiter.interrupt();
    assertThrows(CancellationException.class, cancelled::join);
    assertInstanceOf(InterruptedException.class, interrupted.get(PATIENCE.toSeconds(), TimeUnit.SECONDS));
    await(() -> broker.look("k").getQueueLength() == 0, "something waits still");
    held.close();
    assertTrue(dl.mutex("k").tryLock().isPresent());
  }

  @Test
  void aHandleThatIsDroppedIsGivenBack() throws Exception {
    long token = dl.mutex("k").lock().token();
    await(() -> {
      System.gc();
      return broker.look("k").getHolderCount() == 0;
    }, "the lock is held still");
    assertTrue(dl.mutex("k").lock().token() > token);
  }

  @Test
  void aClientThatIsDroppedIsClosed() throws Exception {
    Distlock[] dropped = {client()};
    HeldLock[] held = {dropped[0].mutex("k").lock()};
    dropped[0] = null;
    System.gc();
    assertTrue(held[0].isHeld(), "its lock keeps it");
    Engine engine = ((LiveLock) held[0]).client.engine;
    held[0] = null;
    await(() -> {
      System.gc();
      return engine.table.closed;
    }, "the client is open still");
    assertTrue(other.mutex("k").tryLock(PATIENCE).isPresent());
  }

  @Test
  void closingRefusesWhatWaitsAndTellsOfWhatIsHeld() throws Exception {
    HeldLock held = dl.mutex("k").lock();
    CompletableFuture<LockLostException> told = new CompletableFuture<>();
    held.onLoss(told::complete);
    CompletableFuture<HeldLock> waiting = dl.mutex("k").lockAsync();
    dl.close();
    assertInstanceOf(ClientClosedException.class, assertThrows(CompletionException.class, waiting::join).getCause());
    assertEquals(LossCause.CLIENT_CLOSED, told.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).lossCause());
    assertTrue(other.mutex("k").tryLock(PATIENCE).isPresent());
    assertThrows(ClientClosedException.class, () -> dl.mutex("k").lock());
    dl.close();
  }

  @Test
  void aProgramThatHasUsedUpItsExecutorStillGetsLocks() throws Exception {
    ExecutorService one = Executors.newSingleThreadExecutor();
    CompletableFuture<Void> block = new CompletableFuture<>();
    one.execute(block::join);
    try (Distlock busy = Distlock.builder().address(broker.address()).executor(one).build()) {
      HeldLock held = busy.mutex("k").lock(PATIENCE);
      held.onLoss(lost -> fail("released, not lost"));
      assertTrue(held.isHeld());
      held.close();
      assertTrue(other.mutex("k").tryLock(PATIENCE).isPresent());
    } finally {
      block.complete(null);
      one.shutdown();
    }
  }

  @Test
  void aLockWithResumeOutlivesItsBroker() throws Exception {
    HeldLock kept = dl.mutex("kept").resume().lock();
    HeldLock lost = dl.mutex("lost").lock();
    broker.kill();
    broker.start();
    await(() -> kept.isHeld() && !kept.isAtRisk() && !lost.isHeld(), "it has not moved");
    assertEquals(kept.token(), broker.look("kept").getHolders(0).getFencingToken());
    assertEquals(LossCause.DISCONNECTED, lost.loss().orElseThrow().lossCause());
  }

  @Test
  void whatIsReleasedWhileNoBrokerCanBeReachedIsFreeAsSoonAsOneCan() throws Exception {
    HeldLock held = dl.mutex("k").resume().ttl(Duration.ofMinutes(10)).lock();
    broker.kill();
    await(held::isAtRisk, "it does not know that its stream broke");
    assertEquals(ReleaseOutcome.UNKNOWN, held.release().get());
    broker.start();
    assertTrue(other.mutex("k").tryLock(PATIENCE).isPresent(), "its ttl would keep it for 10 minutes");
  }

  @Test
  void aClientTooManyIsToldWhichLimit() throws Exception {
    try (Broker small = new Broker("--limits", "max-connections-per-peer=2");
        Distlock one = Distlock.builder().address(small.address()).build();
        Distlock two = Distlock.builder().address(small.address()).build();
        Distlock many = Distlock.builder().address(small.address()).build()) {
      HeldLock first = one.mutex("a").lock(PATIENCE);
      HeldLock second = two.mutex("b").lock(PATIENCE);
      LockUnavailableException told =
          assertThrows(LockUnavailableException.class, () -> many.mutex("c").lock(Duration.ofSeconds(2)));
      assertTrue(told.getMessage().contains("limit max-connections-per-peer"), told.getMessage());
      assertTrue(first.isHeld() && second.isHeld());
    }
  }

  @Test
  void aBrokerThatIsNotThereIsUnavailable() throws Exception {
    try (Distlock nowhere = Distlock.builder().address("unix:///nowhere/x.sock").build()) {
      LockUnavailableException none =
          assertThrows(LockUnavailableException.class, () -> nowhere.mutex("k").lock(Duration.ZERO));
      assertEquals("UNREACHABLE", none.reason());
      assertTrue(none.getMessage().contains("unix:///nowhere/x.sock"), none.getMessage());
    }
  }
}
