// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"strconv"
	"strings"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/locktable"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// reasons is for statuses without an ErrorInfo, which gRPC itself makes.
var reasons = map[codes.Code]string{
	codes.Unavailable: locktable.Unreachable, codes.DeadlineExceeded: locktable.Unreachable,
	codes.InvalidArgument: "INVALID_ARGUMENT", codes.Unimplemented: "NOT_SUPPORTED",
	codes.Unauthenticated: "UNAUTHENTICATED", codes.PermissionDenied: "PERMISSION_DENIED",
	codes.ResourceExhausted: "QUOTA_EXCEEDED", codes.Canceled: "CANCELLED",
}

// Refusal reads a failed call's status and its details.
func Refusal(err error) *locktable.Refusal {
	failed := status.Convert(err)
	reason := reasons[failed.Code()]
	if reason == "" {
		reason = strings.ToUpper(failed.Code().String())
	}
	message := failed.Message()
	if message == "" {
		message = failed.Code().String()
	}
	if strings.Contains(message, "server preface") || strings.Contains(message, "client preface") {
		message += "; the broker hung up before it spoke: it may have as many connections of this caller as its " +
			"limit max-connections-per-peer allows (make one client for a process), or want tls:// in the address"
	}
	refusal := locktable.Refuse(reason, message)
	var holder pb.Holder
	for _, detail := range failed.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Reason != "" {
				refusal.Reason = detail.Reason
			}
			holder.HolderId = detail.Metadata["holder_id"]
			holder.FencingToken, _ = strconv.ParseInt(detail.Metadata["fencing_token"], 10, 64)
			length, _ := strconv.ParseInt(detail.Metadata["queue_length"], 10, 32)
			refusal.Wire.QueueLength = int32(length)
		case *errdetails.ResourceInfo:
			holder.Owner = detail.Owner
		case *errdetails.RetryInfo:
			refusal.Wire.RetryAfter = detail.RetryDelay
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				refusal.Wire.FieldProblems = append(refusal.Wire.FieldProblems,
					&pb.FieldProblem{Field: violation.Field, Description: violation.Description})
			}
		}
	}
	if holder.HolderId != "" {
		refusal.Wire.Holders = []*pb.Holder{&holder}
	}
	return refusal
}
