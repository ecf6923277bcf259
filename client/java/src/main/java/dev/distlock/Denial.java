// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.*;
import dev.distlock.v1.Refusal;
import io.grpc.protobuf.StatusProto;
import java.util.*;

/**
 * Why there is no lock. reason: the name of a RefusalReason without its prefix, UNREACHABLE or CLIENT_CLOSED. wire: the
 * rest; its reason does not count.
 */
record Denial(String reason, Refusal wire) {
  static final String UNREACHABLE = "UNREACHABLE";
  static final String CLIENT_CLOSED = "CLIENT_CLOSED";
  static final Denial ENDED = of("NOT_HOLDER", "the lock has ended");
  static final Denial NONE = of("", "");  // nothing is known against the brokers
  private static final Set<String> PERMANENT =
      Set.of("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY");

  static Denial of(String reason, String message) {
    return new Denial(reason, Refusal.newBuilder().setMessage(message).build());
  }

  /** A reason of a newer contract is named by its number. */
  static Denial of(Refusal wire) {
    String name = wire.getReason().name();
    return new Denial(name.startsWith("REFUSAL_REASON_") ? name.substring("REFUSAL_REASON_".length())
        : "UNKNOWN_" + wire.getReasonValue(), wire);
  }

  /** Reads the status of a failed call and the details in it. address: of a broker that has said nothing yet; or "". */
  static Denial of(Throwable error, String address) {
    io.grpc.Status status = io.grpc.Status.fromThrowable(error);
    String reason = switch (status.getCode()) {  // without an ErrorInfo, when gRPC itself has made it
      case UNAVAILABLE, DEADLINE_EXCEEDED, UNKNOWN, INTERNAL -> UNREACHABLE;
      case UNIMPLEMENTED -> "NOT_SUPPORTED";
      case RESOURCE_EXHAUSTED -> "QUOTA_EXCEEDED";
      default -> status.getCode().name();  // as the contract's, for those that matter
    };
    String message = Objects.requireNonNullElse(status.getDescription(), status.getCode().name());
    if (!address.isEmpty() && reason.equals(UNREACHABLE)) message = Access.inWords(address, message, status.getCause());
    Refusal.Builder wire = Refusal.newBuilder().setMessage(message);
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    for (Any detail : details == null ? List.<Any>of() : details.getDetailsList()) {
      try {
        if (detail.is(ErrorInfo.class)) {
          reason = detail.unpack(ErrorInfo.class).getReason();
        } else if (detail.is(RetryInfo.class)) {
          wire.setRetryAfter(detail.unpack(RetryInfo.class).getRetryDelay());
        }
      } catch (InvalidProtocolBufferException unreadable) {  // not from a broker
      }
    }
    return new Denial(reason, wire.build());
  }

  boolean is(String... reasons) { return List.of(reasons).contains(reason); }

  /** Whether no further attempt of this client can have another answer. */
  boolean isPermanent() { return PERMANENT.contains(reason); }
  String message() { return wire.getMessage(); }
}
