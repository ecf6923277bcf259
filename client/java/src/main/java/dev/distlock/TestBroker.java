// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.*;
import java.util.function.*;

/**
 * A broker inside of a test's process, for programs that take locks. No daemon and no port; the client is the real one,
 * and so are its exceptions. Time stands still until the test moves it.
 *
 * <pre>{@code
 * TestBroker broker = new TestBroker();
 * Distlock mine = broker.client(), theirs = broker.client();
 * HeldLock held = mine.mutex("report").maxHold(Duration.ofMinutes(1)).lock();
 * assertTrue(theirs.mutex("report").tryLock().isEmpty());
 * broker.advance(Duration.ofMinutes(1));  // held.loss() has the cause MAX_HOLD now, and listeners were told
 * }</pre>
 *
 * A wait ends by advance(), or by a release: let another thread do the waiting, and awaitWaiting see that it does, or
 * use lockAsync. Locks of every kind work as at a broker that serves fairly. Any thread may call this, but no listener
 * of a lock: methods return when the listeners of all clients have.
 */
public final class TestBroker {
  private static final long PATIENCE_NS = 20 * Clock.SECOND;  // for threads of this process

  private final ReentrantLock turn = new ReentrantLock();  // guards all below; the mutex of an engine comes behind it
  private final Condition changed = turn.newCondition();
  private final ExecutorService threads = Engine.daemons();
  private final TestLocks locks = new TestLocks();
  private final List<Inside> engines = new ArrayList<>();  // that are not closed
  private final List<Call> calls = new ArrayList<>();  // that are not over
  private volatile long now = 1L << 50;
  private long wake;  // when the first engine has something to do
  private boolean pumping;
  private boolean stopped;
  private List<Runnable> missed;  // commands since freeze(); null: the broker goes on
  private RefusalReason refusing;
  private int callbacks;  // that have not returned

  /** A client of this broker. */
  public Distlock client() { return client(Distlock.builder()); }

  /** With a label, unreachableAfter, onDraining, or an executor, for which the broker does not wait. */
  public Distlock client(Distlock.Builder settings) { return settings.inside(this, this::callBack); }

  Engine engine(LeaseTable.Config config, Addresses addresses, Access access, ExecutorService threads) {
    return new Inside(config, addresses, access, threads);
  }

  /** Moves time on. Clients have noticed all that this ends, and have told it, when it returns. */
  public void advance(Duration time) {
    settle();
    for (long until = now + Durations.nanos(time); now < until; settle()) {
      change(() -> now = Math.min(until, Math.max(now + 1, Math.min(wake, locks.nextEnd(now)))));
    }
  }

  /** Takes the lock of the namespace "default" from all who hold it. cause: one that a broker tells. */
  public void lose(String key, LossCause cause) { lose("", key, cause); }

  /** The same in a namespace. */
  public void lose(String namespace, String key, LossCause cause) {
    LostReason reason = LostReason.valueOf("LOST_REASON_" + cause);
    change(() -> locks.lose(namespace, key, reason, now));
    settle();
  }

  /** Refuses each request from now on, for a reason of the contract such as STORE_UNAVAILABLE; null: no more. */
  public void refuse(String reason) {
    RefusalReason found = reason == null ? null : RefusalReason.valueOf("REFUSAL_REASON_" + reason);
    change(() -> refusing = found);
  }

  /** No broker is there any more: streams break, and requests find nobody, until start(). */
  public void stop() {
    change(() -> {
      stopped = true;
      List.copyOf(calls).forEach(call -> call.end(gone()));
    });
    settle();
  }

  /** After stop(). Clients come back when they try again: advance by 2 s. */
  public void start() { change(() -> stopped = false); }

  /** The broker stands still, and clients hear nothing until thaw(): their locks lapse after 3 s. */
  public void freeze() { change(() -> missed = new ArrayList<>()); }

  /** After freeze(): the broker goes on with what has come meanwhile. */
  public void thaw() {
    change(() -> {
      List<Runnable> late = missed == null ? List.of() : missed;
      missed = null;
      late.forEach(Runnable::run);
    });
    settle();
  }

  /** Waits until so many wait for the lock of the namespace "default", in other threads: advance then moves those. */
  public void awaitWaiting(String key, int count) {
    await(() -> locks.waitingFor("", key) >= count, count + " wait for \"" + key + "\"");
  }

  /** Waits until all listeners that are due have returned. */
  public void settle() {
    change(() -> { });
    await(() -> callbacks == 0, "all listeners have returned");
  }

