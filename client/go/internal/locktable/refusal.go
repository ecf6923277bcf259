// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Reasons that are no RefusalReason of the contract.
const (
	Unreachable  = "UNREACHABLE"
	ClientClosed = "CLIENT_CLOSED"
)

// Refusal says why there is no lock. Reason: the name of a RefusalReason without its prefix, or one of the above.
type Refusal struct {
	Reason string
	Wire   *pb.Refusal // never nil; its reason does not count
}

// Refuse makes one.
func Refuse(reason, message string) *Refusal {
	return &Refusal{Reason: reason, Wire: &pb.Refusal{Message: message}}
}

func (r *Refusal) waited(waited time.Duration) *Refusal {
	r.Wire.Waited = durationpb.New(waited)
	return r
}

func refusalOf(wire *pb.Refusal) *Refusal {
	if wire == nil {
		wire = &pb.Refusal{}
	}
	return &Refusal{Reason: nameOf(wire.Reason.String(), "REFUSAL_REASON_"), Wire: wire}
}

// nameOf cuts the prefix off. A value of a newer contract is named by its number.
func nameOf(name, prefix string) string {
	if cut, found := strings.CutPrefix(name, prefix); found {
		return cut
	}
	return "UNKNOWN_" + name
}

// outcomeOf takes an outcome that is not known for one that is not known to us.
func outcomeOf(wire pb.ReleaseOutcome) pb.ReleaseOutcome {
	if _, known := pb.ReleaseOutcome_name[int32(wire)]; !known {
		return pb.ReleaseOutcome_RELEASE_OUTCOME_UNSPECIFIED
	}
	return wire
}

// is tells whether the reason is one of these.
func (r *Refusal) is(reasons ...string) bool { return slices.Contains(reasons, r.Reason) }

// Permanent tells whether no further attempt of this client can have another answer.
func (r *Refusal) Permanent() bool {
	return r.is("INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY")
}

func (r *Refusal) String() string { return fmt.Sprintf("%s: %s", r.Reason, r.Wire.GetMessage()) }
