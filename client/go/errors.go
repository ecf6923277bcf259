// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"distlock.dev/client/go/internal/locktable"
)

var (
	// ErrClosed: the client was closed, or was closed while the call waited.
	ErrClosed = errors.New("distlock: the client was closed")

	// ErrReleased: this program has given the lock back. It is the cause of the end of Lock.Context then.
	ErrReleased = errors.New("distlock: the lock was released")

	// ErrUnknownOutcome: no answer to a release came. The lock is freed all the same, at the latest when its ttl ends.
	ErrUnknownOutcome = errors.New("distlock: the release was sent, and its outcome is not known")
)

// Reason says why a request was refused: the name of a RefusalReason of the contract without its prefix. A value of a
// newer contract is "UNKNOWN_" and its number.
type Reason string

// ReasonUnreachable is the one reason that the contract does not have.
const (
	ReasonLockHeld         Reason = "LOCK_HELD"          // one try, and others hold it
	ReasonWaitTimeout      Reason = "WAIT_TIMEOUT"       // others held it during the whole wait
	ReasonLimitMismatch    Reason = "LIMIT_MISMATCH"     // one try, and the holders have another limit or mode
	ReasonLeaseLost        Reason = "LEASE_LOST"         // it was granted, and lost before this program heard of it
	ReasonNotHolder        Reason = "NOT_HOLDER"         // the lease is not held, or not any more
	ReasonForeignKey       Reason = "FOREIGN_KEY"        // the store has something else under the lock's name
	ReasonInvalidArgument  Reason = "INVALID_ARGUMENT"   // a value is wrong
	ReasonNotSupported     Reason = "NOT_SUPPORTED"      // this broker or store cannot do it
	ReasonQuotaExceeded    Reason = "QUOTA_EXCEEDED"     // a limit of the broker
	ReasonStoreFull        Reason = "STORE_FULL"         // the store is out of memory
	ReasonStoreUnavailable Reason = "STORE_UNAVAILABLE"  // the broker cannot reach its store
	ReasonQuorumNotReached Reason = "QUORUM_NOT_REACHED" // nor enough of its stores
	ReasonStoreHoldOff     Reason = "STORE_HOLD_OFF"     // the store may have forgotten a holder
	ReasonDraining         Reason = "DRAINING"           // the broker goes down, and no other is known
	ReasonUnauthenticated  Reason = "UNAUTHENTICATED"
	ReasonPermissionDenied Reason = "PERMISSION_DENIED"
	ReasonCancelled        Reason = "CANCELLED"           // withdrawn
	ReasonUnreachable      Reason = locktable.Unreachable // no broker answered in time
)

// RefusedError says that no lock was given, or that an operation on a lease could not be done. BusyError,
// UnavailableError and InvalidRequestError wrap one, so that errors.As finds it in each of them.
type RefusedError struct {
	Reason        Reason
	Message       string         // English; names the value that was wrong and what to do next
	RetryAfter    time.Duration  // when a retry makes sense; 0: not known
	Waited        time.Duration  // how long the request has waited
	Holders       []Holder       // who holds the lock, as far as known, at most 16
	QueueLength   int            // how many wait, as far as known
	FieldProblems []FieldProblem // INVALID_ARGUMENT: every value that is wrong
	Block         *Block         // a lock_delay or min_hold that keeps the lock, or nil
}

// FieldProblem is one value that is wrong.
type FieldProblem struct {
	Field       string // path of the field in the contract, such as "acquire.locks[0].ttl"
	Description string // what is wrong with it, and what is allowed
}

func (e *RefusedError) Error() string {
	if e.Message == "" {
		return "distlock: " + string(e.Reason)
	}
	return fmt.Sprintf("distlock: %s: %s", e.Reason, e.Message)
}

// BusyError says that others have the lock (LOCK_HELD, WAIT_TIMEOUT or LIMIT_MISMATCH). Holders names them.
type BusyError struct{ RefusedError }

// Unwrap gives the RefusedError.
func (e *BusyError) Unwrap() error { return &e.RefusedError }

// UnavailableError says that no broker or no store answered in time (UNREACHABLE, STORE_UNAVAILABLE,
// QUORUM_NOT_REACHED or DRAINING), or that the store may have forgotten a holder and grants nobody a lock before
// RetryAfter is over (STORE_HOLD_OFF). Of calls other than an acquire, the outcome may be unknown.
type UnavailableError struct{ RefusedError }

