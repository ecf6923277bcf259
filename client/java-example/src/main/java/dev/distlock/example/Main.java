// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import com.google.protobuf.Duration;
import dev.distlock.v1.LockSpec;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Holds a lock until its input ends: java -jar target/example.jar HOST:PORT KEY [WAIT_SECONDS]. Exit codes: 0 given
 * back, 1 refused, 75 lost.
 */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    ManagedChannel channel = Broker.connect(args[0]);
    int code = hold(channel, args);
    channel.shutdown().awaitTermination(10, TimeUnit.SECONDS);
    System.exit(code);
  }

  private static int hold(ManagedChannel channel, String[] args) throws Exception {
    LockSpec.Builder spec = LockSpec.newBuilder().setKey(args[1]).setOwner("java-example");
    if (args.length > 2) spec.setMaxWait(Duration.newBuilder().setSeconds(Long.parseLong(args[2])));
    try (HeldLock lock = HeldLock.take(channel, spec.build())) {
      System.out.println("held " + lock.token());  // to be passed to what the lock protects
      CompletableFuture<Object> over = CompletableFuture.anyOf(lock.lost, CompletableFuture.runAsync(Main::readInput));
      over.join();
      if (!lock.isHeld()) {
        System.out.println("lost " + lock.lost.join());
        return 75;
      }
    } catch (StatusRuntimeException refused) {
      System.out.println("refused " + Refusals.reasonOf(refused) + ": " + refused.getStatus().getDescription());
      return 1;
    }
    System.out.println("given back");
    return 0;
  }

  private static void readInput() {
    try {
      while (System.in.read() >= 0) { }
    } catch (IOException ended) {  // as its end
    }
  }
}
