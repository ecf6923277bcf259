// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.*;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** How a client proves who it is, by what its program gives it. */
@Timeout(120)
final class AccessTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  @TempDir private Path folder;

  private static void assertRefused(String why, Distlock.Builder builder) {
    String said = assertThrows(IllegalArgumentException.class, builder::build).getMessage();
    assertTrue(said.contains(why), said);
  }

  private static Distlock.Builder builder(String address) { return Distlock.builder().address(address); }

  @Test
  void whatCannotWorkIsRefusedByBuild() throws Exception {
    Path two = Files.writeString(folder.resolve("two"), "a token\nand another\n");
    assertRefused("token or tokenFile, not both", builder("unix:///s").token("x").tokenFile(two));
    assertRefused("token must be one word", builder("unix:///s").token("two words"));
    assertRefused("token must be one word, and not its hash", builder("unix:///s").token("a".repeat(64)));
    assertRefused("must hold the token alone", builder("unix:///s").tokenFile(two));
    assertRefused("cannot be read", builder("unix:///s").tokenFile(folder.resolve("none")));
    assertRefused("no address begins with tls://", builder("127.0.0.1:1").tls(new Tls(two)));
    assertRefused("tls: ca, cert or key", builder("tls://a:1").tls(new Tls(folder.resolve("none"))));
    assertRefused("cert and key belong together", builder("tls://a:1").tls(new Tls(null, two, null, null)));
    builder("10.0.0.1:1").tokenFile(folder.resolve("none")).build().close();  // it is not shown there
  }

  @Test
  void aTokenIsShownWhereItKeepsSecret() throws Exception {
    Access given = Access.of(null, "one", null);
    for (String address : List.of("unix:///s", "tls://a:1", "127.0.0.1:1", "localhost:1", "[::1]:1")) {
      assertEquals("Bearer one", given.authorization(address));
    }
    assertEquals("", given.authorization("10.0.0.1:1"));
    Path file = Files.writeString(folder.resolve("token"), "first\n");
    Access read = Access.of(null, null, file);
    assertEquals("Bearer first", read.authorization("unix:///s"));
    Files.writeString(file, "second\n");
    assertEquals("Bearer second", read.authorization("unix:///s"));
  }

  private static void openssl(Path where, String words) {
    List<String> command = new ArrayList<>(List.of("openssl"));
    command.addAll(List.of(words.split(" ")));
    try {
      Process made = new ProcessBuilder(command).directory(where.toFile()).redirectErrorStream(true).start();
      made.getInputStream().readAllBytes();
      assertEquals(0, made.waitFor(), words);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    } catch (InterruptedException stopped) {
      throw new IllegalStateException(stopped);
    }
  }

  /** ca.pem, and what it has signed: broker.pem and client.pem with their keys. */
  private static void makeCertificates(Path where) {
    String key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(where, "req -x509 " + key + " -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem");
    for (String name : List.of("broker", "client")) {
      try {
        Files.writeString(where.resolve(name + ".ext"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
      openssl(where, "req " + key + " -subj /CN=" + name + " -keyout " + name + ".key -out " + name + ".csr");
      openssl(where, "x509 -req -in " + name + ".csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "
          + name + ".ext -out " + name + ".pem");
    }
  }

  /** The message for a client that reaches no broker. */
  private static CompletableFuture<String> told(String address, Tls tls) {
    Distlock dl = builder(address).tls(tls).unreachableAfter(Duration.ofSeconds(12)).build();
    return dl.mutex("other").lockAsync(Duration.ZERO).handle((held, refused) -> {
      dl.close();
      return assertInstanceOf(LockUnavailableException.class, refused).getMessage();
    });
  }

  @Test
  void eachClientHasItsOwnCertificates() throws Exception {
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    Path[] pem = new Path[1];
    try (Broker broker = new Broker(where -> {
      pem[0] = where;
      makeCertificates(where);
      return List.of("--listen", "127.0.0.1:" + port, "--allow-all", "--tls-cert", where + "/broker.pem", "--tls-key",
          where + "/broker.key", "--tls-client-ca", where + "/ca.pem");
    })) {
      String address = "tls://localhost:" + port;
      Path ca = pem[0].resolve("ca.pem");
      Tls right = new Tls(ca, pem[0].resolve("client.pem"), pem[0].resolve("client.key"), null);
      try (Distlock dl = builder(address).tls(right).unreachableAfter(PATIENCE).build();
          HeldLock held = dl.mutex("k").lock(PATIENCE)) {
        assertEquals(held.token(), broker.look("k").getHolders(0).getFencingToken());
        Map<String, CompletableFuture<String>> wrong = Map.of(
            "wants a client certificate", told(address, new Tls(ca)),
            "is for other names", told(address, new Tls(ca, right.cert(), right.key(), "other.test")),
            "not signed by an authority", told(address, new Tls(null, right.cert(), right.key(), null)),
            "wants TLS (the address is tls://", told("localhost:" + port, null));
        for (String why : wrong.keySet()) {
          String words = wrong.get(why).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
          assertTrue(words.contains(why) && !words.contains("\n"), words);
        }
        assertTrue(held.isHeld());
      }
    }
  }
}