// Unwrap gives the RefusedError.
func (e *UnavailableError) Unwrap() error { return &e.RefusedError }

// InvalidRequestError says that a value is wrong. FieldProblems names each.
type InvalidRequestError struct{ RefusedError }

// Unwrap gives the RefusedError.
func (e *InvalidRequestError) Unwrap() error { return &e.RefusedError }

// Cause says how a lock ended: the name of a LostReason of the contract without its prefix, or one that the client saw
// itself. A value of a newer contract is "UNKNOWN_" and its number.
type Cause string

// Told by the broker are those up to CauseMoved.
const (
	CauseExpired      Cause = "EXPIRED"                   // it could not be renewed in time
	CauseTaken        Cause = "TAKEN"                     // the store no longer knows it, or knows another holder
	CauseForced       Cause = "FORCED"                    // an administrator released it
	CauseMaxHold      Cause = "MAX_HOLD"                  // MaxHold has passed
	CauseDrained      Cause = "DRAINED"                   // the broker went down
	CauseMoved        Cause = "MOVED"                     // another session holds it now
	CauseLapsed       Cause = locktable.CauseLapsed       // its deadline passed without word from the broker
	CauseDisconnected Cause = locktable.CauseDisconnected // the stream to the broker ended
	CauseReleasedByID Cause = locktable.CauseReleased     // somebody who knew its lease id released it
	CauseClientClosed Cause = locktable.CauseClientClosed // Client.Close was called
)

// LostError says that a lock ended before this program had given it back.
type LostError struct {
	Key     string
	Cause   Cause
	Message string // English; may be empty
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("distlock: the lock %q is lost (%s)", e.Key, e.Cause)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

var (
	// Quoted names are the program's, and stay.
	wordOfContract = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b(?:acquire\.)?locks\[\d+\]\.|\b(?:[a-z]+(?:_[a-z]+)+|ttl)\b`)
	words          = map[string]string{
		"max_wait": "Wait", "max_hold": "MaxHold", "lock_delay": "LockDelay", "min_hold": "MinHold", "ttl": "TTL",
		"on_disconnect": "OnDisconnect", "max_waiters": "MaxWaiters", "key_prefix": "prefix", "fencing_token": "token",
		"valid_for": "ValidFor", "lease_id": "lease id", "holder_id": "holder id", "request_id": "request id",
		"acquire.locks[0].": "", "locks[0].": ""}
)

// inWords has the broker's English name what this package has, instead of the contract's fields.
func inWords(text string) string {
	return wordOfContract.ReplaceAllStringFunc(text, func(word string) string {
		if plain, known := words[word]; known {
			return plain
		}
		if path, of := strings.CutSuffix(strings.TrimPrefix(word, "acquire."), "]."); of { // of several locks
			return "wants" + strings.TrimPrefix(path, "locks") + "]: "
		}
		return word
	})
}

func invalid(field, description string) error {
	return &InvalidRequestError{RefusedError{
		Reason: ReasonInvalidArgument, Message: inWords(field + " " + description),
		FieldProblems: []FieldProblem{{field, description}}}}
}

// refusedError is the error of a refusal.
func refusedError(refusal *locktable.Refusal) error {
	if refusal.Reason == locktable.ClientClosed {
		return ErrClosed
	}
	wire := refusal.Wire
	refused := RefusedError{
		Reason: Reason(refusal.Reason), Message: inWords(wire.Message), RetryAfter: wire.RetryAfter.AsDuration(),
		Waited: wire.Waited.AsDuration(), Holders: holdersOf(wire.Holders), QueueLength: int(wire.QueueLength),
		Block: blockOf(wire.Block),
	}
	for _, problem := range wire.FieldProblems {
		refused.FieldProblems = append(refused.FieldProblems, FieldProblem{problem.Field, inWords(problem.Description)})
	}
	switch refused.Reason {
	case ReasonLockHeld, ReasonWaitTimeout, ReasonLimitMismatch:
		return &BusyError{refused}
	case ReasonUnreachable, ReasonStoreUnavailable, ReasonQuorumNotReached, ReasonStoreHoldOff, ReasonDraining:
		return &UnavailableError{refused}
	case ReasonInvalidArgument:
		return &InvalidRequestError{refused}
	}
	return &refused
}
