// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import dev.distlock.v1.*;
import io.grpc.*;
import java.util.Iterator;
import java.util.concurrent.*;

/** One lock on one Hold stream. Lost when the broker says so, its stream ends or its deadline passes. Thread-safe. */
final class HeldLock implements AutoCloseable {
  /** Completes with the reason when the lock is lost; never after close(). */
  final CompletableFuture<String> lost = new CompletableFuture<>();

  private final LockServiceGrpc.LockServiceBlockingStub broker;
  private final Context.CancellableContext call = Context.ROOT.withCancellation();
  private final Belief belief = new Belief();  // guarded by this
  private Iterator<HoldResponse> messages;
  private Grant grant;
  private boolean over;

  /** Waits as spec.max_wait says. Throws StatusRuntimeException when the lock is refused; see Refusals. */
  static HeldLock take(ManagedChannel channel, LockSpec spec) throws InterruptedException {
    for (long asked = Clock.now(); ; spec = Belief.withTheRestOfItsWait(spec, asked)) {
      Broker.awaitReady(channel);
      HeldLock lock = new HeldLock(channel, spec);
      if (lock.belief.left() >= Belief.nanos(lock.grant.getValidFor()) / 4 * 3) return lock.follow();
      lock.close();  // the call was under way for too long to know when the grant was
    }
  }

  private HeldLock(ManagedChannel channel, LockSpec spec) {
    broker = LockServiceGrpc.newBlockingStub(channel);
    call.run(() -> messages = broker.hold(HoldRequest.newBuilder().setLock(spec).build()));
    while (grant == null && messages.hasNext()) hear(messages.next());
    if (grant == null) throw Status.UNAVAILABLE.withDescription("the stream ended").asRuntimeException();
  }

  private HeldLock follow() {
    Thread reader = new Thread(this::read, "distlock-hold");
    reader.setDaemon(true);
    reader.start();
    watch();
    return this;
  }

  long token() {
    return grant.getFencingToken();
  }

  /** By the clock, at this moment: look before you act. */
  synchronized boolean isHeld() {
    if (!over && !belief.holds()) lose("LAPSED");
    return !over;
  }

  /** Gives the lock back and waits for the broker. A cancel alone would keep the next holder waiting for up to 3 s. */
  @Override
  public void close() {
    synchronized (this) {
      over = true;
    }
    try {
      ReleaseRequest request = ReleaseRequest.newBuilder().setLeaseId(grant.getLeaseId()).build();
      broker.withDeadlineAfter(Broker.PATIENCE_S, TimeUnit.SECONDS).release(request);
    } catch (StatusRuntimeException unknown) {  // the end of the stream frees it, or the ttl
    } finally {
      call.cancel(null);
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
      case GRANTED -> belief.grant(grant = message.getGranted());
      case RENEWED -> belief.extend(message.getRenewed().getSinceGranted(), message.getRenewed().getValidFor());
      case AT_RISK -> belief.extend(message.getAtRisk().getSinceGranted(), message.getAtRisk().getValidFor());
      case LOST -> lose(message.getLost().getReason().name());
      default -> { }  // queued, draining, released, and what a newer contract adds
    }
  }

  private synchronized void watch() {
    if (isHeld()) CompletableFuture.delayedExecutor(belief.left(), TimeUnit.NANOSECONDS).execute(this::watch);
  }

  private synchronized void lose(String reason) {
    if (over) return;
    over = true;
    lost.completeAsync(() -> reason);  // what waits for it does not run under our monitor
    CompletableFuture.runAsync(this::close);
  }
}
