// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;

/** The brokers of one store, in an order of this client's own. Guarded by the engine's mutex. */
final class Addresses {
  private static final String PORT =
      "[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5]";
  private static final Pattern ADDRESS =
      Pattern.compile("|unix:.+|(tls://|dns:(//[^/]*/)?)?(\\[[^\\]]+\\]|[^:/\\[\\]]+):(" + PORT + ")");

  private final List<String> all;
  private int present;
  private int tried;

  private Addresses(List<String> all) { this.all = all; }

  /** DISTLOCK_SERVER, else the local socket where that exists, else 127.0.0.1:7420. */
  static String fromEnvironment() {
    String named = env("DISTLOCK_SERVER");
    if (!named.isEmpty()) return named;
    String socket = "/run/distlock/distlock.sock";
    return Files.exists(Path.of(socket)) ? "unix://" + socket : "127.0.0.1:7420";
  }

  /** "" when it is not set. */
  static String env(String name) { return Objects.requireNonNullElse(System.getenv(name), ""); }

  private static IllegalArgumentException wrong(String address) {
    return new IllegalArgumentException("distlock: \"" + address + "\" is no address of a broker; write host:port, "
        + "[IPv6]:port, tls://host:port or unix:///path; a port is a number of 1..65535");
  }

  /** Reads a list that is separated by commas: each address once, in a random order. */
  static Addresses parse(String text) {
    List<String> found = new ArrayList<>();
    for (String part : text.split(",")) {
      String address = part.strip();
      if (address.startsWith("/")) address = "unix://" + address;
      if (address.startsWith("ipv4:") || address.startsWith("ipv6:")) address = address.substring("ipv4:".length());
      if (!ADDRESS.matcher(address).matches()) throw wrong(address);
      if (!address.isEmpty() && !found.contains(address)) found.add(address);
    }
    if (found.isEmpty()) throw wrong(text);
    Collections.shuffle(found);
    return new Addresses(found);
  }

  List<String> all() { return all; }
  String present() { return all.get(present); }  // the one in use, or to be tried now

  /** Called after an attempt that failed. False: each has been tried since the last success, so pause. */
  boolean next() {
    present = (present + 1) % all.size();
    if (++tried < all.size()) return true;
    tried = 0;
    return false;
  }

  void succeed() { tried = 0; }  // called when the present one serves
}
