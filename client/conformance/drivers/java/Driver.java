// SPDX-License-Identifier: Apache-2.0
//
// The Java package, as client/conformance drives it. Commands come as JSON lines on stdin; what the package says goes
// out as JSON lines on stdout. client/conformance/README.md lists both.
import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;
import dev.distlock.ClientClosedException;
import dev.distlock.Distlock;
import dev.distlock.HeldLock;
import dev.distlock.LockLostException;
import dev.distlock.LockRefusedException;
import dev.distlock.Locks;
import dev.distlock.NamedLock;
import dev.distlock.v1.LockServiceGrpc;
import dev.distlock.v1.SessionCommand;
import dev.distlock.v1.SessionEvent;
import dev.distlock.v1.SessionRequest;
import dev.distlock.v1.SessionResponse;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

public final class Driver {
  private static final Gson GSON = new Gson();
  private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private static final long BOOT_APART = Long.parseLong(System.getenv().getOrDefault("DISTLOCK_BOOT_APART_NS", "0"));

  /** One line of stdin. */
  private static final class Command {
    @SerializedName("do") String verb;
    String lock;
    String key;
    List<String> keys;
    String address;
    Long unreachable_ms;
    String mode = "EXCLUSIVE";
    int limit;
    int permits = 1;
    Long wait_ms;
    Long ttl_ms;
    Long max_hold_ms;
    Long lock_delay_ms;
    Long min_hold_ms;
    String on_disconnect;
    String owner = "";
    boolean reentrant;
    boolean resume;
  }

  /** One lock of the case, from its request on. */
  private static final class Entry {
    final String name;
    volatile CompletableFuture<?> asked;
    volatile HeldLock held;

    Entry(String name) {
      this.name = name;
    }
  }

  private Distlock client;
  private String address;
  private final Map<String, Entry> entries = new HashMap<>();

  private static long bootNow() {
    return System.nanoTime() + BOOT_APART;
  }

