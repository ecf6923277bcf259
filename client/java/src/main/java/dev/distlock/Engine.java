// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.lang.System.Logger.Level;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.*;

/**
 * The inside of a client: the lock table under one mutex, its streams, and a thread for deadlines, heartbeats,
 * reconnects and all that is sent. Each call of the program and each event of a stream is a turn of the table. The
 * effects of a turn run when the mutex is free again; what the program is told goes to its executor. Commands that
 * gather while a message is being written leave in the next one, together. Nothing here knows the program's handles, so
 * that these may be dropped.
 */
class Engine {
  static final System.Logger LOG = System.getLogger("dev.distlock");

  private static final long RECONNECT_INITIAL = 20 * Clock.MILLI;
  private static final long RECONNECT_MAX = 2 * Clock.SECOND;
  private static final long PAUSE_WHILE_MOVING = 200 * Clock.MILLI;  // leases wait, and their last promises run out
  private static final long CLOSE_PATIENCE = Clock.SECOND;
  private static final long LONGEST_SLEEP = Clock.SECOND;  // a timer stops in suspend, so the clock is read again

  final LockTable table;
  final ExecutorService threads;
  final Access access;
  private final Addresses addresses;
  private final ReentrantLock mutex = new ReentrantLock();
  private final Condition due = mutex.newCondition();
  private final List<SessionStream> streams = new ArrayList<>();  // whose end the table has not heard of
  private final List<Runnable> whenDrained = new ArrayList<>();
  private int present;  // the link that new streams are for
  private long reconnectAt;
  private long bound = RECONNECT_INITIAL;  // of the pause before the next reconnect

  Engine(LeaseTable.Config config, Addresses addresses, Access access, ExecutorService threads) {
    table = new LockTable(config);
    this.addresses = addresses;
    this.access = access;
    this.threads = threads;
  }

  void start() { threads.execute(this::work); }
  long now() { return Clock.SHARED.now(); }
  SessionStream stream(Link link) { return new SessionStream(this, link, addresses.present()); }

  /** Threads that come when they are needed, and keep no process alive. */
  static ExecutorService daemons() {
    return Executors.newCachedThreadPool(task -> {
      Thread thread = new Thread(task, "distlock");
      thread.setDaemon(true);
      return thread;
    });
  }

  /** A turn of the table. */
  void turn(Consumer<LockTable> act) {
    List<Runnable> effects;
    mutex.lock();
    try {
      table.at(now());
      act.accept(table);
      effects = takeEffects();
      due.signal();
    } finally {
      mutex.unlock();
    }
    run(effects);
  }

  /** Whether a lock is held at this moment. Only one whose deadline has passed needs a turn. */
  boolean holds(Lease lease) {
    if (lease.isHeld() && now() >= lease.deadline) turn(changed -> changed.notice(lease));
    return lease.isHeld();
  }

  /** Gives all back, and waits up to a second for the broker's answer. */
  void close() {
    List<SessionStream> open = new ArrayList<>();
    turn(changed -> {
      if (!changed.closed) changed.close();
      open.addAll(streams);
    });
    long patience = now() + CLOSE_PATIENCE;
    for (SessionStream stream : open) {
      // One that has not even answered the opening holds nothing.
      if (stream.link.opened) stream.awaitEnd(patience - now());
      stream.cancel();
    }
  }

  /** Told once, when nothing is held, waited for or on its way back, or the client is closed. */
  void onceDrained(Runnable told) { turn(changed -> whenDrained.add(told)); }

  private List<Runnable> takeEffects() {
    List<Runnable> taken = table.effects;
    table.effects = new ArrayList<>();
    if (table.isDrained() || table.closed) {
      taken.addAll(whenDrained);
      whenDrained.clear();
    }
    return taken;
  }

  private static void run(List<Runnable> effects) { effects.forEach(Engine::guard); }

  /** Keeps a failure in there from all that follows. */
  private static void guard(Runnable call) {
    try {
      call.run();
    } catch (Throwable broken) {
      LOG.log(Level.ERROR, "distlock: an executor or callback of the program failed", broken);
    }
  }

