// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The connection to a broker. */
final class Broker {
  static final long PATIENCE_S = 10;

  private Broker() {}

  static ManagedChannel connect(String address) {
    return Grpc.newChannelBuilder(address, InsecureChannelCredentials.create())
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .disableRetry()
        .proxyDetector(target -> null)  // http_proxy is meant for the web
        .build();
  }

  /** Waits until calls leave at once: a Hold that waits for a connection would wait out part of its promise. */
  static void awaitReady(ManagedChannel channel) throws InterruptedException {
    for (ConnectivityState state; (state = channel.getState(true)) != ConnectivityState.READY; ) {
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      if (changed.await(PATIENCE_S, TimeUnit.SECONDS)) continue;
      throw Status.UNAVAILABLE.withDescription("no broker within " + PATIENCE_S + " s").asRuntimeException();
    }
  }
}
