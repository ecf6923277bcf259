// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
)

const (
	frame           = 8        // tag and length of a command in its message, at most
	messageBytes    = 64 << 10 // before the broker has told its limit
	releaseBytes    = 32       // of a release, at most
	timeBytes       = 24       // of a max_wait, at most
	defaultValidity = 3 * time.Second
	leastPause      = 10 * time.Millisecond
)

// Link is a session with a broker, or the place for the next one; and the commands that it has not sent yet.
type Link struct {
	commands     []*pb.SessionCommand
	mostBytes    int // that all of these can have
	session      belief
	streaming    bool
	opened       bool
	acked        bool
	adopts       bool
	draining     bool
	leaving      bool
	heartbeatDue bool
	validity     time.Duration
	interval     time.Duration
	heartbeatAt  time.Duration
	drainedAt    time.Duration
	maxBytes     int
}

func newLink() *Link {
	return &Link{maxBytes: messageBytes, heartbeatAt: Never, drainedAt: Never}
}

// Opened tells whether the broker has answered the OpenSession.
func (l *Link) Opened() bool { return l.opened }

// Acked tells whether the session has had the answer to a heartbeat.
func (l *Link) Acked() bool { return l.acked }

// Said tells whether all has been sent that there was to say: the goodbye has left.
func (l *Link) Said() bool { return l.leaving && len(l.commands) == 0 }

func (l *Link) start(now, grace time.Duration) {
	*l = Link{session: newBelief(now, grace), streaming: true, heartbeatAt: Never, drainedAt: Never,
		maxBytes: l.maxBytes}
}

// usable tells whether commands may be added.
func (l *Link) usable() bool { return l.streaming && !l.leaving }

func (l *Link) add(command *pb.SessionCommand) { l.addOf(command, proto.Size(command)) }

// addOf adds a command that has at most so many bytes.
func (l *Link) addOf(command *pb.SessionCommand, most int) {
	l.commands = append(l.commands, command)
	l.mostBytes += most + frame
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
	fit := len(l.commands)
	if l.mostBytes > left {
		fit = l.fitting(left, len(message.Commands) > 0)
	}
	if fit == len(l.commands) && len(message.Commands) == 0 {
		message.Commands, l.commands, l.mostBytes = l.commands, nil, 0
	} else {
		message.Commands = append(message.Commands, l.commands[:fit]...)
		if l.commands = l.commands[fit:]; len(l.commands) == 0 {
			l.mostBytes = 0
		}
	}
	if len(message.Commands) == 0 {
		return nil
	}
	return message
}

// fitting is how many commands fit into so many bytes: at least one, if it goes alone.
func (l *Link) fitting(left int, beside bool) int {
	for i, command := range l.commands {
		left -= proto.Size(command) + frame
		if left < 0 && (i > 0 || beside) {
			return i
		}
	}
	return len(l.commands)
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
