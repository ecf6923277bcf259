// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/redsync"
)

// The package against real brokers and a real store: kinds of locks, kills, stops, drains.

func TestAllKinds(t *testing.T) {
	b := newWorld(t).broker("a")
	dl, other := dial(t, b.address), dial(t, b.address)
	held := lock(t, dl, "k", distlock.Owner("me"))
	_, err := other.Lock(background, "k", distlock.Try())
	busy := isBusy(err)
	check(t, busy != nil && busy.Holders[0].Owner == "me" && busy.Holders[0].Token == held.Token(), "%v", err)
	_, err = other.Lock(background, "k", distlock.Wait(50*time.Millisecond))
	check(t, isBusy(err) != nil && isBusy(err).Reason == distlock.ReasonWaitTimeout, "%v", err)
	check(t, must[bool](t)(dl.CheckToken(background, "k", held.Token())), "the newest")
	outcome, err := held.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	later := lock(t, other, "k")
	check(t, later.Token() > held.Token(), "tokens grow")
	check(t, !must[bool](t)(dl.CheckToken(background, "k", held.Token())), "not the newest any more")

	kept(t)(dl.RLock(background, "t"))
	kept(t)(other.RLock(background, "t", distlock.Try()))
	_, err = dl.Lock(background, "t", distlock.Try())
	check(t, isBusy(err) != nil, "readers hold it: %v", err)

	kept(t)(dl.Permits(background, "p", 3, 2))
	kept(t)(other.Permits(background, "p", 3, 1, distlock.Try()))
	_, err = dl.Permits(background, "p", 3, 1, distlock.Try())
	check(t, isBusy(err) != nil, "all permits are taken: %v", err)

	three := must[distlock.Locks](t)(dl.LockAll(background, append(distlock.Keys("b", "a"), distlock.Shared("r"))))
	check(t, len(three.Tokens()) == 3 && three.Valid(), "several locks")
	_, err = other.LockAll(background, distlock.Keys("c", "a"), distlock.Try())
	check(t, isBusy(err) != nil, "all or nothing: %v", err)
	outcomes, err := three.Release(background)
	check(t, err == nil && !slices.Contains(outcomes, distlock.AlreadyGone), "%v %v", outcomes, err)

	var wrong *distlock.InvalidRequestError
	_, err = dl.Lock(background, "x", distlock.TTL(time.Millisecond))
	check(t, errors.As(err, &wrong) && strings.Contains(wrong.FieldProblems[0].Field, "ttl"), "%v", err)
}

func TestLooking(t *testing.T) {
	b := newWorld(t).broker("a")
	dl := dial(t, b.address)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	seen, prefix := make(chan int, 100), make(chan string, 100)
	go func() {
		for info, err := range dl.Watch(ctx, "k", distlock.Namespace("n")) {
			if err == nil {
				seen <- info.HolderCount
			}
		}
		close(seen)
	}()
	check(t, <-seen == 0, "free at first")
	held := lock(t, dl, "k", distlock.Namespace("n"), distlock.Owner("me"),
		distlock.Metadata(map[string]string{"a": "b"}))
	check(t, <-seen == 1, "then held")
	info := must[*distlock.LockInfo](t)(dl.Inspect(background, "k", distlock.Namespace("n")))
	check(t, len(info.Holders) == 1 && info.Holders[0].Metadata["a"] == "b" && info.Token == held.Token() &&
		info.Holders[0].Mode == distlock.ModeExclusive && !info.Holders[0].AcquireTime.IsZero(), "%+v", info)
	go func() {
		for info, err := range dl.WatchPrefix(ctx, "", distlock.Namespace("-")) {
			if err == nil {
				prefix <- info.Namespace + "/" + info.Key
			}
		}
	}()
	check(t, <-prefix == "n/k", "all namespaces")
	var keys []string
	for info, err := range dl.List(background, "", distlock.Namespace("-")) {
		check(t, err == nil, "%v", err)
		keys = append(keys, info.Namespace+"/"+info.Key)
	}
	check(t, slices.Equal(keys, []string{"n/k"}), "%v", keys)
	_ = held.Close()
	check(t, <-seen == 0, "free again")
	cancel()
	_, open := <-seen
	check(t, !open, "the end of its context ends it")
}

