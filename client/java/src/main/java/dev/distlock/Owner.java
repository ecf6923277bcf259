// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.LockSpec;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;

/** How a lock whose caller names no owner shows who has it: user@host:pid, as distlockctl says it. */
final class Owner {
  private static final int MAX_BYTES = 256;  // a broker takes no more
  private static final String SHOWN =
      cut(System.getProperty("user.name", "unknown") + "@" + host() + ":" + ProcessHandle.current().pid());

  private Owner() {}

  /** A reentrant lock goes by its owner, so that only its caller can name that. */
  static LockSpec named(LockSpec spec) {
    boolean isNamed = spec.getReentrant() || !spec.getOwner().isEmpty();
    return isNamed ? spec : spec.toBuilder().setOwner(SHOWN).build();
  }

  private static String cut(String name) {
    boolean fits = name.getBytes(StandardCharsets.UTF_8).length <= MAX_BYTES;
    return fits ? name : cut(name.substring(0, name.length() - 1));
  }

  private static String host() {
    try {
      return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
    } catch (IOException elsewhere) {
      try {
        return InetAddress.getLocalHost().getHostName();
      } catch (IOException unnamed) {
        return "unknown";
      }
    }
  }
}
