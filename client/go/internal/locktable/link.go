// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"slices"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
)

const (
	frame           = 8        // tag and length of a command in its message, at most
	messageBytes    = 64 << 10 // before the broker has told its limit
	smallBytes      = 32       // of a release, cancel, heartbeat or goodbye, at most
	mostAhead       = 256      // commands without an event, where the broker tells no limit
	timeBytes       = 24       // of a max_wait, at most
	defaultValidity = 3 * time.Second
	leastPause      = 10 * time.Millisecond
)

// outgoing is a command that is not sent yet, and how many bytes it has at most.
type outgoing struct {
	command *pb.SessionCommand
	bytes   int
}

// Link is a session with a broker, or the place for the next one; and the commands that it has not sent yet.
type Link struct {
	commands      []outgoing
	urgent        []outgoing // these go before the others, and wait for no answers: heartbeats, cancels
	ahead         []unanswered
	mostAhead     int
	session       belief
	streaming     bool // there is a stream, opened or not
	Opened        bool // the broker has answered the OpenSession
	Acked         bool // and a heartbeat
	adopts        bool
	Authenticates bool  // the broker takes another token for this session
	proof         int64 // id of the command that brought the last proof; 0: the call did
	ProofRefused  bool  // the broker has refused that one
	draining      bool
	leaving       bool
	heartbeatDue  bool
	validity      time.Duration
	interval      time.Duration
	heartbeatAt   time.Duration
	drainedAt     time.Duration
	maxBytes      int
}

// unanswered are the ids of a command that is sent and has had no event.
type unanswered struct{ first, last int64 }

func newLink() *Link { return &Link{maxBytes: messageBytes, heartbeatAt: Never, drainedAt: Never} }

// Said tells whether all has been sent that there was to say: the goodbye has left.
func (l *Link) Said() bool { return l.leaving && len(l.commands) == 0 }

func (l *Link) start(now, grace time.Duration) {
	*l = *newLink()
	l.session, l.streaming, l.mostAhead = newBelief(now, grace), true, mostAhead
}

// usable tells whether commands may be added.
func (l *Link) usable() bool { return l.streaming && !l.leaving }

func (l *Link) add(command *pb.SessionCommand) { l.addOf(command, proto.Size(command)) }

// addOf adds a command that has at most so many bytes. Nothing follows the goodbye.
func (l *Link) addOf(command *pb.SessionCommand, most int) {
	if !l.leaving {
		l.commands = append(l.commands, outgoing{command, most + frame})
	}
}

func (l *Link) cancel(acquireID int64) {
	l.urgent = append(l.urgent, outgoing{&pb.SessionCommand{Command: &pb.SessionCommand_Cancel{
		Cancel: &pb.CancelAcquire{AcquireId: acquireID}}}, smallBytes})
}

// drop takes a command back that has not been sent. False: it has.
func (l *Link) drop(id int64) bool {
	at := slices.IndexFunc(l.commands, func(one outgoing) bool { return one.command.Id == id })
	if at >= 0 {
		l.commands = slices.Delete(l.commands, at, at+1)
	}
	return at >= 0
}

// sayGoodbye behind what may be sent now: with the session the broker frees what it has not heard of.
func (l *Link) sayGoodbye() {
	l.commands = append(l.commands[:min(len(l.commands), l.room())],
		outgoing{&pb.SessionCommand{Command: &pb.SessionCommand_Goodbye{Goodbye: &pb.Goodbye{}}}, smallBytes})
	l.leaving, l.heartbeatDue = true, false
}

// room is how many commands may be sent now.
func (l *Link) room() int { return max(l.mostAhead-len(l.ahead), 0) }

func (l *Link) ready() bool {
	return l.heartbeatDue || len(l.urgent) > 0 || (len(l.commands) > 0 && (l.leaving || l.room() > 0))
}

// onEvent: the command with this id is not unanswered any more. Of several locks the first event counts.
func (l *Link) onEvent(id int64) {
	at := slices.IndexFunc(l.ahead, func(one unanswered) bool { return one.first <= id && id <= one.last })
	if at >= 0 {
		l.ahead = slices.Delete(l.ahead, at, at+1)
	}
}

// note counts a command that is sent. OpenSession, which has an event of its own, is noted as 0.
func (l *Link) note(command *pb.SessionCommand) {
	if command.GetOpen() != nil {
		l.ahead = append(l.ahead, unanswered{})
	} else if command.Id != 0 {
		ids := int64(max(len(command.GetAcquire().GetLocks()), int(command.GetAdopt().GetHoldCount()), 1))
		l.ahead = append(l.ahead, unanswered{command.Id, command.Id + ids - 1})
	}
}

// pack makes the next message, or returns nil. A heartbeat's time is taken here, before the message goes to gRPC.
func (l *Link) pack(now time.Duration) *pb.SessionRequest {
	if l.heartbeatDue {
		beat := &pb.SessionCommand{Command: &pb.SessionCommand_Heartbeat{
			Heartbeat: &pb.Heartbeat{Seq: l.session.send(now)}}}
		l.urgent = slices.Insert(l.urgent, 0, outgoing{beat, smallBytes})
		l.heartbeatDue, l.heartbeatAt = false, now+l.interval
	}
	room := l.room()
	if l.leaving {
		room = len(l.commands)
	}
	most := len(l.urgent) + min(len(l.commands), room)
	if most == 0 {
		return nil
	}
	message := &pb.SessionRequest{Commands: make([]*pb.SessionCommand, 0, most)}
	left := l.take(message, &l.urgent, len(l.urgent), l.maxBytes)
	if len(l.urgent) == 0 {
		l.take(message, &l.commands, room, left)
	}
	return message
}

// take moves commands into a message that has so many bytes left: at least one, if it goes alone.
func (l *Link) take(message *pb.SessionRequest, queue *[]outgoing, most, left int) int {
	count := 0
	for _, next := range (*queue)[:min(len(*queue), most)] {
		if left < next.bytes && len(message.Commands) > 0 {
			break
		}
		left -= next.bytes
		l.note(next.command)
		message.Commands = append(message.Commands, next.command)
		count++
	}
	*queue = slices.Delete(*queue, 0, count)
	return left
}

func release(id, acquireID int64, lapsed bool) *pb.SessionCommand {
	made := &struct { // one allocation for all
		command pb.SessionCommand
		kind    pb.SessionCommand_Release
		release pb.ReleaseLease
	}{}
	made.release.AcquireId, made.release.Lapsed = acquireID, lapsed
	made.kind.Release = &made.release
	made.command.Id, made.command.Command = id, &made.kind
	return &made.command
}