  /** An executor that loses no callback: other threads run those that the program's own does not take. */
  static Executor safe(Executor own, Executor others) {
    return call -> {
      try {
        own.execute(() -> guard(call));
      } catch (Throwable refused) {
        LOG.log(Level.ERROR, "distlock: the executor of the program takes nothing", refused);
        others.execute(() -> guard(call));
      }
    };
  }

  /** The engine's thread. */
  private void work() {
    while (step(this::rest)) { }
  }

  /** Does what is due; when nothing is, calls `idle` under the mutex. False: the client is closed. */
  boolean step(LongConsumer idle) {
    List<Runnable> todo;
    boolean goesOn;
    mutex.lock();
    try {
      table.at(now());
      proceed();
      todo = takeEffects();
      goesOn = !table.closed || !streams.isEmpty();
      if (todo.isEmpty() && goesOn) idle.accept(wantsStream() ? Math.min(table.wake(), reconnectAt) : table.wake());
    } finally {
      mutex.unlock();
    }
    run(todo);
    return goesOn;
  }

  /** Waits until something is due, or may be. */
  private void rest(long wake) {
    try {
      long pause = Math.min(wake, table.now + LONGEST_SLEEP) - now();
      if (pause > 0) due.awaitNanos(pause);
    } catch (InterruptedException goesOn) {  // this thread is the engine's until the client is closed
    }
  }

  /** Does what is due, and has the streams send what has gathered. */
  private void proceed() {
    for (SessionStream stream : List.copyOf(streams)) {
      if (!stream.link.lapsed(table.now)) continue;
      breakOff(stream, LossCause.LAPSED, stream.link.opened ? "the broker was not heard for the whole validity"
          : "no answer to OpenSession in time", null);
      table.effects.add(stream::cancel);
    }
    table.tick();
    if (table.present != present) {  // go on with the next broker, at once
      present = table.present;
      addresses.next();
      reconnectAt = 0;
    }
    if (wantsStream() && table.now >= reconnectAt) {
      SessionStream stream = stream(table.start());
      streams.add(stream);
      table.effects.add(stream::open);
    }
    for (SessionStream stream : streams) {
      if (!table.ready(stream.link) || !stream.takesMessages()) continue;
      SessionRequest message = stream.link.pack(table.now);
      table.effects.add(() -> stream.send(message));
    }
  }

  /** From the first request to the end. */
  private boolean wantsStream() { return table.nextId > 1 && !table.closed && !table.link().streaming; }

  /** Tells the table that a stream has ended, or must end. */
  private void breakOff(SessionStream stream, LossCause cause, String why, Denial failure) {
    if (!streams.remove(stream)) return;
    boolean isPresent = stream.link == table.link();
    table.onBroken(stream.link, cause, why, failure);
    if (isPresent) planReconnect(failure);
  }

  private void planReconnect(Denial failure) {
    reconnectAt = 0;
    boolean another = failure == null || failure.is(Denial.UNREACHABLE, "DRAINING");
    if (addresses.next() && another) return;
    long pause = ThreadLocalRandom.current().nextLong(bound);
    if (failure != null) pause += Math.min(Belief.span(failure.wire().getRetryAfter()), RECONNECT_MAX);
    bound = Math.min(2 * bound, RECONNECT_MAX);
    if (table.isMoving()) pause = Math.min(pause, PAUSE_WHILE_MOVING);
    reconnectAt = table.now + pause;
  }

  void wake() { turn(changed -> { }); }  // a stream takes messages again

  /** A turn for a stream, unless the table has heard of its end. */
  void turnOf(SessionStream stream, Consumer<LockTable> act) {
    turn(changed -> {
      if (streams.contains(stream)) act.accept(changed);
    });
  }

  void onResponse(SessionStream stream, SessionResponse response) {
    turnOf(stream, changed -> {
      response.getEventsList().forEach(event -> changed.onEvent(stream.link, event));
      if (stream.link == changed.link() && stream.link.session.acked()) {
        bound = RECONNECT_INITIAL;
        addresses.succeed();
      }
    });
  }

  void onEnd(SessionStream stream, Denial failure) {
    boolean givenUp = failure != null && failure.is("LEASE_LOST");
    turn(changed -> breakOff(stream, givenUp ? LossCause.LAPSED : LossCause.DISCONNECTED,
        "the stream to the broker ended" + (failure == null ? "" : ": " + failure.message()), failure));
  }
}
