// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.Refusal;
import dev.distlock.v1.RefusalReason;
import java.util.Set;

/**
 * Why there is no lock. reason: the name of a RefusalReason without its prefix, UNREACHABLE or CLIENT_CLOSED. wire: the
 * rest; its reason does not count.
 */
record Denial(String reason, Refusal wire) {
  static final String UNREACHABLE = "UNREACHABLE";
  static final String CLIENT_CLOSED = "CLIENT_CLOSED";
  static final Denial ENDED = of("NOT_HOLDER", "the lock has ended");
  static final Denial NONE = of("", "");  // nothing is known against the brokers

  private static final String PREFIX = "REFUSAL_REASON_";
  private static final Set<String> PERMANENT =
      Set.of("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY");

  static Denial of(String reason, String message) {
    return new Denial(reason, Refusal.newBuilder().setMessage(message).build());
  }

  /** A reason of a newer contract is named by its number. */
  static Denial of(Refusal wire) {
    boolean known = wire.getReason() != RefusalReason.UNRECOGNIZED;
    return new Denial(known ? wire.getReason().name().substring(PREFIX.length())
        : "UNKNOWN_" + wire.getReasonValue(), wire);
  }

  boolean is(String... reasons) {
    return Set.of(reasons).contains(reason);
  }

  /** Whether no further attempt of this client can have another answer. */
  boolean isPermanent() {
    return PERMANENT.contains(reason);
  }

  String message() {
    return wire.getMessage();
  }
}
