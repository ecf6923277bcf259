// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"errors"
	"unicode/utf8"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that the session's builds on
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Numbers of fields in lock_service.proto and lock.proto.
const (
	responseEvents protowire.Number = 1

	eventID       protowire.Number = 1
	eventGranted  protowire.Number = 4
	eventReleased protowire.Number = 6

	grantLeaseID   protowire.Number = 4
	grantHolderID  protowire.Number = 5
	grantToken     protowire.Number = 6
	grantValidFor  protowire.Number = 7
	grantEchoSeq   protowire.Number = 8
	grantWaited    protowire.Number = 10
	grantHoldCount protowire.Number = 11

	releasedOutcome protowire.Number = 2
)

var errText = errors.New("distlock: a text of the broker is no UTF-8")

// SessionCodec is for Session calls. It reads the two events that come with every lock, grants and releases, without
// what the lock table does not look at: names that the client knows, and times for people. Protobuf's own code makes an
// object of each of these, which is half of what a lock costs this process.
func SessionCodec() grpc.CallOption {
	return grpc.ForceCodecV2(sessionCodec{encoding.GetCodecV2("proto")})
}

type sessionCodec struct{ encoding.CodecV2 }

func (c sessionCodec) Unmarshal(data mem.BufferSlice, into any) error {
	response, known := into.(*pb.SessionResponse)
	if !known {
		return c.CodecV2.Unmarshal(data, into)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	return readResponse(buffer.ReadOnlyData(), response)
}

func readResponse(data []byte, response *pb.SessionResponse) error {
	return fields(data, func(number protowire.Number, bytes []byte, _ uint64) error {
		if number != responseEvents {
			return nil
		}
		event, err := readEvent(bytes)
		response.Events = append(response.Events, event)
		return err
	})
}

// fields calls take for each field: with its bytes, if it has a length, or its number.
func fields(data []byte, take func(number protowire.Number, bytes []byte, varint uint64) error) error {
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		var bytes []byte
		var varint uint64
		length := 0
		switch data = data[tag:]; kind {
		case protowire.BytesType:
			bytes, length = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			varint, length = protowire.ConsumeVarint(data)
		default:
			length = protowire.ConsumeFieldValue(number, kind, data)
		}
		if length < 0 {
			return protowire.ParseError(length)
		}
		if err := take(number, bytes, varint); err != nil {
			return err
		}
		data = data[length:]
	}
	return nil
}

func readEvent(data []byte) (*pb.SessionEvent, error) {
	var id int64
	var kind protowire.Number
	var body []byte
	err := fields(data, func(number protowire.Number, bytes []byte, varint uint64) error {
		if number == eventID {
			id = int64(varint)
		} else {
			kind, body = number, bytes
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch kind {
	case eventGranted:
		return readGranted(id, body)
	case eventReleased:
		return readReleased(id, body)
	}
	event := &pb.SessionEvent{}
	return event, proto.Unmarshal(data, event)
}

func readGranted(id int64, data []byte) (*pb.SessionEvent, error) {
	made := &struct { // one allocation for all
		event    pb.SessionEvent
		kind     pb.SessionEvent_Granted
		grant    pb.Grant
		validFor durationpb.Duration
		waited   durationpb.Duration
	}{}
	made.event.Id, made.event.Event, made.kind.Granted = id, &made.kind, &made.grant
	grant := &made.grant
	err := fields(data, func(number protowire.Number, bytes []byte, varint uint64) error {
		switch number {
		case grantLeaseID, grantHolderID:
			if !utf8.Valid(bytes) {
				return errText
			}
			if number == grantLeaseID {
				grant.LeaseId = string(bytes)
			} else {
				grant.HolderId = string(bytes)
			}
		case grantToken:
			grant.FencingToken = int64(varint)
		case grantEchoSeq:
			grant.EchoSeq = int64(varint)
		case grantHoldCount:
			grant.HoldCount = int32(varint)
		case grantValidFor:
			grant.ValidFor = &made.validFor
			return readDuration(bytes, grant.ValidFor)
		case grantWaited:
			grant.Waited = &made.waited
			return readDuration(bytes, grant.Waited)
		}
		return nil
	})
	return &made.event, err
}

func readDuration(data []byte, into *durationpb.Duration) error {
	return fields(data, func(number protowire.Number, _ []byte, varint uint64) error {
		switch number {
		case 1:
			into.Seconds = int64(varint)
		case 2:
			into.Nanos = int32(varint)
		}
		return nil
	})
}

func readReleased(id int64, data []byte) (*pb.SessionEvent, error) {
	made := &struct {
		event    pb.SessionEvent
		kind     pb.SessionEvent_Released
		released pb.LeaseReleased
	}{}
	made.event.Id, made.event.Event, made.kind.Released = id, &made.kind, &made.released
	err := fields(data, func(number protowire.Number, _ []byte, varint uint64) error {
		if number == releasedOutcome {
			made.released.Outcome = pb.ReleaseOutcome(int32(varint))
		}
		return nil
	})
	return &made.event, err
}
