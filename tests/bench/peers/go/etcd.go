// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	leases       = 64   // as many parties may want locks at a time
	leaseSeconds = 3600 // etcd's own client renews its lease every 20 s, which no figure would show
)

// raw hands messages to gRPC as bytes: of etcd's services only a few fields are needed.
type raw struct{}

func (raw) Marshal(message any) ([]byte, error)      { return message.([]byte), nil }
func (raw) Unmarshal(data []byte, message any) error { *message.(*[]byte) = data; return nil }
func (raw) Name() string                             { return "proto" }

// ofEtcd locks by etcd's lock service. The same lease asking again for a name is granted at once, so that each party
// needs one of its own.
func ofEtcd(address string) (acquire, error) {
	etcd, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		return nil, err
	}
	call := func(method string, request []byte) (answer []byte, err error) {
		err = etcd.Invoke(context.Background(), method, request, &answer)
		return answer, err
	}
	free := make(chan uint64, leases)
	for range leases {
		answer, err := call("/etcdserverpb.Lease/LeaseGrant", number(nil, 1, leaseSeconds))
		if err != nil {
			return nil, err
		}
		lease, _ := protowire.ConsumeVarint(field(answer, 2))
		free <- lease
	}
	return func(key string) (release, error) {
		lease := <-free
		answer, err := call("/v3lockpb.Lock/Lock", number(text(nil, 1, key), 2, lease))
		if err != nil {
			return nil, err
		}
		held, _ := protowire.ConsumeBytes(field(answer, 2))
		if len(held) == 0 {
			return nil, errors.New("etcd names no key")
		}
		return func() error {
			_, err := call("/v3lockpb.Lock/Unlock", text(nil, 1, string(held)))
			free <- lease
			return err
		}, nil
	}, nil
}

func text(message []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(message, field, protowire.BytesType), value)
}

func number(message []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(message, field, protowire.VarintType), value)
}

// field returns what begins with the value of a field; nil when the message has none.
func field(message []byte, wanted protowire.Number) []byte {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if number == wanted {
			return message
		}
		skipped := protowire.ConsumeFieldValue(number, kind, message)
		if skipped < 0 {
			return nil
		}
		message = message[skipped:]
	}
	return nil
}