  /** Writes one line, whole and at once. */
  private static void say(String event, Object... more) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("event", event);
    line.put("at", bootNow());
    for (int i = 0; i < more.length; i += 2) line.put((String) more[i], more[i + 1]);
    synchronized (OUT) {
      OUT.println(GSON.toJson(line));
      OUT.flush();
    }
  }

  /** The deadline, or a few microseconds less. */
  private static long untilOf(HeldLock held) {
    long now = bootNow();
    return now + held.validFor().toNanos();
  }

  private static void granted(Entry entry, HeldLock held) {
    entry.held = held;
    say("granted", "lock", entry.name, "token", held.token(), "hold_count", held.holdCount(), "until", untilOf(held));
    held.onLoss(lost -> say("lost", "lock", entry.name, "cause", lost.lossCause(), "message", lost.getMessage()));
  }

  private static void refused(Entry entry, Throwable error) {
    Throwable why = error instanceof CompletionException ? error.getCause() : error;
    List<String> holders = new ArrayList<>();
    if (why instanceof LockRefusedException) {
      ((LockRefusedException) why).holders().forEach(holder -> holders.add(holder.owner()));
    }
    say("refused", "lock", entry.name, "reason", reasonOf(why), "message", String.valueOf(why.getMessage()),
        "holders", holders);
  }

  private static String reasonOf(Throwable why) {
    if (why instanceof LockRefusedException) return ((LockRefusedException) why).reason();
    if (why instanceof ClientClosedException) return "CLIENT_CLOSED";
    return why instanceof CancellationException ? "CANCELLED" : why.toString();
  }

  private Entry add(String name) {
    if (entries.containsKey(name)) throw new IllegalStateException(name + " is in use");
    Entry entry = new Entry(name);
    entries.put(name, entry);
    return entry;
  }

  private static Duration waitOf(Command line) {
    return line.wait_ms == null ? Locks.FOREVER : Duration.ofMillis(line.wait_ms);
  }

  private NamedLock lockOf(Command line, String key) {
    NamedLock lock = switch (line.mode) {
      case "SHARED" -> client.readWrite(key).read();
      case "PERMIT" -> client.semaphore(key, line.limit, Math.max(line.permits, 1));
      default -> client.mutex(key);
    };
    lock = line.reentrant ? lock.reentrant(line.owner) : lock.owner(line.owner);
    if (line.ttl_ms != null) lock = lock.ttl(Duration.ofMillis(line.ttl_ms));
    if (line.max_hold_ms != null) lock = lock.maxHold(Duration.ofMillis(line.max_hold_ms));
    if (line.lock_delay_ms != null) lock = lock.lockDelay(Duration.ofMillis(line.lock_delay_ms));
    if (line.min_hold_ms != null) lock = lock.minHold(Duration.ofMillis(line.min_hold_ms));
    if (line.on_disconnect != null) lock = lock.onDisconnect(NamedLock.OnDisconnect.valueOf(line.on_disconnect));
    return line.resume ? lock.resume() : lock;
  }

  private void acquire(Command line) {
    Entry entry = add(line.lock);
    CompletableFuture<HeldLock> asked = lockOf(line, line.key)
        .onQueued(position -> say("queued", "lock", entry.name, "position", position)).lockAsync(waitOf(line));
    entry.asked = asked;
    asked.whenComplete((held, error) -> {
      if (error == null) granted(entry, held);
      else refused(entry, error);
    });
  }

  /** Asks for several: lock i of the request is called NAME.i. */
  private void acquireAll(Command line) {
    List<Entry> parts = new ArrayList<>();
    List<NamedLock> locks = new ArrayList<>();
    for (String key : line.keys) {
      parts.add(add(line.lock + "." + parts.size()));
      locks.add(lockOf(line, key));
    }
    CompletableFuture<List<HeldLock>> asked = client.lockAllAsync(locks, waitOf(line));
    parts.forEach(part -> part.asked = asked);
    asked.whenComplete((held, error) -> {
      for (int i = 0; i < parts.size(); i++) {
        if (error == null) granted(parts.get(i), held.get(i));
        else refused(parts.get(i), error);
      }
    });
  }

  private static void release(Entry entry) {
    long since = bootNow();
    entry.held.release()
        .thenAccept(outcome -> say("released", "lock", entry.name, "outcome", outcome, "since", since));
  }

  private static void downgrade(Entry entry) {
    entry.held.downgrade().whenComplete((done, error) -> {
      if (error == null) say("downgraded", "lock", entry.name);
      else say("not_downgraded", "lock", entry.name, "reason", reasonOf(error));
    });
  }

  private static void state(Entry entry) {
    long at = bootNow();  // before the question: so long at least the answer is true
    HeldLock held = entry.held;
    boolean isHeld = held.isHeld();
    String cause = held.loss().map(LockLostException::lossCause).map(Enum::name).orElse("");
    String state = isHeld ? held.isAtRisk() ? "AT_RISK" : "HELD" : cause.isEmpty() ? "RELEASED" : "LOST";
    say("state", "lock", entry.name, "at", at, "state", state, "cause", cause, "token", held.token(),
        "until", isHeld ? untilOf(held) : 0);
  }

  /** The program of a worker: it takes locks, tells, and waits to be killed. */
  private static void work(String brokers, List<String> keys) throws Exception {
    List<String> taken = new ArrayList<>();
    List<HeldLock> kept = new ArrayList<>();
    Distlock client = Distlock.builder().address(brokers).label("worker").build();
    for (String key : keys) {
      try {
        kept.add(client.mutex(key).lock(Duration.ZERO));
        taken.add("GRANTED");
      } catch (LockRefusedException refused) {
        taken.add(refused.reason());
      }
    }
    say("worker", "taken", taken);
    while (System.in.read() >= 0) { }  // its end is that of the driver
    kept.forEach(HeldLock::key);
  }

  /** Starts a worker, and kills it when it has told what it has taken. */
  private void spawn(List<String> keys) throws IOException {
    List<String> program = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElse("java"), "-cp",
        System.getProperty("java.class.path"), "Driver", address));
    program.addAll(keys);
    Process worker = new ProcessBuilder(program).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    Thread reader = new Thread(() -> {
      try (BufferedReader lines = worker.inputReader(StandardCharsets.UTF_8)) {
        Object taken = GSON.fromJson(lines.readLine(), Map.class).get("taken");
        worker.destroyForcibly().waitFor();
        say("worker", "taken", taken);
      } catch (IOException | InterruptedException | RuntimeException failed) {
        say("failed", "message", failed.toString());
      }
    });
    reader.setDaemon(true);
    reader.start();
  }

  private void connect(Command line) {
    address = line.address;
    Distlock.Builder builder = Distlock.builder().address(address).label("conformance")
        .onDraining(left -> say("draining", "time_left_ms", left.toMillis()));
    if (line.unreachable_ms != null) builder.unreachableAfter(Duration.ofMillis(line.unreachable_ms));
    client = builder.build();
  }

  private void obey(Command line) throws IOException {
    switch (line.verb) {
      case "connect" -> connect(line);
      case "acquire" -> acquire(line);
      case "acquire_all" -> acquireAll(line);
      case "spawn" -> spawn(line.keys);
      case "close" -> {
        Distlock closed = client;
        new Thread(() -> {
          closed.close();
          say("closed");
        }).start();
      }
      default -> obey(line.verb, entries.get(line.lock));
    }
  }

  private static void obey(String verb, Entry entry) {
    if (entry == null) throw new IllegalStateException("there is no such lock");
    if (verb.equals("cancel")) {
      entry.asked.cancel(false);
      return;
    }
    if (entry.held == null) throw new IllegalStateException(entry.name + " was not granted");
    switch (verb) {
      case "release" -> release(entry);
      case "downgrade" -> downgrade(entry);
      case "state" -> state(entry);
      default -> throw new IllegalStateException("cannot do " + verb);
    }
  }

  /** Opens sessions and grants all. */
  private static final class Granting extends LockServiceGrpc.LockServiceImplBase {
    @Override
    public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> answers) {
      return new StreamObserver<>() {
        @Override
        public void onNext(SessionRequest request) {
          SessionResponse.Builder response = SessionResponse.newBuilder();
          request.getCommandsList().forEach(command -> answer(command, response.addEventsBuilder()));
          answers.onNext(response.build());
          if (request.getCommands(request.getCommandsCount() - 1).hasGoodbye()) answers.onCompleted();
        }

        @Override
        public void onError(Throwable broken) { }

        @Override
        public void onCompleted() { }
      };
    }

    private static void answer(SessionCommand command, SessionEvent.Builder event) {
      event.setId(command.getId());
      com.google.protobuf.Duration minute = com.google.protobuf.Duration.newBuilder().setSeconds(60).build();
      switch (command.getCommandCase()) {
        case OPEN -> event.getOpenedBuilder().setValidity(minute);
        case ACQUIRE -> event.getGrantedBuilder().setFencingToken(1).setValidFor(minute);
        case RELEASE -> event.getReleasedBuilder();
        default -> event.setId(0);
      }
    }
  }

  /** Has the JVM load what a session needs: one that has just started may be too slow for the second of one try. */
  private static void warmUp() throws Exception {
    Path folder = Files.createTempDirectory("dlw");
    EventLoopGroup loop = new EpollEventLoopGroup(1);
    Server server = NettyServerBuilder.forAddress(new DomainSocketAddress(folder + "/s"))
        .channelType(EpollServerDomainSocketChannel.class).bossEventLoopGroup(loop).workerEventLoopGroup(loop)
        .addService(new Granting()).build().start();
    try (Distlock warm = Distlock.builder().address("unix://" + folder + "/s").unreachableAfter(Duration.ofMinutes(1))
        .build()) {
      warm.mutex("k").lock().release().join();
    }
    server.shutdownNow();
    loop.shutdownGracefully();
    Files.deleteIfExists(folder.resolve("s"));
    Files.delete(folder);
  }

  public static void main(String[] args) throws Exception {
    warmUp();
    if (args.length == 1 && args[0].equals("--warm-up")) System.exit(0);
    if (args.length > 0) {
      work(args[0], List.of(args).subList(1, args.length));
      System.exit(0);
    }
    say("ready", "language", "Java", "features", List.of("cancel", "queued", "many", "ordered", "stores", "worker"));
    Driver driver = new Driver();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String text; (text = lines.readLine()) != null; ) {
      try {
        driver.obey(GSON.fromJson(text, Command.class));
      } catch (RuntimeException | IOException wrong) {
        say("failed", "line", text, "message", wrong.toString());
      }
    }
    System.exit(0);
  }
}
