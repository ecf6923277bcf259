// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"math"
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
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
	smallBytes      = 32       // of a release, cancel, heartbeat or goodbye, at most
	timeBytes       = 24       // of a max_wait, at most
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

// outgoing is a command that is not sent yet, and how many bytes it has at most.
type outgoing struct {
	command *pb.SessionCommand
	bytes   int
}

// unanswered are the ids of a command that is sent and has had no event.
type unanswered struct{ first, last int64 }

// Link is a session with a broker, or the place for the next one; and the commands that it has not sent yet.
type Link struct {
	commands      []outgoing
	urgent        []outgoing // these go before the others, and wait for no answers: heartbeats, cancels
	ahead         []unanswered
	mostAhead     int
	maxBytes      int
	session       belief
	streaming     bool // there is a stream, opened or not
	Opened        bool // the broker has answered the OpenSession
	adopts        bool
	Authenticates bool  // the broker takes another token for this session
	proof         int64 // id of the command that brought the last proof; 0: the call did
	ProofRefused  bool  // the broker has refused that one
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

// add has a command sent that has at most so many bytes. Nothing follows the goodbye.
func (l *Link) add(command *pb.SessionCommand, most int) {
	if !l.leaving {
		l.commands = append(l.commands, outgoing{command, most + frame})
	}
}

// drop takes a command back that has not been sent. False: it has.
func (l *Link) drop(id int64) bool {
	before := len(l.commands)
	l.commands = slices.DeleteFunc(l.commands, func(one outgoing) bool { return one.command.Id == id })
	return len(l.commands) < before
}

// room is how many commands may be sent now.
func (l *Link) room() int {
	if l.leaving {
		return len(l.commands) // the goodbye, and what had room before it
	}
	return min(max(l.mostAhead-len(l.ahead), 0), len(l.commands))
}

func (l *Link) ready() bool { return l.heartbeatDue || len(l.urgent) > 0 || l.room() > 0 }

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
	if l.heartbeatDue {
		beat := &pb.SessionCommand{Command: &pb.SessionCommand_Heartbeat{
			Heartbeat: &pb.Heartbeat{Seq: l.session.send(now)}}}
		l.urgent = slices.Insert(l.urgent, 0, outgoing{beat, smallBytes})
		l.heartbeatDue, l.heartbeatAt = false, now+l.interval
	}
	message := &pb.SessionRequest{}
	left := l.take(message, &l.urgent, len(l.urgent), l.maxBytes)
	if len(l.urgent) == 0 {
		l.take(message, &l.commands, l.room(), left)
	}
	return message
}

// take moves commands into a message that has so many bytes left: at least one, if it goes alone.
func (l *Link) take(message *pb.SessionRequest, queue *[]outgoing, most, left int) int {
	count := 0
	message.Commands = slices.Grow(message.Commands, most)
	for _, next := range (*queue)[:most] {
		if left -= next.bytes; left < 0 && len(message.Commands) > 0 {
			break
		}
		if next.command.GetOpen() != nil {
			l.ahead = append(l.ahead, unanswered{}) // its event has no id
		} else if id := next.command.Id; id != 0 {
			ids := max(len(next.command.GetAcquire().GetLocks()), int(next.command.GetAdopt().GetHoldCount()), 1)
			l.ahead = append(l.ahead, unanswered{id, id + int64(ids) - 1})
		}
		message.Commands = append(message.Commands, next.command)
		count++
	}
	*queue = slices.Delete(*queue, 0, count)
	return left
}