func TestWatchingAllLocksUnderAPrefix(t *testing.T) {
	w := newWorld(t)
	b := w.broker("a")
	dl, other := dial(t, b.address), dial(t, b.address)
	early := lock(t, dl, "job/early")
	lock(t, dl, "elsewhere")
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	seen := make(chan string, 1000)
	go func() {
		listed := distlock.OnListed(func() { seen <- "listed" })
		for info, err := range other.WatchPrefix(ctx, "job/", listed) {
			if err == nil {
				seen <- fmt.Sprint(info.Key, " ", info.Free())
			}
		}
	}()
	await := func(wanted string) {
		t.Helper()
		for deadline := time.After(20 * time.Second); ; {
			select {
			case told := <-seen:
				check(t, !strings.HasPrefix(told, "elsewhere"), "%v", told)
				if told == wanted {
					return
				}
			case <-deadline:
				t.Fatalf("%q was not told", wanted)
			}
		}
	}
	check(t, <-seen == "job/early false" && <-seen == "listed", "what is taken at the beginning")
	late := lock(t, dl, "job/late")
	await("job/late false")
	_ = late.Close()
	await("job/late true")
	b.kill()
	check(t, ends(t, early) == distlock.CauseDisconnected, "lost")
	w.flush()
	b.launch()
	b.awaitServing()
	await("job/early true") // it became free while no broker was there
	await("listed")
}

func TestReentryDowngradeAndMaxHold(t *testing.T) {
	b := newWorld(t).broker("a")
	dl, other := dial(t, b.address), dial(t, b.address)
	first := lock(t, dl, "k", distlock.Owner("me"), distlock.Reentrant())
	second := lock(t, dl, "k", distlock.Owner("me"), distlock.Reentrant(), distlock.Try())
	check(t, second.Token() == first.Token() && second.HoldCount() == 2, "%v", second)
	outcome, err := first.Release(background)
	check(t, outcome == distlock.StillHeld && err == nil, "%v %v", outcome, err)
	err = second.Downgrade(background)
	check(t, err == nil, "%v", err)
	kept(t)(other.RLock(background, "k", distlock.Try()))
	outcome, err = second.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	held := lock(t, dl, "short", distlock.TTL(time.Second), distlock.MaxHold(time.Second))
	cause := ends(t, held)
	check(t, cause == distlock.CauseMaxHold || cause == distlock.CauseLapsed, "%v", cause)
}

func TestElections(t *testing.T) {
	b := newWorld(t).broker("a")
	dl, other := dial(t, b.address), dial(t, b.address)
	seen := make(chan string, 100)
	go func() {
		for leader, err := range other.Observe(background, "boss") {
			switch {
			case err != nil:
				return
			case leader == nil:
				seen <- "nobody"
			default:
				seen <- leader.Value
			}
		}
	}()
	check(t, <-seen == "nobody", "at first")
	term := must[*distlock.Lock](t)(dl.Campaign(background, "boss", "one"))
	check(t, <-seen == "one", "then one")
	err := term.Proclaim(background, "uno")
	check(t, err == nil && <-seen == "uno" && term.Valid(), "in office: %v", err)
	check(t, must[*distlock.Leadership](t)(other.Leader(background, "boss")).Value == "uno", "the same")
	_, err = other.Campaign(background, "boss", "two", distlock.Try())
	check(t, isBusy(err) != nil, "%v", err)
	_ = term.Close()
	kept(t)(other.Campaign(background, "boss", "two", distlock.Wait(10*time.Second)))
	for value := <-seen; value != "two"; value = <-seen {
		check(t, value == "nobody", "between two terms: %s", value)
	}
}

