// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.distlock.v1.Refusal;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;

/** Why a call failed: its status and the details in it. */
final class Statuses {
  private Statuses() {}

  static Denial denial(Throwable error) {
    Status status = Status.fromThrowable(error);
    String reason = reasonOf(status.getCode());
    String message = status.getDescription() == null ? status.getCode().name() : status.getDescription();
    if (status.getCause() != null) message += ": " + status.getCause().getMessage();
    Refusal.Builder wire = Refusal.newBuilder().setMessage(message);
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    if (details == null) return new Denial(reason, wire.build());
    for (Any detail : details.getDetailsList()) {
      try {
        if (detail.is(ErrorInfo.class) && !detail.unpack(ErrorInfo.class).getReason().isEmpty()) {
          reason = detail.unpack(ErrorInfo.class).getReason();
        } else if (detail.is(RetryInfo.class)) {
          wire.setRetryAfter(detail.unpack(RetryInfo.class).getRetryDelay());
        }
      } catch (InvalidProtocolBufferException unreadable) {  // not from a broker
      }
    }
    return new Denial(reason, wire.build());
  }

  /** Of a status without an ErrorInfo, which gRPC itself makes. */
  private static String reasonOf(Status.Code code) {
    return switch (code) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, UNKNOWN, INTERNAL -> Denial.UNREACHABLE;
      case UNIMPLEMENTED -> "NOT_SUPPORTED";
      case RESOURCE_EXHAUSTED -> "QUOTA_EXCEEDED";
      default -> code.name();  // INVALID_ARGUMENT, UNAUTHENTICATED and PERMISSION_DENIED have the same name
    };
  }
}
