// SPDX-License-Identifier: Apache-2.0
package dev.distlock.example;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;

/** Why a call failed. The same code stands for several reasons, such as ABORTED for a busy lock and for a lost one. */
final class Refusals {
  private Refusals() {}

  /** A RefusalReason of the contract, such as LOCK_HELD; or gRPC's code, when it was gRPC that failed. */
  static String reasonOf(Throwable error) {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    for (Any detail : status == null ? java.util.List.<Any>of() : status.getDetailsList()) {
      try {
        if (detail.is(ErrorInfo.class)) return detail.unpack(ErrorInfo.class).getReason();
      } catch (InvalidProtocolBufferException unreadable) {  // not from a broker
      }
    }
    return Status.fromThrowable(error).getCode().name();
  }
}
