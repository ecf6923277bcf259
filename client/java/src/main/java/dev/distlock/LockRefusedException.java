// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.Refusal;
import java.time.Duration;
import java.util.*;

/** No lock was given, or an operation on one could not be done. */
public class LockRefusedException extends DistlockException {
  private static final long serialVersionUID = 1;
  private final String reason;
  private final Duration retryAfter;
  private final ArrayList<Holder> holders = new ArrayList<>();

  /** One holder of the lock. */
  public record Holder(String owner, String holderId, long token) implements java.io.Serializable {}

  LockRefusedException(Denial denial) {
    super(denial.reason() + (denial.message().isEmpty() ? "" : ": " + denial.message()));
    Refusal wire = denial.wire();
    reason = denial.reason();
    retryAfter = Durations.of(wire.getRetryAfter());
    wire.getHoldersList().forEach(
        holder -> holders.add(new Holder(holder.getOwner(), holder.getHolderId(), holder.getFencingToken())));
  }

  /** The exception of a refusal. */
  static DistlockException of(Denial denial) {
    return switch (denial.reason()) {
      case "LOCK_HELD", "WAIT_TIMEOUT", "LIMIT_MISMATCH" -> new LockBusyException(denial);
      case Denial.UNREACHABLE, "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED", "STORE_HOLD_OFF", "DRAINING" ->
          new LockUnavailableException(denial);
      case "INVALID_ARGUMENT" -> new InvalidLockException(denial);
      case Denial.CLIENT_CLOSED -> new ClientClosedException(denial.message());
      default -> new LockRefusedException(denial);
    };
  }

  /** The name of a RefusalReason of the contract without its prefix, or UNREACHABLE. */
  public String reason() { return reason; }

  /** When a retry makes sense; zero: not known. */
  public Duration retryAfter() { return retryAfter; }

  /** The holders of the lock, as far as known, at most 16. */
  public List<Holder> holders() { return List.copyOf(holders); }
}
