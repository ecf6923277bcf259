// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"math"
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Never is later than any moment. Forever and OneTry are waits.
const (
	Never   = time.Duration(math.MaxInt64)
	Forever = Never
	OneTry  = time.Duration(0)
)

const (
	frame           = 8        // tag and length of a command in its message, at most
	messageBytes    = 64 << 10 // before the broker has told its limit
	mostAhead       = 256      // commands without an event, where the broker tells no limit
	defaultValidity = 3 * time.Second
	leastPause      = 10 * time.Millisecond
	remembered      = 64                   // heartbeats whose sending times are kept
	longestSpan     = 365 * 24 * time.Hour // longer than any promise; keeps sums of times in range
)

// span reads a duration of the wire: 0 for an unset or negative one.
func span(wire *durationpb.Duration) time.Duration {
	return min(max(wire.AsDuration(), 0), longestSpan)
}

// belief says until when the client may believe in one session, from its OpenSession (heartbeat 0) to its end: "Belief"
// in session.md.
type belief struct {
	sentAt    [remembered]time.Duration // of heartbeat seq, at seq % remembered
	lastSent  int64
	lastAcked int64         // -1: none
	deadline  time.Duration // the broker has given the session up then, too; one that has passed stays
}

func (b *belief) lastSentAt() time.Duration { return b.sentAt[b.lastSent%remembered] }

// send notes that a heartbeat is about to be handed to gRPC; its seq.
func (b *belief) send(now time.Duration) int64 {
	b.lastSent++
	b.sentAt[b.lastSent%remembered] = now
	return b.lastSent
}

// deadlineOf is the end of a promise that answers heartbeat seq; 0 for one that is forgotten or was never sent.
func (b *belief) deadlineOf(seq int64, validFor *durationpb.Duration) time.Duration {
	if seq < 0 || seq > b.lastSent || seq <= b.lastSent-remembered {
		return 0
	}
	return b.sentAt[seq%remembered] + span(validFor)
}

// ack takes the promise that answers heartbeat seq, and tells whether it extends anything.
func (b *belief) ack(seq int64, promised, now time.Duration) bool {
	if now >= b.deadline || promised == 0 || seq <= b.lastAcked {
		return false
	}
	if b.lastAcked >= 0 { // the grace of the opening is no promise: the first answer replaces it
		promised = max(promised, b.deadline)
	}
	b.deadline, b.lastAcked = promised, seq
	return true
}

func (b *belief) unanswered() int64 { return b.lastSent - max(b.lastAcked, 0) }

// overdue tells whether a heartbeat is unanswered, and half of what was left until deadline when it was sent is gone.
func (b *belief) overdue(deadline, now time.Duration) bool {
	since := b.sentAt[max(b.lastAcked+1, 1, b.lastSent-remembered+1)%remembered]
	return b.unanswered() > 0 && now-since >= (deadline-since)/2
}

// unanswered are the ids of a command that is sent and has had no event.
type unanswered struct{ first, last int64 }

// Link is a session with a broker, or the place for the next one; and the commands that it has not sent yet.
type Link struct {
	commands      []*pb.SessionCommand // those without an id, which wait for no answers, go first
	ahead         []unanswered
	mostAhead     int
	maxBytes      int
	session       belief
	streaming     bool // there is a stream, opened or not
	Opened        bool // the broker has answered the OpenSession
	adopts        bool
	store         string // the id of the broker's store; "": not known
	Authenticates bool   // the broker takes another token for this session
	draining      bool
	leaving       bool // the goodbye is said, or will be by the next message
	heartbeatDue  bool
	heartbeatAt   time.Duration // Never before the opening, and after the goodbye
	validity      time.Duration
	interval      time.Duration
	drainedAt     time.Duration
}

// Acked tells whether the broker has answered a heartbeat.
func (l *Link) Acked() bool { return l.session.lastAcked > 0 }

// Said tells whether all has been sent that there was to say: the goodbye has left.
func (l *Link) Said() bool { return l.leaving && len(l.commands) == 0 }

// Lapsed tells whether the broker has not been heard for too long: the stream must be ended.
func (l *Link) Lapsed(now time.Duration) bool { return l.streaming && now >= l.session.deadline }

// usable tells whether commands may be added.
func (l *Link) usable() bool { return l.streaming && !l.leaving }

// movable tells whether another session can adopt what this one has.
func (l *Link) movable() bool { return l.adopts && !l.leaving }

// add has a command sent. Nothing follows the goodbye.
func (l *Link) add(command *pb.SessionCommand) {
	if !l.leaving {
		l.commands = append(l.commands, command)
	}
}

// drop takes a command back that has not been sent. False: it has.
func (l *Link) drop(id int64) bool {
	before := len(l.commands)
	l.commands = slices.DeleteFunc(l.commands, func(one *pb.SessionCommand) bool { return one.Id == id })
	return len(l.commands) < before
}

// waits tells whether a command must wait for answers to others. One without an id never does.
func (l *Link) waits(next *pb.SessionCommand) bool {
	return next.Id != 0 && len(l.ahead) >= l.mostAhead
}

func (l *Link) ready() bool {
	return l.heartbeatDue || len(l.commands) > 0 && !l.waits(l.commands[0])
}

// onEvent: the command with this id is not unanswered any more. Of several locks the first event counts.
func (l *Link) onEvent(id int64) {
	at := slices.IndexFunc(l.ahead, func(one unanswered) bool { return one.first <= id && id <= one.last })
	if at >= 0 {
		l.ahead = slices.Delete(l.ahead, at, at+1)
	}
}

// Pack makes the next message, or returns nil. A heartbeat's time is taken here, before the message goes to gRPC.
func (l *Link) Pack(now time.Duration) *pb.SessionRequest {
	if !l.ready() {
		return nil
	}
	message, count, left := &pb.SessionRequest{}, 0, l.maxBytes-2*frame // a heartbeat has no more
	if l.heartbeatDue {
		message.Commands = append(message.Commands, &pb.SessionCommand{Command: &pb.SessionCommand_Heartbeat{
			Heartbeat: &pb.Heartbeat{Seq: l.session.send(now)}}})
		l.heartbeatDue, l.heartbeatAt = false, now+l.interval
	}
	for _, next := range l.commands {
		if left -= proto.Size(next) + frame; l.waits(next) || (left < 0 && len(message.Commands) > 0) {
			break
		}
		if next.GetOpen() != nil {
			l.ahead = append(l.ahead, unanswered{}) // its event has no id
		} else if next.Id != 0 {
			ids := max(len(next.GetAcquire().GetLocks()), int(next.GetAdopt().GetHoldCount()), 1)
			l.ahead = append(l.ahead, unanswered{next.Id, next.Id + int64(ids) - 1})
		}
		message.Commands = append(message.Commands, next)
		count++
	}
	l.commands = slices.Delete(l.commands, 0, count)
	return message
}
