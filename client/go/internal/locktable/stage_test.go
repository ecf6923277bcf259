// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

const second = time.Second

var markup = regexp.MustCompile("[\\s*`]+|//")

func plain(text string) string {
	return strings.Join(strings.Fields(markup.ReplaceAllString(text, " ")), " ")
}

var contract = sync.OnceValue(func() string {
	var all []string
	for _, name := range []string{"session.md", "lock_service.proto", "lock.proto", "look.proto"} {
		text, err := os.ReadFile(filepath.Join("../../../../proto/distlock/v1", name))
		if err != nil {
			panic(err)
		}
		all = append(all, plain(string(text)))
	}
	return strings.Join(all, " ")
})

// says names the sentence of the contract that a test is about, and checks that it is still there. Line breaks and
// markup do not matter.
func says(t *testing.T, sentence string) {
	t.Helper()
	t.Parallel()
	if !strings.Contains(contract(), plain(sentence)) {
		t.Errorf("the contract does not say: %s", sentence)
	}
}

// hold is one request of the program, and what it has heard.
type hold struct {
	request *Request
	lease   *Lease
	answers []*Refusal
	lost    int
}

func (h *hold) granted() bool { return len(h.answers) == 1 && h.answers[0] == nil }
func (h *hold) held() bool    { return h.lease.Phase() == Held }
func (h *hold) id() int64     { return h.lease.id }
func (h *hold) refused() string {
	if len(h.answers) == 0 || h.answers[0] == nil {
		return ""
	}
	return h.answers[0].Reason
}

// stage has a lock table whose clock and broker are the test.
type stage struct {
	t     *testing.T
	now   time.Duration
	table *Table

	draining []time.Duration // what the program was told
}

func newStage(t *testing.T, brokers int) *stage {
	t.Helper()
	s := &stage{t: t, now: 1000 * second}
	s.table = New(Config{
		Address: "there", Brokers: brokers, Label: "test", UnreachableAfter: 10 * second, ConnectTimeout: 5 * second,
		OnDraining: func(left time.Duration) { s.draining = append(s.draining, left) }})
	return s
}

func opened(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, 1)
	s.start()
	s.open()
	return s
}

func (s *stage) check(ok bool, what string, values ...any) {
	s.t.Helper()
	if !ok {
		s.t.Fatalf("not so: "+what, values...)
	}
}

func (s *stage) do(call func(fx *Effects)) {
	var fx Effects
	call(&fx)
	fx.Run()
}

func (s *stage) start() []*pb.SessionCommand {
	s.do(func(fx *Effects) { s.table.Start(s.now, nil, fx) })
	return s.sent()
}

// wait lets time pass; nothing runs.
func (s *stage) wait(d time.Duration) { s.now += d }

// tick lets time pass, and the timer run. Returns what is sent.
func (s *stage) tick(d time.Duration) []*pb.SessionCommand {
	s.wait(d)
	s.do(func(fx *Effects) { s.table.Tick(s.now, fx) })
	return s.sent()
}

// live lets time pass with the timer, and with a broker that answers each heartbeat if it is told to.
func (s *stage) live(d time.Duration, answer bool, limits ...*pb.LeaseLimit) {
	for until := s.now + d; s.now < until; {
		for _, command := range s.tick(min(50*time.Millisecond, until-s.now)) {
			if beat := command.GetHeartbeat(); beat != nil && answer {
				s.ack(beat.Seq, 3*second, limits...)
			}
		}
	}
}

func (s *stage) sentBy(link *Link) []*pb.SessionCommand {
	s.table.Ready(link)
	return link.Pack(s.now).GetCommands()
}

func (s *stage) sent() []*pb.SessionCommand { return s.sentBy(s.table.Link()) }

func kind(command *pb.SessionCommand) string {
	field := command.ProtoReflect().WhichOneof(command.ProtoReflect().Descriptor().Oneofs().ByName("command"))
	return string(field.Name())
}

func kinds(commands []*pb.SessionCommand) string {
	var all []string
	for _, command := range commands {
		all = append(all, kind(command))
	}
	return strings.Join(all, " ")
}

// expect checks the kinds of commands.
func (s *stage) expect(commands []*pb.SessionCommand, want string) {
	s.t.Helper()
	s.check(kinds(commands) == want, "sent are %q instead of %q", kinds(commands), want)
}

func (s *stage) only(commands []*pb.SessionCommand, what string) *pb.SessionCommand {
	s.t.Helper()
	for _, command := range commands {
		if kind(command) == what {
			return command
		}
	}
	s.t.Fatalf("no %s among %q", what, kinds(commands))
	return nil
}

func (s *stage) hearBy(link *Link, event *pb.SessionEvent) {
	s.do(func(fx *Effects) { s.table.OnEvent(link, event, s.now, fx) })
}

func (s *stage) open(features ...string) {
	if features == nil {
		features = []string{"permit", "adopt"}
	}
	s.openWith(&pb.SessionOpened{MaxMessageBytes: 64 << 10, Features: features})
}

func (s *stage) openWith(opened *pb.SessionOpened) {
	opened.Validity, opened.HeartbeatInterval = durationpb.New(3*second), durationpb.New(second)
	s.hearBy(s.table.Link(), &pb.SessionEvent{Event: &pb.SessionEvent_Opened{Opened: opened}})
}

