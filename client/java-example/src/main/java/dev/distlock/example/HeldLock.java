// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import com.google.protobuf.Duration;
import dev.distlock.v1.*;
import io.grpc.*;
import java.util.Iterator;
import java.util.concurrent.*;

/**
 * One lock on one Hold stream, by "Belief" and "Hold" of proto/distlock/v1/session.md. It is lost when the broker says
 * so, when its stream ends, or when its deadline passes by this process's clock. Thread-safe.
 */
final class HeldLock implements AutoCloseable {
  private static final long PATIENCE_S = 10;

  /** Completes with the reason when the lock is lost; never after close(). */
  final CompletableFuture<String> lost = new CompletableFuture<>();

  private final ManagedChannel channel;
  private final Context.CancellableContext call = Context.ROOT.withCancellation();
  private Iterator<HoldResponse> messages;
  private Grant grant;  // guarded by this, as all below
  private boolean held;
  private long grantedAt;  // an estimate; never too late by more than the shortest delay of a message
  private long deadline;

  private HeldLock(ManagedChannel channel) {
    this.channel = channel;
  }

  /** Waits as spec.max_wait says. Throws StatusRuntimeException when the lock is refused; see Refusals. */
  static HeldLock take(ManagedChannel channel, LockSpec spec) throws InterruptedException {
    long until = Clock.now() + nanos(spec.getMaxWait());
    while (true) {
      awaitReady(channel);
      HeldLock lock = new HeldLock(channel);
      lock.ask(HoldRequest.newBuilder().setLock(spec).build());
      if (lock.deadline - Clock.now() >= nanos(lock.grant.getValidFor()) / 4 * 3) {
        Thread reader = new Thread(lock::read, "distlock-hold");
        reader.setDaemon(true);
        reader.start();
        lock.watch();
        return lock;
      }
      lock.close();  // the call was under way for too long to know when the grant was
      if (nanos(spec.getMaxWait()) == 0) continue;  // no bound, or one try
      long left = Math.max(until - Clock.now(), 1_000_000);
      Duration.Builder wait = Duration.newBuilder().setSeconds(left / 1_000_000_000);
      spec = spec.toBuilder().setMaxWait(wait.setNanos((int) (left % 1_000_000_000))).build();
    }
  }

  synchronized long token() {
    return grant.getFencingToken();
  }

  /** By the clock, at this moment: look before you act. */
  synchronized boolean isHeld() {
    if (held && Clock.now() >= deadline) lose("LAPSED");
    return held;
  }

  /** Gives the lock back and waits for the broker. A cancel alone would keep the next holder waiting for up to 3 s. */
  @Override
  public void close() {
    synchronized (this) {
      held = false;
    }
    ReleaseRequest request = ReleaseRequest.newBuilder().setLeaseId(grant.getLeaseId()).build();
    try {
      LockServiceGrpc.newBlockingStub(channel).withDeadlineAfter(PATIENCE_S, TimeUnit.SECONDS).release(request);
    } catch (StatusRuntimeException unknown) {  // the end of the stream frees it, or the ttl
    } finally {
      call.cancel(null);
    }
  }

  private void ask(HoldRequest request) {
    grantedAt = Clock.now();  // before the call
    call.run(() -> messages = LockServiceGrpc.newBlockingStub(channel).hold(request));
    while (grant == null) {
      if (!messages.hasNext()) throw Status.UNAVAILABLE.withDescription("the stream ended").asRuntimeException();
      hear(messages.next());
    }
  }

  private void read() {
    String why = "RELEASED";
    try {
      while (messages.hasNext()) hear(messages.next());
    } catch (StatusRuntimeException ended) {
      why = Refusals.reasonOf(ended);
    }
    lose(why);
  }

  private synchronized void hear(HoldResponse message) {
    switch (message.getEventCase()) {
      case GRANTED -> {
        grant = message.getGranted();
        grantedAt += nanos(grant.getWaited());
        deadline = deadlineOf(grant.getSinceGranted(), grant.getValidFor());
        held = true;
      }
      case RENEWED -> extend(message.getRenewed().getSinceGranted(), message.getRenewed().getValidFor());
      case AT_RISK -> extend(message.getAtRisk().getSinceGranted(), message.getAtRisk().getValidFor());
      case LOST -> lose(message.getLost().getReason().name());
      default -> { }  // queued, draining, released, and what a newer contract adds
    }
  }

  private void extend(Duration sinceGranted, Duration validFor) {
    long extended = deadlineOf(sinceGranted, validFor);
    if (isHeld()) deadline = extended;  // a deadline that passed is final
  }

  private long deadlineOf(Duration sinceGranted, Duration validFor) {
    grantedAt = Math.min(grantedAt, Clock.now() - nanos(sinceGranted));
    return grantedAt + nanos(sinceGranted) + nanos(validFor);
  }

  private synchronized void watch() {
    if (isHeld()) CompletableFuture.delayedExecutor(deadline - Clock.now(), TimeUnit.NANOSECONDS).execute(this::watch);
  }

  private synchronized void lose(String reason) {
    if (!held) return;
    held = false;
    lost.completeAsync(() -> reason);  // what waits for it does not run under our monitor
    CompletableFuture.runAsync(this::close);
  }

  private static void awaitReady(ManagedChannel channel) throws InterruptedException {
    for (ConnectivityState state; (state = channel.getState(true)) != ConnectivityState.READY; ) {
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      if (changed.await(PATIENCE_S, TimeUnit.SECONDS)) continue;
      throw Status.UNAVAILABLE.withDescription("no broker within " + PATIENCE_S + " s").asRuntimeException();
    }
  }

  private static long nanos(Duration duration) {
    return duration.getSeconds() * 1_000_000_000L + duration.getNanos();
  }
}
