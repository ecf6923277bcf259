// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import java.nio.file.Path;

/**
 * PEM files for tls:// addresses, which are read again at each connect. Each may be null: ca, the broker's authorities,
 * is the system's then; cert and key, the client's own, belong together; serverName is the name that the broker's
 * certificate must have, if it is not the host of the address.
 */
public record Tls(Path ca, Path cert, Path key, String serverName) {
  /** With the broker's authorities only. */
  public Tls(Path ca) { this(ca, null, null, null); }
}