func TestDetached(t *testing.T) {
	b := newWorld(t).broker("a")
	dl := dial(t, b.address)
	lease := must[*distlock.Detached](t)(dl.AcquireDetached(background, "d", distlock.TTL(5*time.Second)))
	left := must[time.Duration](t)(lease.Renew(background))
	check(t, lease.Valid() && left > 4*time.Second && left <= 5*time.Second, "%v", left)
	_, err := dl.AcquireDetached(background, "d", distlock.Try())
	check(t, isBusy(err) != nil && isBusy(err).Holders[0].Token == lease.Token(), "%v", err)
	elsewhere := dial(t, b.address).Detached(lease.LeaseID(), "d")
	_ = must[time.Duration](t)(elsewhere.Renew(background))
	outcome, err := elsewhere.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	_, err = lease.Renew(background)
	check(t, lostBy(err) == distlock.CauseTaken && !lease.Valid(), "%v", err)
}

func TestAKillOfTheBrokerLosesLocksAndKeepsWaits(t *testing.T) {
	b := newWorld(t).broker("a")
	dl := dial(t, b.address)
	held := lock(t, dl, "k", distlock.TTL(time.Second))
	got := make(chan error, 1)
	waiting := dial(t, b.address, distlock.WithUnreachableAfter(patience))
	go func() {
		_, err := waiting.Lock(background, "k")
		got <- err
	}()
	eventually(t, "a waiter", func() bool {
		return must[*distlock.LockInfo](t)(dl.Inspect(background, "k")).QueueLength == 1
	})
	b.kill()
	cause := ends(t, held)
	check(t, cause == distlock.CauseDisconnected || cause == distlock.CauseLapsed, "%v", cause)
	b.launch()
	err := <-got
	check(t, err == nil, "%v", err)
}

func TestAStoppedBrokerEndsBelief(t *testing.T) {
	b := newWorld(t).broker("a")
	dl := dial(t, b.address)
	held := lock(t, dl, "k")
	b.signal(syscall.SIGSTOP)
	cause := ends(t, held)
	b.signal(syscall.SIGCONT)
	check(t, cause == distlock.CauseLapsed, "%v", cause)
	check(t, lock(t, dl, "k", distlock.Wait(patience)).Token() > held.Token(), "it goes on")
}

// pair is a client of two brokers that share a store.
func pair(t *testing.T) (dl *distlock.Client, brokers [2]*broker) {
	w := newWorld(t)
	brokers = [2]*broker{w.broker("a", "--drain-timeout", "20s"), w.broker("b", "--drain-timeout", "20s")}
	return dial(t, brokers[0].address+","+brokers[1].address), brokers
}

// through is the broker that a lock is held through, and the other one.
func through(t *testing.T, dl *distlock.Client, held *distlock.Lock, brokers [2]*broker) (used, other *broker) {
	t.Helper()
	info := must[*distlock.LockInfo](t)(dl.Inspect(background, held.Key()))
	if strings.Contains(brokers[0].text(), info.Holders[0].BrokerID) {
		return brokers[0], brokers[1]
	}
	return brokers[1], brokers[0]
}

func TestADrainMovesWhatIsHeldAndWhatWaits(t *testing.T) {
	dl, brokers := pair(t)
	var held []*distlock.Lock
	for i := range 200 {
		held = append(held, lock(t, dl, fmt.Sprint("key ", i)))
	}
	used, other := through(t, dl, held[0], brokers)
	blocker := lock(t, dial(t, other.address), "w")
	got := make(chan error, 1)
	go func() {
		_, err := dl.Lock(background, "w")
		got <- err
	}()
	eventually(t, "a waiter", func() bool {
		return must[*distlock.LockInfo](t)(dl.Inspect(background, "w")).QueueLength == 1
	})
	used.drain()
	for _, one := range held {
		check(t, one.Valid() && one.Context().Err() == nil, "%v", one)
	}
	_ = blocker.Close()
	err := <-got
	check(t, err == nil, "%v", err)
	for _, one := range held {
		outcome, err := one.Release(background)
		check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	}
}

