// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import io.grpc.*;
import io.grpc.stub.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicBoolean;

/** One Session call, on a connection of its own. It never half-closes, which would count as a break. */
class SessionStream implements ClientResponseObserver<SessionRequest, SessionResponse> {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  final Link link;
  private final Engine engine;
  private final String address;
  private final CountDownLatch ended = new CountDownLatch(1);
  private final AtomicBoolean looking = new AtomicBoolean();  // whether the token has changed
  private ClientCallStreamObserver<SessionRequest> starting;
  private volatile ClientCallStreamObserver<SessionRequest> call;  // once it has been started
  private ManagedChannel channel;
  private boolean cancelled;
  private boolean heard;  // from the broker; only gRPC's callbacks, one after another, use this
  private String shown = "";  // the authorization that the broker was shown last

  SessionStream(Engine engine, Link link, String address) {
    this.engine = engine;
    this.link = link;
    this.address = address;
  }

  void open() { engine.threads.execute(this::connect); }

  /** Reads files, which may be slow. */
  private void connect() {
    try {
      start(engine.access.open(address), engine.access.authorization(address));
    } catch (RuntimeException unusable) {  // a file that was good when the client was made
      finish(Denial.of(Denial.UNREACHABLE, String.valueOf(unusable.getMessage())));
    }
  }

  private synchronized void start(ManagedChannel made, String authorization) {
    channel = made;
    if (cancelled) {
      finish(null);
      return;
    }
    Metadata headers = new Metadata();
    if (!authorization.isEmpty()) headers.put(AUTHORIZATION, authorization);
    shown = authorization;
    LockServiceGrpc.newStub(channel).withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers)).session(this);
    call = starting;
    engine.wake();
  }

  boolean takesMessages() { return call != null && call.isReady(); }

  /** Only the engine's thread sends. */
  void send(SessionRequest message) {
    call.onNext(message);
    boolean beats = message.getCommandsCount() > 0 && message.getCommands(0).hasHeartbeat();
    if (link.authenticates && beats && looking.compareAndSet(false, true)) engine.threads.execute(this::showAnew);
  }

  /** Brings a token that has changed to the session. The file may be slow to read: no heartbeat waits for it. */
  private void showAnew() {
    String authorization = engine.access.authorization(address);
    engine.turnOf(this, table -> {
      if (authorization.isEmpty() || authorization.equals(shown) && !link.proofRefused) return;
      shown = authorization;
      table.authenticate(link, authorization);
    });
    looking.set(false);
  }

  /** Ends the call in both directions. */
  synchronized void cancel() {
    cancelled = true;
    if (call != null) call.cancel("the session is over", null);
    if (channel != null) channel.shutdownNow();
  }

  void awaitEnd(long nanos) {
    try {
      ended.await(nanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException closingGoesOn) {
      Thread.currentThread().interrupt();
    }
  }

  void finish(Denial failure) {
    engine.onEnd(this, failure);
    ended.countDown();
    cancel();
  }

  @Override public void beforeStart(ClientCallStreamObserver<SessionRequest> stream) {
    stream.setOnReadyHandler(engine::wake);
    starting = stream;
  }

  @Override public void onNext(SessionResponse response) {
    heard = true;
    engine.onResponse(this, response);
  }

  @Override public void onError(Throwable error) { finish(Denial.of(error, heard ? "" : address)); }
  @Override public void onCompleted() { finish(null); }
}
