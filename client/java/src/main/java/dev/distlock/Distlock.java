// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;

/**
 * A client of brokers. Thread-safe. Make one for a process, and close it at the end; one that nothing refers to any
 * more, nor to a lock of it, is closed by itself. The first request connects.
 */
public final class Distlock implements Locks {
  final Engine engine;
  final Executor executor;

  /** Settings of a client. */
  public static final class Builder {
    private String address = "";
    private String label = System.getProperty("sun.java.command", "java").split("\\s", 2)[0];
    private Duration unreachableAfter = Duration.ZERO;
    private Executor executor;
    private Consumer<Duration> onDraining = left -> { };
    private Tls tls;
    private String token;
    private Path tokenFile;
    private TestBroker broker;  // null: real ones

    private Builder() {}

    /**
     * Brokers of one store, separated by commas, each unix:///path, host:port or tls://host:port. One is used, in a
     * random order; when it cannot be reached or goes down, the next one. Without it DISTLOCK_SERVER, else the local
     * socket, else 127.0.0.1:7420.
     */
    public Builder address(String brokers) { address = brokers; return this; }

    /** Names the program in lists of sessions: up to 256 bytes. */
    public Builder label(String text) { label = text; return this; }

    /** How long a request looks for a broker. Without it one try 1 s, a wait with an end all of it, others 10 s. */
    public Builder unreachableAfter(Duration duration) { unreachableAfter = duration; return this; }

    /** Runs listeners and completes futures, not on the thread that calls it. Without it the client's own threads. */
    public Builder executor(Executor own) { executor = own; return this; }

    /** Told when the broker goes down and locks cannot move to another one: how long they are held at most. */
    public Builder onDraining(Consumer<Duration> listener) { onDraining = listener; return this; }

    /** Without it the files that DISTLOCK_TLS_CA, _CERT and _KEY name. */
    public Builder tls(Tls files) { tls = files; return this; }

    /** The bearer token. Without it that of `tokenFile`, else of the file that DISTLOCK_TOKEN_FILE names. */
    public Builder token(String text) { token = text; return this; }

    /** A file with the token alone, which is read again with each heartbeat. */
    public Builder tokenFile(Path path) { tokenFile = path; return this; }

    /** Throws IllegalArgumentException for an address or a file that can never work. */
    public Distlock build() { return new Distlock(this); }

    Distlock inside(TestBroker test, Executor callbacks) {
      broker = test;
      if (executor == null) executor = callbacks;
      return build();
    }
  }

  private Distlock(Builder from) {
    boolean tests = from.broker != null;
    String named = tests ? "a.test:1" : from.address.isEmpty() ? Addresses.fromEnvironment() : from.address;
    Addresses addresses = Addresses.parse(named);
    Access access = Access.of(from.tls, from.token, from.tokenFile);
    if (!tests) access.check(addresses.all());
    ExecutorService threads = Engine.daemons();
    Executor told = Engine.safe(from.executor == null ? threads : from.executor, threads);
    LeaseTable.Config config = new LeaseTable.Config(named, addresses.all().size(),
        from.label.substring(0, Math.min(from.label.length(), 64)), Durations.nanos(from.unreachableAfter),
        left -> told.execute(() -> from.onDraining.accept(Duration.ofNanos(left))));
    Engine made = tests ? from.broker.engine(config, addresses, access, threads)
        : new Engine(config, addresses, access, threads);
    executor = told;
    LiveLock.CLEANER.register(this, () -> threads.execute(made::close));
    engine = made;
    engine.start();
  }

  /** A client of the brokers of this machine's settings. */
  public static Distlock connect() { return builder().build(); }
  public static Builder builder() { return new Builder(); }

  @Override public List<HeldLock> lockAll(List<NamedLock> locks, Duration wait) throws InterruptedException {
    // Completed by a thread of the package, so that a program that has used up its executor is not stuck.
    CompletableFuture<List<HeldLock>> answer = ask(locks, wait, Runnable::run);
    try {
      return answer.get();
    } catch (InterruptedException interrupted) {
      if (!answer.cancel(false)) answer.thenAccept(held -> held.forEach(HeldLock::close));
      throw interrupted;
    } catch (ExecutionException failed) {
      DistlockException refused = (DistlockException) failed.getCause();
      refused.setStackTrace(new Throwable().getStackTrace());  // of the caller
      throw refused;
    }
  }

  @Override public CompletableFuture<List<HeldLock>> lockAllAsync(List<NamedLock> locks, Duration wait) {
    return ask(locks, wait, executor);
  }

  private CompletableFuture<List<HeldLock>> ask(List<NamedLock> locks, Duration wait, Executor answers) {
    if (locks.isEmpty()) throw new IllegalArgumentException("distlock: name at least one lock");
    if (wait.isNegative()) throw new IllegalArgumentException("distlock: a wait is not negative");
    long nanos = wait.equals(FOREVER) ? LockTable.FOREVER : Durations.nanos(wait);
    IntConsumer onQueued = locks.get(0).onQueued;
    CompletableFuture<List<HeldLock>> future = new CompletableFuture<>();
    Request[] request = new Request[1];
    List<LiveLock.Holding> holdings = new ArrayList<>();
    engine.turn(table -> {
      request[0] = table.acquire(locks.stream().map(lock -> Owner.named(lock.spec)).toList(), nanos,
          denial -> answers.execute(() -> answer(future, denial, holdings)),
          onQueued == null ? null : queued -> executor.execute(() -> onQueued.accept(queued.getPosition())));
      request[0].leases.forEach(lease -> holdings.add(new LiveLock.Holding(engine, lease, executor)));
    });
    future.whenComplete((held, error) -> {  // also when the program has cancelled it, or has set a timeout
      if (error != null) engine.turn(table -> table.cancel(request[0]));
    });
    return future;
  }

  private void answer(CompletableFuture<List<HeldLock>> future, Denial denial, List<LiveLock.Holding> holdings) {
    if (denial != null) {
      future.completeExceptionally(LockRefusedException.of(denial));
    } else if (!future.isDone()) {
      future.complete(holdings.stream().<HeldLock>map(holding -> new LiveLock(this, holding)).toList());
    }
  }

  @Override public Stats stats() {
    Stats[] counted = new Stats[1];
    engine.turn(table -> {
      long held = table.leases().stream().filter(Lease::isHeld).count();
      long risky = table.leases().stream().filter(table::isAtRisk).count();
      counted[0] = new Stats((int) held, table.leases().size() - (int) held, (int) risky);
    });
    return counted[0];
  }

  @Override public CompletableFuture<Void> drained() {
    CompletableFuture<Void> future = new CompletableFuture<>();
    engine.onceDrained(() -> future.completeAsync(() -> null, executor));
    return future;
  }

  /** Gives all back, and waits at most a second for the broker's answer. */
  @Override public void close() { engine.close(); }
}