func TestResumeAfterAKill(t *testing.T) {
	dl, brokers := pair(t)
	held, plain := lock(t, dl, "k", distlock.Resume()), lock(t, dl, "plain")
	used, other := through(t, dl, held, brokers)
	used.kill()
	_ = ends(t, plain)
	eventually(t, "the adoption", func() bool { return held.Valid() && !held.AtRisk() })
	info := must[*distlock.LockInfo](t)(dial(t, other.address).Inspect(background, "k"))
	check(t, info.Token == held.Token(), "the same token")
	outcome, err := held.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
}

// TestHolder is no test: it is the child of the next one.
func TestHolder(t *testing.T) {
	address := os.Getenv("HOLD_A_LOCK_OF")
	if address == "" {
		return
	}
	held := lock(t, dial(t, address), "k")
	_, _ = os.Stdout.WriteString("held\n")
	<-held.Context().Done()
}

// seesProcessesEnd tells whether the kernel is Linux 6.9 or newer.
func seesProcessesEnd(t *testing.T) bool {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	check(t, err == nil, "%v", err)
	var major, minor int
	_, err = fmt.Sscanf(string(release), "%d.%d", &major, &minor)
	check(t, err == nil, "%s: %v", release, err)
	return major > 6 || major == 6 && minor >= 9
}

func TestAKillOfTheProcessFreesItsLocks(t *testing.T) {
	var more []string
	wait := patience
	if seesProcessesEnd(t) { // at once, long before the last promise ends
		more, wait = []string{"--validity", "30s", "--default-ttl", "60s"}, 15*time.Second
	}
	b := newWorld(t).broker("a", more...)
	child := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	child.Env = append(os.Environ(), "HOLD_A_LOCK_OF="+b.address)
	output := must[interface{ Read([]byte) (int, error) }](t)(child.StdoutPipe())
	check(t, child.Start() == nil, "the child starts")
	line := make([]byte, 5)
	_, _ = output.Read(line)
	check(t, string(line) == "held\n", "the child has the lock: %q", line)
	dl := dial(t, b.address)
	_, err := dl.Lock(background, "k", distlock.Try())
	check(t, isBusy(err) != nil, "%v", err)
	_ = child.Process.Kill()
	_ = child.Wait()
	lock(t, dl, "k", distlock.Wait(wait))
}

func TestMutualExclusionUnderLoad(t *testing.T) {
	b := newWorld(t).broker("a")
	var clients [4]*distlock.Client
	for i := range clients {
		clients[i] = dial(t, b.address)
	}
	var group sync.WaitGroup
	inside, tokens := 0, []int64{}
	for worker := range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 25 {
				err := clients[worker%4].Do(background, "shared", func(_ context.Context, token int64) error {
					inside++ // the race detector does not see locks of other processes: it is told by the mutex
					tokens = append(tokens, token)
					inside--
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	check(t, inside == 0 && len(tokens) == 400 && slices.IsSorted(tokens), "%d tokens", len(tokens))
	check(t, len(slices.Compact(tokens)) == 400, "each token once")
}

func TestRedsync(t *testing.T) {
	b := newWorld(t).broker("a")
	one, other := redsync.New(dial(t, b.address)), redsync.New(dial(t, b.address))
	mutex, rival := one.NewMutex("m"), other.NewMutex("m", redsync.WithTries(2))
	check(t, mutex.Lock() == nil, "locked")
	err := rival.Lock()
	check(t, errors.Is(err, redsync.ErrFailed), "%v", err)
	ok, err := mutex.Unlock()
	check(t, ok && err == nil, "unlocked: %v", err)
	check(t, rival.Lock() == nil, "then the other one")
}
