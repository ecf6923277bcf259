// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"slices"
	"testing"

	pb "distlock.dev/client/go/distlockv1"
)

func TestALeaseDoesNotMoveToAnotherStore(t *testing.T) {
	says(t, "A broker whose `store_id` differs has another store: do not adopt there.")
	for _, stores := range [][2]string{{"one", "one"}, {"one", ""}, {"", "two"}, {"one", "two"}} {
		s := newStage(t, 2)
		s.start()
		open := func(store string) {
			s.openWith(&pb.SessionOpened{MaxMessageBytes: 64 << 10, Features: []string{"adopt"}, StoreId: store})
		}
		open(stores[0])
		lock, former := s.hold(key("k"), nil), s.table.Link()
		s.drain()
		s.start()
		open(stores[1])
		asks := func(one *pb.SessionCommand) bool { return one.GetAdopt() != nil || one.GetRelease() != nil }
		adopts := slices.ContainsFunc(s.sent(), asks)
		if stores != [2]string{"one", "two"} {
			s.check(adopts && len(s.draining) == 0, "it moves")
			continue
		}
		s.check(!adopts && len(s.draining) == 1, "the program is told, and nothing moves")
		s.breaks(former)
		s.check(lock.held() && lock.lost == 0, "the promise counts to its end")
		left := s.tick(4 * second)
		s.check(!lock.held() && lock.lost == 1, "the promise has ended")
		s.check(!slices.ContainsFunc(append(left, s.sent()...), asks), "nor is what is left of it")
	}
}
