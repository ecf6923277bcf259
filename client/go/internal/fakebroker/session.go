// SPDX-License-Identifier: Apache-2.0

package fakebroker

import (
	"fmt"
	"sync"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Session is one stream.
type Session struct {
	Ended             chan struct{} // closed with the call
	AnswersHeartbeats bool          // change it under Broker.Do

	broker     *Broker
	mu         sync.Mutex
	commands   []*pb.SessionCommand
	largest    int
	messages   int
	lastBeat   int64
	halfClosed bool
	outbox     []*pb.SessionEvent
	over       bool
	end        error
	more       chan struct{}
}

// Send has events sent.
func (s *Session) Send(events ...*pb.SessionEvent) {
	s.mu.Lock()
	s.outbox = append(s.outbox, events...)
	s.mu.Unlock()
	s.wake()
}

func (s *Session) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// End ends the call with a status; nil: OK.
func (s *Session) End(err error) {
	s.mu.Lock()
	s.over, s.end = true, err
	s.mu.Unlock()
	s.wake()
}

// Grant grants an acquire or an adoption. change may be nil.
func (s *Session) Grant(id int64, key string, change func(*pb.Grant)) {
	s.mu.Lock()
	echo := s.lastBeat
	s.mu.Unlock()
	grant := &pb.Grant{
		Key: key, LeaseId: fmt.Sprintf("lease %d of %s", s.broker.leases.Add(1), s.broker.path), HolderId: "h",
		FencingToken: s.broker.tokens.Add(1), HoldCount: 1, ValidFor: durationpb.New(Validity), EchoSeq: echo}
	if change != nil {
		change(grant)
	}
	s.Send(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Granted{Granted: grant}})
}

// Reject refuses a command.
func (s *Session) Reject(id int64, refusal *pb.Refusal) {
	s.Send(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Refused{Refused: refusal}})
}

// Lose ends a lease.
func (s *Session) Lose(id int64, reason pb.LostReason) {
	s.Send(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Lost{Lost: &pb.LeaseLost{
		Reason: reason, Message: "by the test"}}})
}

// Drain tells that the broker goes down.
func (s *Session) Drain() {
	s.Send(&pb.SessionEvent{Event: &pb.SessionEvent_Draining{Draining: &pb.BrokerDraining{
		TimeLeft: durationpb.New(30 * time.Second)}}})
}

func kind(command *pb.SessionCommand) string {
	message := command.ProtoReflect()
	if field := message.WhichOneof(message.Descriptor().Oneofs().ByName("command")); field != nil {
		return string(field.Name())
	}
	return ""
}

// Got lists the commands of a kind, such as "acquire", that have come.
func (s *Session) Got(what string) []*pb.SessionCommand {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*pb.SessionCommand
	for _, command := range s.commands {
		if kind(command) == what {
			found = append(found, command)
		}
	}
	return found
}

// Await waits for the count-th command of a kind.
func (s *Session) Await(what string, count int) *pb.SessionCommand {
	s.broker.t.Helper()
	Eventually(s.broker.t, fmt.Sprintf("%s number %d", what, count), func() bool { return len(s.Got(what)) >= count })
	return s.Got(what)[count-1]
}

// Traffic is how many messages have come, and how many bytes the largest had.
func (s *Session) Traffic() (messages, largest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages, s.largest
}

// HalfClosed tells whether the client has ended its side, which would be a break.
func (s *Session) HalfClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halfClosed
}

func (s *Session) read(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) {
	for {
		request, err := stream.Recv()
		if err != nil {
			s.mu.Lock()
			s.halfClosed = err.Error() == "EOF"
			s.mu.Unlock()
			return
		}
		s.mu.Lock()
		s.messages++
		s.largest = max(s.largest, proto.Size(request))
		for _, command := range request.Commands {
			s.lastBeat = max(s.lastBeat, command.GetHeartbeat().GetSeq())
		}
		s.commands = append(s.commands, request.Commands...)
		s.mu.Unlock()
		if !s.broker.Frozen.Load() {
			for _, command := range request.Commands {
				s.obey(command)
			}
		}
	}
}

func (s *Session) obey(command *pb.SessionCommand) {
	b := s.broker
	b.mu.Lock()
	onAcquire, onAdopt, answers := b.OnAcquire, b.OnAdopt, s.AnswersHeartbeats
	opened := &pb.SessionOpened{
		SessionId: "s", BrokerId: "b", Validity: durationpb.New(Validity), MaxMessageBytes: b.MaxBytes,
		HeartbeatInterval: durationpb.New(Validity / 3), MaxLeases: 10_000, Features: b.Features}
	b.mu.Unlock()
	switch kind(command) {
	case "open":
		s.Send(&pb.SessionEvent{Id: command.Id, Event: &pb.SessionEvent_Opened{Opened: opened}})
	case "acquire":
		onAcquire(s, command)
	case "adopt":
		onAdopt(s, command)
	case "release":
		s.Send(&pb.SessionEvent{Id: command.Id, Event: &pb.SessionEvent_Released{Released: &pb.LeaseReleased{
			Outcome: pb.ReleaseOutcome_RELEASE_OUTCOME_RELEASED}}})
	case "downgrade":
		s.Send(&pb.SessionEvent{Id: command.Id, Event: &pb.SessionEvent_Downgraded{
			Downgraded: &pb.LeaseDowngraded{}}})
	case "heartbeat":
		if answers {
			s.Ack(command.GetHeartbeat().Seq)
		}
	case "cancel":
		s.Reject(command.GetCancel().AcquireId, &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_CANCELLED})
	case "goodbye":
		s.End(nil)
	}
}

// Ack answers a heartbeat.
func (s *Session) Ack(seq int64) {
	s.Send(&pb.SessionEvent{Event: &pb.SessionEvent_HeartbeatAck{HeartbeatAck: &pb.HeartbeatAck{
		Seq: seq, ValidFor: durationpb.New(Validity)}}})
}
