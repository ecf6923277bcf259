// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"testing"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// BenchmarkPair acquires and releases one lock, with a broker that answers at once.
func BenchmarkPair(b *testing.B) {
	s := &stage{now: 1000 * second, table: New(Config{Address: "there", Brokers: 1, ConnectTimeout: second})}
	s.start()
	s.open()
	link, validFor := s.table.Link(), durationpb.New(3*second)
	outcome := func(pb.ReleaseOutcome) {}
	b.ReportAllocs()
	for range b.N {
		h := s.ask(Forever, key("k"))
		s.sentBy(link)
		s.grantBy(link, h.id(), &pb.Grant{ValidFor: validFor})
		s.do(func(fx *Effects) { s.table.Release(h.lease, outcome, s.now, fx) })
		s.released(link, s.sentBy(link)[0].Id, released)
	}
}
