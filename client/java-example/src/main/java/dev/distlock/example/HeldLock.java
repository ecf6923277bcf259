// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import com.google.protobuf.Duration;
import dev.distlock.v1.Grant;
import dev.distlock.v1.HoldRequest;
import dev.distlock.v1.HoldResponse;
import dev.distlock.v1.LockServiceGrpc;
import dev.distlock.v1.LockSpec;
import dev.distlock.v1.ReleaseRequest;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * One lock on one Hold stream, by "Belief" and "Hold" of proto/distlock/v1/session.md. It is lost when the broker says
 * so, when its stream ends, or when its deadline passes by this process's clock. Thread-safe.
 */
final class HeldLock implements AutoCloseable, ClientResponseObserver<HoldRequest, HoldResponse> {
  private static final long PATIENCE_S = 10;

  /** Completes with the reason when the lock is lost; never after close(). */
  final CompletableFuture<String> lost = new CompletableFuture<>();

  private final ManagedChannel channel;
  private final CompletableFuture<Boolean> answer = new CompletableFuture<>();  // false: ask again
  private ClientCallStreamObserver<HoldRequest> call;
  private Grant grant;  // guarded by this, as all below
  private boolean held;
  private long grantedAt;  // an estimate; never too late by more than the shortest delay of a message
  private long deadline;

  private HeldLock(ManagedChannel channel) {
    this.channel = channel;
  }

  /** Waits as spec.max_wait says. Throws StatusRuntimeException when the lock is refused; see Refusals. */
  static HeldLock take(ManagedChannel channel, LockSpec spec) throws InterruptedException {
    boolean bounded = spec.hasMaxWait() && nanos(spec.getMaxWait()) > 0;
    long until = bounded ? Clock.now() + nanos(spec.getMaxWait()) : 0;
    while (true) {
      awaitReady(channel);
      HeldLock lock = new HeldLock(channel);
      lock.grantedAt = Clock.now();  // before the call
      LockServiceGrpc.newStub(channel).hold(HoldRequest.newBuilder().setLock(spec).build(), lock);
      try {
        if (lock.answer.get()) return lock;
      } catch (ExecutionException refused) {
        throw (StatusRuntimeException) refused.getCause();
      } catch (InterruptedException stopped) {
        lock.close();
        throw stopped;
      }
      if (bounded) spec = spec.toBuilder().setMaxWait(duration(Math.max(until - Clock.now(), 1_000_000))).build();
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
    ReleaseRequest request;
    synchronized (this) {
      held = false;
      request = grant == null ? null : ReleaseRequest.newBuilder().setLeaseId(grant.getLeaseId()).build();
    }
    try {
      if (request != null) {
        LockServiceGrpc.newBlockingStub(channel).withDeadlineAfter(PATIENCE_S, TimeUnit.SECONDS).release(request);
      }
    } catch (StatusRuntimeException unknown) {  // the end of the stream frees it, or the ttl
    } finally {
      call.cancel("given back", null);
    }
  }

  @Override
  public void beforeStart(ClientCallStreamObserver<HoldRequest> stream) {
    call = stream;
  }

  @Override
  public synchronized void onNext(HoldResponse message) {
    switch (message.getEventCase()) {
      case GRANTED -> onGranted(message.getGranted());
      case RENEWED -> extend(message.getRenewed().getSinceGranted(), message.getRenewed().getValidFor());
      case AT_RISK -> extend(message.getAtRisk().getSinceGranted(), message.getAtRisk().getValidFor());
      case LOST -> lose(message.getLost().getReason().name());
      default -> { }  // queued, draining, released, and what a newer contract adds
    }
  }

  private void onGranted(Grant given) {
    grant = given;
    grantedAt += nanos(given.getWaited());
    deadline = deadlineOf(given.getSinceGranted(), given.getValidFor());
    held = deadline - Clock.now() >= nanos(given.getValidFor()) / 4 * 3;
    answer.complete(held);
    if (held) {
      watch();
    } else {  // the call was under way for too long to know when the grant was
      CompletableFuture.runAsync(this::close);
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

  private void lose(String reason) {
    if (!held) return;
    held = false;
    lost.completeAsync(() -> reason);  // what waits for it does not run under our monitor
    CompletableFuture.runAsync(this::close);
  }

  @Override
  public synchronized void onError(Throwable error) {
    answer.completeExceptionally(error);
    lose(Refusals.reasonOf(error));
  }

  @Override
  public synchronized void onCompleted() {
    answer.completeExceptionally(Status.UNAVAILABLE.withDescription("the stream ended").asRuntimeException());
    lose("RELEASED");
  }

  private static void awaitReady(ManagedChannel channel) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
    ConnectivityState state;
    while ((state = channel.getState(true)) != ConnectivityState.READY) {
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      if (!changed.await(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        throw Status.UNAVAILABLE.withDescription("no broker within " + PATIENCE_S + " s").asRuntimeException();
      }
    }
  }

  private static long nanos(Duration duration) {
    return duration.getSeconds() * 1_000_000_000L + duration.getNanos();
  }

  private static Duration duration(long nanos) {
    return Duration.newBuilder().setSeconds(nanos / 1_000_000_000L).setNanos((int) (nanos % 1_000_000_000L)).build();
  }
}
