// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// Never is later than any moment.
const Never = time.Duration(math.MaxInt64)

const (
	remembered  = 64                   // heartbeats whose sending times are kept
	longestSpan = 365 * 24 * time.Hour // longer than any promise; keeps sums of times in range
)

// span reads a duration of the wire: 0 for an unset or negative one.
func span(wire *durationpb.Duration) time.Duration {
	return min(max(wire.AsDuration(), 0), longestSpan)
}

// belief says until when the client may believe in one session, from its OpenSession (heartbeat 0) to its end: "Belief"
// in session.md.
type belief struct {
	sentAt     [remembered]time.Duration // of heartbeat seq, at seq % remembered
	lastSent   int64
	lastSentAt time.Duration
	lastAcked  int64
	deadline   time.Duration
	isLapsed   bool
}

// newBelief begins at the sending of OpenSession. grace: how long the broker has to answer it.
func newBelief(now, grace time.Duration) belief {
	made := belief{lastSentAt: now, lastAcked: -1, deadline: now + grace}
	made.sentAt[0] = now
	return made
}

// send notes that a heartbeat is about to be handed to gRPC; its seq.
func (b *belief) send(now time.Duration) int64 {
	b.lastSent++
	b.lastSentAt = now
	b.sentAt[b.lastSent%remembered] = now
	return b.lastSent
}

// deadlineOf is the end of a promise that answers heartbeat seq; 0 for one that is forgotten or was never sent.
func (b *belief) deadlineOf(seq int64, validFor time.Duration) time.Duration {
	if seq < 0 || seq > b.lastSent || seq <= b.lastSent-remembered {
		return 0
	}
	return b.sentAt[seq%remembered] + validFor
}

// ack tells whether this ack extends anything.
func (b *belief) ack(seq int64, validFor, now time.Duration) bool {
	deadline := b.deadlineOf(seq, validFor)
	if b.lapsed(now) || deadline == 0 || seq <= b.lastAcked {
		return false
	}
	if b.lastAcked < 0 {
		b.deadline = deadline // the grace of the opening is no promise: the first answer replaces it
	} else {
		b.deadline = max(b.deadline, deadline)
	}
	b.lastAcked = seq
	return true
}

// lapsed tells whether no answer came for a whole validity: the broker has given the session up, too. Final.
func (b *belief) lapsed(now time.Duration) bool {
	b.isLapsed = b.isLapsed || now >= b.deadline
	return b.isLapsed
}

func (b *belief) unanswered() int64 { return b.lastSent - max(b.lastAcked, 0) }

// overdue tells whether a heartbeat is unanswered, and half of what was left until deadline when it was sent is gone.
func (b *belief) overdue(deadline, now time.Duration) bool {
	if b.unanswered() == 0 {
		return false
	}
	since := b.sentAt[max(b.lastAcked+1, 1, b.lastSent-remembered+1)%remembered]
	return now-since >= (deadline-since)/2
}
