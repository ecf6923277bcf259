// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import io.grpc.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/**
 * How a client proves who it is, and whom it believes: as the program says, else as the variables of the environment.
 * The token's file is read anew for each session and at heartbeats, because whoever issues tokens replaces it before
 * the old one expires. The token leaves this machine in no plain text.
 *
 * @param isGiven whether the program has given `tls`
 * @param token null: that of the file
 */
record Access(Tls tls, boolean isGiven, String token, Path tokenFile) {
  private static final String TLS = "tls://";
  private static final int MOST_BYTES = 16 << 10;
  private static final Pattern TOKEN = Pattern.compile("[!-~]+");
  private static final Pattern LINE_OF_BROKER = Pattern.compile("(.*:)?[0-9a-f]{64}");
  private static final Pattern UNTRUSTED = Pattern.compile("CertPath|PKIX|CertificateExpired|CertificateNotYetValid");
  private static final Pattern OTHER_NAME = Pattern.compile("No subject alternative|No name matching");
  private static final Pattern HANGS_UP =
      Pattern.compile("Connection reset|Connection closing|Broken pipe|Network closed|ClosedChannel|closed SSLEngine");
  private static final List<String> SAFE =
      List.of(TLS, "unix:", "127.", "localhost:", "[::1]:", "dns:///127.", "dns:///localhost:");

  /** Arguments may be null. */
  static Access of(Tls tls, String token, Path tokenFile) {
    if (token != null && tokenFile != null) throw wrong("give token or tokenFile, not both");
    if (token != null && !isToken(token)) throw wrong("token must be one word, and not its hash");
    Tls named = new Tls(file("DISTLOCK_TLS_CA"), file("DISTLOCK_TLS_CERT"), file("DISTLOCK_TLS_KEY"),
        Addresses.env("DISTLOCK_TLS_SERVER_NAME"));
    Path shown = token != null || tokenFile != null ? tokenFile : file("DISTLOCK_TOKEN_FILE");
    return new Access(tls == null ? named : tls, tls != null, token, shown);
  }

  private static Path file(String variable) {
    String path = Addresses.env(variable);
    return path.isEmpty() ? null : Path.of(path);
  }

  private static IllegalArgumentException wrong(String problem) {
    return new IllegalArgumentException("distlock: " + problem);
  }

  /** Throws IllegalArgumentException for what can never work with these addresses. */
  void check(List<String> addresses) {
    if (isGiven && addresses.stream().noneMatch(address -> address.startsWith(TLS))) {
      throw wrong("tls is given, and no address begins with " + TLS);
    }
    if (tokenFile != null && addresses.stream().anyMatch(Access::keepsSecrets)) {
      String problem = "must hold the token alone, in one line without spaces, and not its hash";
      try {
        if (isToken(read())) problem = "";
      } catch (IOException unreadable) {
        problem = "cannot be read: " + unreadable;
      }
      if (!problem.isEmpty()) throw wrong("the token's file \"" + tokenFile + "\" " + problem);
    }
    addresses.forEach(address -> open(address).shutdownNow());
  }

  /**
   * A connection, with the settings of "Messages and connection" in session.md. Throws IllegalArgumentException for a
   * file that cannot be used.
   */
  ManagedChannel open(String address) {
    boolean secure = address.startsWith(TLS);
    String name = tls.serverName() == null ? "" : tls.serverName();
    ManagedChannelBuilder<?> builder = Grpc.newChannelBuilder(secure ? address.substring(TLS.length()) : address,
        secure ? credentials() : InsecureChannelCredentials.create());
    if (secure && !name.isEmpty()) builder.overrideAuthority(name);
    return builder
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true)
        .disableRetry()  // the lock table decides what is sent again
        .proxyDetector(target -> null)  // the proxy of the environment is meant for the web
        .build();
  }

  private ChannelCredentials credentials() {
    String named = isGiven ? "tls: ca, cert or key" : "DISTLOCK_TLS_CA, DISTLOCK_TLS_CERT or DISTLOCK_TLS_KEY";
    if ((tls.cert() == null) != (tls.key() == null)) {
      throw wrong(named + ": cert and key belong together: give both, or none");
    }
    TlsChannelCredentials.Builder made = TlsChannelCredentials.newBuilder();
    try {
      if (tls.ca() != null) made.trustManager(tls.ca().toFile());
      if (tls.cert() != null) made.keyManager(tls.cert().toFile(), tls.key().toFile());
    } catch (IOException unreadable) {
      throw new IllegalArgumentException("distlock: " + named + ": " + unreadable.getMessage(), unreadable);
    }
    return made.build();
  }

  /** As gRPC's metadata has it; "" when there is no token that can be shown to this address. */
  String authorization(String address) {
    if (!keepsSecrets(address) || (token == null && tokenFile == null)) return "";
    try {
      String shown = token == null ? read() : token;
      return TOKEN.matcher(shown).matches() ? "Bearer " + shown : "";
    } catch (IOException unreadable) {
      return "";
    }
  }

  /** Why no connection to the address came about. said: what gRPC says of it. */
  static String inWords(String address, String said, Throwable cause) {
    String why = said;
    StringBuilder all = new StringBuilder(said);
    for (Throwable at = cause; at != null; at = at.getCause()) {
      all.append(at);
      why = Objects.requireNonNullElse(at.getMessage(), why);
    }
    if (UNTRUSTED.matcher(all).find()) {
      return "the broker's certificate is not signed by an authority that this machine trusts, or has expired (" + why
          + "); DISTLOCK_TLS_CA or Tls.ca names the file of its authority";
    }
    if (OTHER_NAME.matcher(all).find()) {
      return "the broker's certificate is for other names than that of the address (" + why
          + "); DISTLOCK_TLS_SERVER_NAME or Tls.serverName sets the name that it must have";
    }
    if (!HANGS_UP.matcher(all).find()) return why;
    return "it hangs up at once: " + (address.startsWith("unix:") ? "it drains" : !address.startsWith(TLS)
        ? "it wants TLS (the address is tls://host:port then)"
        : "it wants a client certificate of an authority that it trusts (DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY, or "
            + "Tls.cert and Tls.key), or it speaks no TLS (the address is host:port then)")
        + ", or it serves as many connections of this host or user as it may (limit max-connections-per-peer)";
  }

  private static boolean isToken(String text) {
    return TOKEN.matcher(text).matches() && !LINE_OF_BROKER.matcher(text).matches() && text.length() <= MOST_BYTES;
  }

  private String read() throws IOException {
    byte[] bytes = Files.readAllBytes(tokenFile);
    return bytes.length > MOST_BYTES ? "" : new String(bytes, StandardCharsets.ISO_8859_1).strip();
  }

  private static boolean keepsSecrets(String address) { return SAFE.stream().anyMatch(address::startsWith); }
}
