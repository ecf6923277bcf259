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
	releaseBytes    = 32       // of a release, at most
	cancelBytes     = 32       // of a cancel or a goodbye, with its frame, at most
	mostAhead       = 256      // commands without an event, where the broker tells no limit
	timeBytes       = 24       // of a max_wait, at most
	defaultValidity = 3 * time.Second
	leastPause      = 10 * time.Millisecond
)

// Link is a session with a broker, or the place for the next one; and the commands that it has not sent yet.
type Link struct {
	commands      []*pb.SessionCommand
	mostBytes     int     // that all of these can have
	cancels       []int64 // acquires to give up: these go before the commands, and do not wait for answers
	goodbyeDue    bool
	ahead         []unanswered
	mostAhead     int
	session       belief
	streaming     bool
	opened        bool
	acked         bool
	adopts        bool
	authenticates bool
	proof         int64 // id of the command that brought the last proof; 0: the call did
	proofRefused  bool
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

func newLink() *Link {
	return &Link{maxBytes: messageBytes, heartbeatAt: Never, drainedAt: Never}
}

// Opened tells whether the broker has answered the OpenSession.
func (l *Link) Opened() bool { return l.opened }

// Acked tells whether the session has had the answer to a heartbeat.
func (l *Link) Acked() bool { return l.acked }

// Said tells whether all has been sent that there was to say: the goodbye has left.
func (l *Link) Said() bool { return l.leaving && !l.goodbyeDue }

// Authenticates tells whether the broker takes another token for this session.
func (l *Link) Authenticates() bool { return l.authenticates }

// ProofRefused tells whether the broker has refused the last proof that a command brought.
func (l *Link) ProofRefused() bool { return l.proofRefused }

func (l *Link) start(now, grace time.Duration) {
	*l = Link{session: newBelief(now, grace), streaming: true, heartbeatAt: Never, drainedAt: Never,
		maxBytes: messageBytes, mostAhead: mostAhead}
}

// usable tells whether commands may be added.
func (l *Link) usable() bool { return l.streaming && !l.leaving }

func (l *Link) add(command *pb.SessionCommand) { l.addOf(command, proto.Size(command)) }

// addOf adds a command that has at most so many bytes.
func (l *Link) addOf(command *pb.SessionCommand, most int) {
	l.commands = append(l.commands, command)
	l.mostBytes += most + frame
}

// drop takes a command back that has not been sent. False: it has.
func (l *Link) drop(id int64) bool {
	at := slices.IndexFunc(l.commands, func(command *pb.SessionCommand) bool { return command.Id == id })
	if at >= 0 {
		l.commands = slices.Delete(l.commands, at, at+1)
	}
	return at >= 0
}

// room is how many commands may be sent now.
func (l *Link) room() int { return max(l.mostAhead-len(l.ahead), 0) }

func (l *Link) ready() bool {
	return l.heartbeatDue || l.goodbyeDue || len(l.cancels) > 0 || (len(l.commands) > 0 && l.room() > 0)
}

// onEvent: the command with this id is not unanswered any more. Of several locks the first event counts.
func (l *Link) onEvent(id int64) {
	at := slices.IndexFunc(l.ahead, func(one unanswered) bool { return one.first <= id && id <= one.last })
	if at >= 0 {
		l.ahead = slices.Delete(l.ahead, at, at+1)
	}
}

// note counts commands that are sent. OpenSession, which has an event of its own, is noted as 0.
func (l *Link) note(commands []*pb.SessionCommand) {
	for _, command := range commands {
		if command.GetOpen() != nil {
			l.ahead = append(l.ahead, unanswered{})
			continue
		}
		ids := int64(max(len(command.GetAcquire().GetLocks()), int(command.GetAdopt().GetHoldCount()), 1))
		l.ahead = append(l.ahead, unanswered{command.Id, command.Id + ids - 1})
	}
}

// pack makes the next message, or returns nil. A heartbeat's time is taken here, before the message goes to gRPC.
func (l *Link) pack(now time.Duration) *pb.SessionRequest {
	message := &pb.SessionRequest{}
	left := l.maxBytes
	if l.heartbeatDue {
		l.heartbeatDue = false
		beat := &pb.SessionCommand{Command: &pb.SessionCommand_Heartbeat{
			Heartbeat: &pb.Heartbeat{Seq: l.session.send(now)}}}
		left -= proto.Size(beat) + frame
		message.Commands = append(message.Commands, beat)
		l.heartbeatAt = now + l.interval
	}
	for ; len(l.cancels) > 0 && left >= cancelBytes; l.cancels = l.cancels[1:] {
		left -= cancelBytes
		message.Commands = append(message.Commands, &pb.SessionCommand{Command: &pb.SessionCommand_Cancel{
			Cancel: &pb.CancelAcquire{AcquireId: l.cancels[0]}}})
	}
	if l.goodbyeDue {
		left -= cancelBytes
	}
	fit := min(len(l.commands), l.room())
	if l.mostBytes > left {
		fit = l.fitting(fit, left, len(message.Commands) > 0)
	}
	l.note(l.commands[:fit])
	if fit == len(l.commands) && len(message.Commands) == 0 {
		message.Commands, l.commands, l.mostBytes = l.commands, nil, 0
	} else {
		message.Commands = append(message.Commands, l.commands[:fit]...)
		if l.commands = l.commands[fit:]; len(l.commands) == 0 {
			l.mostBytes = 0
		}
	}
	if l.goodbyeDue && len(l.cancels) == 0 && (len(l.commands) == 0 || l.room() == 0) {
		l.goodbyeDue, l.commands, l.mostBytes = false, nil, 0 // it waits for no answers, and nothing may follow it
		message.Commands = append(message.Commands, &pb.SessionCommand{Command: &pb.SessionCommand_Goodbye{
			Goodbye: &pb.Goodbye{}}})
	}
	if len(message.Commands) == 0 {
		return nil
	}
	return message
}

// fitting is how many of the first commands fit into so many bytes: at least one, if it goes alone.
func (l *Link) fitting(first, left int, beside bool) int {
	for i, command := range l.commands[:first] {
		left -= proto.Size(command) + frame
		if left < 0 && (i > 0 || beside) {
			return i
		}
	}
	return first
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
