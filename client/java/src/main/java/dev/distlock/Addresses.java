// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The brokers of one store, in an order of this client's own. Guarded by the engine's mutex. */
final class Addresses {
  private static final String SOCKET = "/run/distlock/distlock.sock";
  private static final String LOOPBACK = "127.0.0.1:7420";

  private final List<String> all;
  private int present;
  private int tried;

  private Addresses(List<String> all) {
    this.all = all;
  }

  /** DISTLOCK_SERVER, else the local socket where that exists, else 127.0.0.1:7420. */
  static String fromEnvironment() {
    String named = System.getenv("DISTLOCK_SERVER");
    if (named != null && !named.isEmpty()) return named;
    return Files.exists(Path.of(SOCKET)) ? "unix://" + SOCKET : LOOPBACK;
  }

  /** Of a list that is separated by commas, each once, in a random order. */
  static Addresses parse(String text) {
    List<String> found = new ArrayList<>();
    for (String part : text.split(",")) {
      String address = part.strip();
      if (address.startsWith("/")) address = "unix://" + address;
      if (address.startsWith("ipv4:") || address.startsWith("ipv6:")) address = address.substring("ipv4:".length());
      check(address);
      if (!address.isEmpty() && !found.contains(address)) found.add(address);
    }
    if (found.isEmpty()) throw wrong(text, "names no broker");
    Collections.shuffle(found);
    return new Addresses(found);
  }

  private static void check(String address) {
    if (address.isEmpty() || address.startsWith("unix:")) return;
    int scheme = address.indexOf("://");
    if (scheme >= 0 && !address.startsWith("tls://") && !address.startsWith("dns://")) {
      throw wrong(address, "has a scheme that is not known");
    }
    String place = address.substring(Math.max(address.lastIndexOf('/'), scheme) + 1);
    int colon = place.lastIndexOf(':');
    if (colon <= place.lastIndexOf(']')) throw wrong(address, "has no port");
    if (place.indexOf(':') != colon && !place.startsWith("[")) throw wrong(address, "is IPv6 without brackets");
    String port = place.substring(colon + 1);
    if (!port.matches("\\d{1,5}") || Integer.parseInt(port) < 1 || Integer.parseInt(port) > 65535) {
      throw wrong(address, "has a port that is no number of 1..65535");
    }
  }

  private static IllegalArgumentException wrong(String address, String why) {
    return new IllegalArgumentException("distlock: the broker's address \"" + address + "\" " + why
        + "; write host:port, tls://host:port or unix:///path");
  }

  List<String> all() {
    return all;
  }

  /** The one in use, or to be tried now. */
  String present() {
    return all.get(present);
  }

  /** Called after an attempt that failed. False: each has been tried since the last success, so pause. */
  boolean next() {
    present = (present + 1) % all.size();
    if (++tried < all.size()) return true;
    tried = 0;
    return false;
  }

  /** Called when the present one serves. */
  void succeed() {
    tried = 0;
  }
}