  private void await(BooleanSupplier condition, String what) {
    turn.lock();
    try {
      for (long left = PATIENCE_NS; !condition.getAsBoolean(); left = changed.awaitNanos(left)) {
        if (left <= 0) throw new IllegalStateException("distlock: it did not come about within 20 s that " + what);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("distlock: interrupted before " + what, interrupted);
    } finally {
      turn.unlock();
    }
  }

  private void callBack(Runnable call) {
    count(1);
    threads.execute(() -> {
      try {
        call.run();
      } finally {
        count(-1);
      }
    });
  }

  private void count(int more) {
    turn.lock();
    try {
      callbacks += more;
      changed.signalAll();
    } finally {
      turn.unlock();
    }
  }

  /** Changes something, and brings what clients say to the broker, and its answers to them, until all are silent. */
  private void change(Runnable act) {
    turn.lock();
    try {
      act.run();
      if (pumping) return;  // further down on this thread's stack
      pumping = true;
      try {
        while (exchange()) { }
      } finally {
        pumping = false;
      }
      changed.signalAll();
    } finally {
      turn.unlock();
    }
  }

  /** False: nobody had anything to say. */
  private boolean exchange() {
    boolean[] said = {false};
    wake = LeaseTable.NEVER;
    for (Inside engine : List.copyOf(engines)) {
      boolean[] rests = {false};
      boolean open = engine.step(next -> {
        rests[0] = true;
        wake = Math.min(wake, next);
      });
      if (!open) engines.remove(engine);
      said[0] |= open && !rests[0];
    }
    if (missed != null) return said[0];
    locks.pass(now);
    for (Call call : List.copyOf(calls)) said[0] |= call.deliver();
    return said[0];
  }

  private static Denial gone() { return Denial.of(Denial.UNREACHABLE, "the test has stopped the broker"); }

  /** The inside of a client, without a thread of its own. */
  private final class Inside extends Engine {
    Inside(LeaseTable.Config config, Addresses addresses, Access access, ExecutorService threads) {
      super(config, addresses, access, threads);
    }

    @Override void start() { change(() -> engines.add(this)); }
    @Override long now() { return now; }
    @Override SessionStream stream(Link link) { return new Call(this, link); }

    @Override void turn(Consumer<LockTable> act) {
      super.turn(act);
      change(() -> { });
    }
  }

  /** A Session call. */
  private final class Call extends SessionStream {
    private final TestLocks.Session session = new TestLocks.Session(now);
    private final Inside engine;

    Call(Inside engine, Link link) {
      super(engine, link, "");
      this.engine = engine;
    }

    @Override void open() {
      change(() -> {
        if (stopped) finish(gone());
        else calls.add(this);
      });
    }

    @Override boolean takesMessages() { return calls.contains(this); }
    @Override void send(SessionRequest message) { change(() -> message.getCommandsList().forEach(this::take)); }
    @Override void cancel() { change(() -> { if (calls.remove(this)) locks.part(session, now); }); }

    private void take(SessionCommand command) {
      if (missed != null) missed.add(() -> obey(command));
      else obey(command);
    }

    private void obey(SessionCommand command) {
      if (!calls.contains(this)) return;
      long id = command.getId();
      switch (command.getCommandCase()) {
        case OPEN -> locks.open(session, id);
        case HEARTBEAT -> locks.beat(session, command.getHeartbeat().getSeq(), now);
        case ACQUIRE -> locks.acquire(session, id, command.getAcquire(), refusing, now);
        case CANCEL -> locks.cancel(session, command.getCancel().getAcquireId(), now);
        case RELEASE -> locks.release(session, id, command.getRelease(), now);
        case DOWNGRADE -> locks.downgrade(session, id, command.getDowngrade().getAcquireId());
        case ADOPT -> locks.adopt(session, id, command.getAdopt());
        case GOODBYE -> {
          locks.leave(session, now);
          end(null);
        }
        default -> { }
      }
    }

    /** Tells what is to be told, and ends. failure: null after a goodbye. */
    private void end(Denial failure) {
      deliver();
      cancel();
      finish(failure);
    }

    /** False: there is nothing to tell. */
    private boolean deliver() {
      if (session.outbox.isEmpty()) return false;
      SessionResponse response = SessionResponse.newBuilder().addAllEvents(session.outbox).build();
      session.outbox.clear();
      engine.onResponse(this, response);
      return true;
    }
  }
}
