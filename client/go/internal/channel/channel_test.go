// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestSplit(t *testing.T) {
	found, err := Split(" a:1, /run/x.sock ,a:1,unix:///y,dns:///b:2")
	want := []string{"a:1", "unix:///run/x.sock", "unix:///y", "dns:///b:2"}
	if err != nil || !slices.Equal(found, want) {
		t.Fatalf("%v %v", found, err)
	}
	found, err = Split("ipv4:127.0.0.1:7420,ipv6:[::1]:7420,ipv6host:1,unix:/x")
	want = []string{"passthrough:///127.0.0.1:7420", "passthrough:///[::1]:7420", "ipv6host:1", "unix:/x"}
	if err != nil || !slices.Equal(found, want) {
		t.Fatalf("%v %v", found, err)
	}
	for _, wrong := range []string{"", " , ", "http://a:1", "unix://", "ipv4:localhost:1", "ipv4:[::1]:1",
		"ipv6:1.2.3.4:1", "ipv4:1.2.3.4", "ipv6:"} {
		if found, err := Split(wrong); err == nil {
			t.Errorf("%q is taken for %v", wrong, found)
		}
	}
}

func TestAPortIsNeededAndFits(t *testing.T) {
	for address, problem := range map[string]string{
		"127.0.0.1":          "has no port; write 127.0.0.1:7420",
		"tls://broker":       "has no port; write tls://broker:7420",
		"dns:///broker":      "has no port; write dns:///broker:7420",
		"broker:":            "has no port; write broker:7420",
		"[::1]":              "has no port; write [::1]:7420",
		"::1":                "is IPv6 without brackets; write [::1]:7420",
		"127.0.0.1:72956":    "has the port 72956; a port is a number of 1..65535",
		"tls://broker:0":     "has the port 0; a port is a number of 1..65535",
		"a:1,broker:locks":   "has the port locks; a port is a number of 1..65535",
		"tls://[::1]:65536":  "has the port 65536; a port is a number of 1..65535",
		"ipv4:1.2.3.4:70000": "has the port 70000; a port is a number of 1..65535",
	} {
		if found, err := Split(address); err == nil || !strings.HasSuffix(err.Error(), problem) {
			t.Errorf("%q: %v %v", address, found, err)
		}
	}
	for _, good := range []string{"[::1]:65535", "tls://[::1]:1", "dns://8.8.8.8/broker:7420", "dns:broker:7420",
		"unix:x"} {
		if found, err := Split(good); err != nil || found[0] != good {
			t.Errorf("%q: %v %v", good, found, err)
		}
	}
}

func TestTheEnvironmentNamesTheBroker(t *testing.T) {
	t.Setenv("DISTLOCK_SERVER", "a:1,b:2")
	if DefaultAddress() != "a:1,b:2" {
		t.Fatal(DefaultAddress())
	}
	t.Setenv("DISTLOCK_SERVER", "")
	if got := DefaultAddress(); got != loopback && got != "unix://"+socket {
		t.Fatal(got)
	}
}

func TestEachAddressIsTriedBeforeAPause(t *testing.T) {
	addresses := NewAddresses([]string{"a", "b", "c"})
	seen := map[string]bool{addresses.Present(): true}
	for range 2 {
		if !addresses.Next() {
			t.Fatal("a pause before all were tried")
		}
		seen[addresses.Present()] = true
	}
	if len(seen) != 3 || addresses.Next() || !addresses.Next() {
		t.Fatal("no pause after a round", seen)
	}
	addresses.Succeed()
	for left := 2; left >= 0; left-- {
		if addresses.Next() != (left > 0) {
			t.Fatal("a success begins a new round")
		}
	}
	if addresses.After(addresses.Present()) == addresses.Present() {
		t.Fatal("After names the next one")
	}
}

func TestARefusalHasTheDetailsOfItsStatus(t *testing.T) {
	made, err := status.New(codes.Aborted, "held").WithDetails(
		&errdetails.ErrorInfo{Reason: "LOCK_HELD", Domain: "distlock",
			Metadata: map[string]string{"holder_id": "h", "fencing_token": "12", "queue_length": "3"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)},
		&errdetails.ResourceInfo{Owner: "host 7"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "lock.ttl", Description: "is too short"}}})
	if err != nil {
		t.Fatal(err)
	}
	found := Refusal(made.Err())
	wire := found.Wire
	if found.Reason != "LOCK_HELD" || wire.Message != "held" || wire.RetryAfter.AsDuration() != 2*time.Second ||
		wire.QueueLength != 3 || wire.Holders[0].Owner != "host 7" || wire.Holders[0].FencingToken != 12 ||
		wire.FieldProblems[0].Field != "lock.ttl" {
		t.Fatal(found)
	}
}

func TestARefusalOfGRPCItself(t *testing.T) {
	for code, reason := range map[codes.Code]string{
		codes.Unavailable: "UNREACHABLE", codes.DeadlineExceeded: "UNREACHABLE", codes.Internal: "INTERNAL",
		codes.Unimplemented: "NOT_SUPPORTED"} {
		if found := Refusal(status.Error(code, "so")); found.Reason != reason || found.Wire.Message != "so" {
			t.Error(found)
		}
	}
	if found := Refusal(errors.New("so")); found.Reason != "UNKNOWN" || found.Permanent() {
		t.Error(found)
	}
}