func (s *stage) grantBy(link *Link, id int64, grant *pb.Grant) {
	if grant.FencingToken == 0 {
		grant.FencingToken = 7
	}
	if grant.LeaseId == "" {
		grant.LeaseId = "secret"
	}
	if grant.ValidFor == nil {
		grant.ValidFor = durationpb.New(3 * second)
	}
	s.hearBy(link, &pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Granted{Granted: grant}})
}

func (s *stage) grant(h *hold, validFor time.Duration, echo int64) {
	s.grantBy(s.table.Link(), h.id(), &pb.Grant{ValidFor: durationpb.New(validFor), EchoSeq: echo})
}

func (s *stage) ackBy(link *Link, seq int64, validFor time.Duration, limits ...*pb.LeaseLimit) {
	s.hearBy(link, &pb.SessionEvent{Event: &pb.SessionEvent_HeartbeatAck{HeartbeatAck: &pb.HeartbeatAck{
		Seq: seq, ValidFor: durationpb.New(validFor), Limits: limits}}})
}

func (s *stage) ack(seq int64, validFor time.Duration, limits ...*pb.LeaseLimit) {
	s.ackBy(s.table.Link(), seq, validFor, limits...)
}

func limit(h *hold, d time.Duration) *pb.LeaseLimit {
	return &pb.LeaseLimit{AcquireId: h.id(), ValidFor: durationpb.New(d)}
}

// beat sends a heartbeat now; its seq.
func (s *stage) beat() int64 { return s.beatBy(s.table.Link()) }

func (s *stage) beatBy(link *Link) int64 {
	link.heartbeatDue = true
	return s.only(s.sentBy(link), "heartbeat").GetHeartbeat().Seq
}

func (s *stage) refuseBy(link *Link, id int64, reason string, message string) {
	s.hearBy(link, &pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Refused{Refused: &pb.Refusal{
		Reason:  pb.RefusalReason(pb.RefusalReason_value["REFUSAL_REASON_"+reason]),
		Message: message}}})
}

func (s *stage) refuse(id int64, reason string) { s.refuseBy(s.table.Link(), id, reason, "so it is") }

func (s *stage) loseBy(link *Link, h *hold, reason string) {
	s.hearBy(link, &pb.SessionEvent{Id: h.id(), Event: &pb.SessionEvent_Lost{Lost: &pb.LeaseLost{
		Reason: pb.LostReason(pb.LostReason_value["LOST_REASON_"+reason]), Message: "so it is"}}})
}

func (s *stage) lose(h *hold, reason string) { s.loseBy(s.table.Link(), h, reason) }

func (s *stage) released(link *Link, id int64, outcome pb.ReleaseOutcome) {
	s.hearBy(link, &pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Released{Released: &pb.LeaseReleased{
		Outcome: outcome}}})
}

func (s *stage) queued(h *hold) {
	s.hearBy(s.table.Link(), &pb.SessionEvent{Id: h.id(), Event: &pb.SessionEvent_Queued{Queued: &pb.AcquireQueued{
		Position: 1}}})
}

func (s *stage) drain() {
	s.hearBy(s.table.Link(), &pb.SessionEvent{Event: &pb.SessionEvent_Draining{Draining: &pb.BrokerDraining{
		TimeLeft: durationpb.New(30 * second)}}})
}

func (s *stage) breaks(link *Link) { s.fails(link, nil) }

func (s *stage) fails(link *Link, status *Refusal) {
	s.do(func(fx *Effects) { s.table.OnBroken(link, CauseDisconnected, "the stream ended", status, s.now, fx) })
}

func (s *stage) notice(h *hold) (held bool) {
	s.do(func(fx *Effects) { held = s.table.Notice(h.lease, s.now, fx) })
	return held
}

func (s *stage) ask(wait time.Duration, specs ...*pb.LockSpec) *hold {
	h := &hold{}
	s.do(func(fx *Effects) {
		h.request = s.table.Acquire(specs, wait, func(r *Refusal) { h.answers = append(h.answers, r) }, nil, s.now, fx)
		h.lease = h.request.Leases[0]
		h.lease.OnEnd = func() { h.lost++ }
	})
	return h
}

func key(name string) *pb.LockSpec { return &pb.LockSpec{Key: name} }

func (s *stage) acquire(name string, wait time.Duration) *hold { return s.ask(wait, key(name)) }

func (s *stage) acquireAll(names ...string) *hold {
	var specs []*pb.LockSpec
	for _, name := range names {
		specs = append(specs, key(name))
	}
	return s.ask(Forever, specs...)
}

// hold is a lock that is held.
func (s *stage) hold(spec *pb.LockSpec, grant *pb.Grant) *hold {
	s.t.Helper()
	h := s.ask(Forever, spec)
	s.sent()
	if grant == nil {
		grant = &pb.Grant{}
	}
	grant.EchoSeq = s.table.Link().session.lastSent
	s.grantBy(s.table.Link(), h.id(), grant)
	s.check(h.granted() && h.held(), "the lock is held")
	return h
}

func validFor(d time.Duration) *pb.Grant { return &pb.Grant{ValidFor: durationpb.New(d)} }

func (s *stage) release(h *hold, tell func(pb.ReleaseOutcome)) []*pb.SessionCommand {
	s.do(func(fx *Effects) { s.table.Release(h.lease, tell, s.now, fx) })
	return s.sent()
}
