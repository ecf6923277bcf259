// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.AdminServiceGrpc;
import dev.distlock.v1.ForceReleaseRequest;
import dev.distlock.v1.GetLockRequest;
import dev.distlock.v1.LockInfo;
import dev.distlock.v1.LockServiceGrpc;
import io.grpc.ManagedChannel;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Stream;

/** A distlockd (DISTLOCKD) at a redis-server of its own, both on unix sockets in a folder of their own. */
final class Broker implements AutoCloseable {
  private final Path folder = Files.createTempDirectory("dlj");
  private final List<String> options;
  private final Process store;
  private final ManagedChannel channel;
  private Process daemon;

  Broker(String... options) throws IOException {
    this(folder -> List.of(options));
  }

  /** The options may name what is put into the folder. */
  Broker(Function<Path, List<String>> prepare) throws IOException {
    options = prepare.apply(folder);
    store = new ProcessBuilder("redis-server", "--port", "0", "--unixsocket", folder + "/redis.sock", "--save", "",
        "--dir", folder.toString()).redirectOutput(new File("/dev/null")).start();
    start();
    channel = Access.of(null, null, null).open(address());
  }

  String address() {
    return "unix://" + folder + "/broker.sock";
  }

  void start() throws IOException {
    List<String> command = new ArrayList<>(List.of(System.getenv("DISTLOCKD"), "--redis",
        "unix://" + folder + "/redis.sock", "--wait-for-store", "--listen", address(), "--http", ""));
    command.addAll(options);
    daemon = new ProcessBuilder(command).start();
    BufferedReader log = daemon.errorReader();
    for (String line; (line = log.readLine()) != null; ) {
      if (!line.contains("distlockd ready")) continue;
      Thread reader = new Thread(() -> log.lines().forEach(more -> { }));  // a pipe that fills would stop it
      reader.setDaemon(true);
      reader.start();
      return;
    }
    throw new IllegalStateException("distlockd did not start");
  }

  void kill() throws InterruptedException {
    daemon.destroyForcibly().waitFor();
  }

  void signal(String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(daemon.pid())).start().waitFor();
  }

  LockInfo look(String key) {
    return LockServiceGrpc.newBlockingStub(channel).withWaitForReady().withDeadlineAfter(30, TimeUnit.SECONDS)
        .getLock(GetLockRequest.newBuilder().setKey(key).build()).getLock();
  }

  void force(String key) {
    AdminServiceGrpc.newBlockingStub(channel).withWaitForReady().withDeadlineAfter(30, TimeUnit.SECONDS)
        .forceRelease(ForceReleaseRequest.newBuilder().setKey(key).setReason("the test").build());
  }

  @Override
  public void close() throws IOException {
    channel.shutdownNow();
    daemon.destroyForcibly();
    store.destroyForcibly();
    try (Stream<Path> left = Files.walk(folder)) {
      left.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    }
  }
}
