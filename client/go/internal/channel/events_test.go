// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"math"
	"testing"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func granted(grant *pb.Grant) *pb.SessionEvent {
	return &pb.SessionEvent{Id: 7, Event: &pb.SessionEvent_Granted{Granted: grant}}
}

// All that the codec does not read must be what the lock table does not look at.
func TestEventsAreReadAsProtobufReadsThem(t *testing.T) {
	full := &pb.Grant{
		Namespace: "n", Key: "k", Mode: pb.LockMode_LOCK_MODE_SHARED, LeaseId: "secret", HolderId: "é",
		FencingToken: math.MaxInt64, ValidFor: &durationpb.Duration{Seconds: -3, Nanos: -5}, EchoSeq: -1,
		Ttl: durationpb.New(15e9), Waited: durationpb.New(1), HoldCount: 2, ReplicasAcked: 3,
		SinceGranted: durationpb.New(4)}
	unread := func(grant *pb.Grant) *pb.Grant {
		grant = proto.Clone(grant).(*pb.Grant)
		grant.Namespace, grant.Key, grant.Mode, grant.Ttl, grant.ReplicasAcked, grant.SinceGranted = "", "", 0, nil, 0, nil
		return grant
	}
	sent := &pb.SessionResponse{Events: []*pb.SessionEvent{
		granted(full), granted(&pb.Grant{}), granted(&pb.Grant{ValidFor: &durationpb.Duration{}}),
		{Id: 8, Event: &pb.SessionEvent_Released{Released: &pb.LeaseReleased{
			Lease: &pb.LeaseRef{Key: "k"}, Outcome: pb.ReleaseOutcome_RELEASE_OUTCOME_STILL_HELD}}},
		{Event: &pb.SessionEvent_HeartbeatAck{HeartbeatAck: &pb.HeartbeatAck{Seq: 3, ValidFor: durationpb.New(3e9),
			Limits: []*pb.LeaseLimit{{AcquireId: 7}}}}},
		{Id: 9, Event: &pb.SessionEvent_Refused{Refused: &pb.Refusal{Message: "held"}}},
		{Id: 10}, {},
	}}
	data, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	read := &pb.SessionResponse{}
	if err := readResponse(data, read); err != nil {
		t.Fatal(err)
	}
	want := proto.Clone(sent).(*pb.SessionResponse)
	for _, event := range want.Events {
		if grant := event.GetGranted(); grant != nil {
			event.Event = granted(unread(grant)).Event
		}
		if released := event.GetReleased(); released != nil {
			released.Lease = nil
		}
	}
	if !proto.Equal(read, want) {
		t.Fatalf("read    %v\nwanted  %v", read, want)
	}
	for cut := 1; cut < len(data); cut++ {
		whole := &pb.SessionResponse{}
		if (proto.Unmarshal(data[:cut], whole) == nil) != (readResponse(data[:cut], &pb.SessionResponse{}) == nil) {
			t.Fatalf("a message that is cut after %d bytes", cut)
		}
	}
}

func TestEventsOfANewerContractAreRead(t *testing.T) {
	data, err := proto.Marshal(granted(&pb.Grant{LeaseId: "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, 0x98, 0x06, 5, 0x9d, 0x06, 1, 2, 3, 4) // fields 99 and 100 with four bytes: unknown
	event, err := readEvent(data[:len(data)-9])
	if err != nil || event.GetGranted().GetLeaseId() != "secret" {
		t.Fatal(event, err)
	}
	response := append([]byte{0x0a, byte(len(data))}, data...)
	if err := readResponse(response, &pb.SessionResponse{}); err != nil {
		t.Fatal(err)
	}
	wrong, _ := proto.Marshal(granted(&pb.Grant{LeaseId: "x"}))
	wrong[len(wrong)-1] = 0xff
	if _, err := readEvent(wrong); err == nil {
		t.Fatal("a lease_id that is no text was read")
	}
}

func BenchmarkReadResponse(b *testing.B) {
	sent := &pb.SessionResponse{}
	for range 32 {
		grant := granted(&pb.Grant{Namespace: "default", Key: "report", Mode: 1, LeaseId: "0123456789012345678901234567",
			HolderId: "01234567", FencingToken: 1 << 50, ValidFor: durationpb.New(3e9), Ttl: durationpb.New(15e9),
			Waited: durationpb.New(1e5), HoldCount: 1})
		released := &pb.SessionEvent{Id: 8, Event: &pb.SessionEvent_Released{Released: &pb.LeaseReleased{
			Lease: &pb.LeaseRef{Key: "report", HolderId: "01234567"}, Outcome: 1}}}
		sent.Events = append(sent.Events, grant, released)
	}
	data, _ := proto.Marshal(sent)
	for name, read := range map[string]func() error{
		"ours":     func() error { return readResponse(data, &pb.SessionResponse{}) },
		"protobuf": func() error { return proto.Unmarshal(data, &pb.SessionResponse{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
