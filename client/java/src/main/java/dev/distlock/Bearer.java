// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.io.IOException;
import java.nio.file.*;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The token in the file that DISTLOCK_TOKEN_FILE names. The file is read anew for each session and at heartbeats,
 * because whoever issues tokens replaces it before the old one expires. The token leaves this machine in no plain text.
 */
final class Bearer {
  private static final String VARIABLE = "DISTLOCK_TOKEN_FILE";
  private static final int MOST_BYTES = 16 << 10;
  private static final Pattern TOKEN = Pattern.compile("[!-~]+");
  private static final Pattern LINE_OF_BROKER = Pattern.compile("(.*:)?[0-9a-f]{64}");
  private static final List<String> SAFE =
      List.of("tls://", "unix:", "127.", "localhost:", "[::1]:", "dns:///127.", "dns:///localhost:");

  private Bearer() {}

  /** As gRPC's metadata has it; "" when there is no token that can be shown to this address. */
  static String authorization(String address) {
    String path = Addresses.env(VARIABLE);
    if (path.isEmpty() || !keepsSecrets(address)) return "";
    try {
      String token = read(path);
      return TOKEN.matcher(token).matches() ? "Bearer " + token : "";
    } catch (IOException unreadable) {
      return "";
    }
  }

  /** Throws IllegalArgumentException when the file holds no token, and one of the addresses would be shown it. */
  static void check(List<String> addresses) {
    String path = Addresses.env(VARIABLE);
    if (path.isEmpty() || addresses.stream().noneMatch(Bearer::keepsSecrets)) return;
    String problem = "must hold the token alone, in one line without spaces, and not its hash";
    try {
      String token = read(path);
      if (TOKEN.matcher(token).matches() && !LINE_OF_BROKER.matcher(token).matches()) return;
    } catch (IOException unreadable) {
      problem = "cannot be read: " + unreadable;
    }
    throw new IllegalArgumentException("distlock: " + VARIABLE + ": \"" + path + "\" " + problem);
  }

  private static String read(String path) throws IOException {
    byte[] bytes = Files.readAllBytes(Path.of(path));
    return bytes.length > MOST_BYTES ? "" : new String(bytes, java.nio.charset.StandardCharsets.ISO_8859_1).strip();
  }

  private static boolean keepsSecrets(String address) { return SAFE.stream().anyMatch(address::startsWith); }
}
