// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/fakebroker"
)

// No lock is without an owner: whatever happens to a program, what nobody can give back any more is given back.

// written is what the package writes to the log.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *written) has(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.text.String(), part)
}

// logged is for tests that run alone, since the log is one for all.
func logged(t *testing.T) *written {
	t.Helper()
	var log written
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}

// collected waits for what a collection of garbage leads to.
func collected(t *testing.T, what string, condition func() bool) {
	t.Helper()
	fakebroker.Eventually(t, what, func() bool {
		runtime.GC()
		return condition()
	})
}

func TestADroppedHandleIsGivenBackAndWarnedOf(t *testing.T) {
	log := logged(t)
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	lock(t, dl, "dropped")
	s := broker.Session(1)
	collected(t, "the release", func() bool { return len(s.Got("release")) == 1 })
	_ = lock(t, dl, "closed").Close()
	must[distlock.Locks](t)(dl.LockAll(background, distlock.Keys("a", "b")))
	collected(t, "the others", func() bool { return len(s.Got("release")) == 4 && log.has(`\"b\"`) })
	check(t, log.has(`\"dropped\"`) && log.has("level=WARN") && log.has("Close"), "it is warned of")
	check(t, !log.has(`\"closed\"`), "not of one that was given back")
}

func TestWhatIsStillUsedIsKept(t *testing.T) {
	broker := fakebroker.New(t)
	take := func() (*distlock.Lock, context.Context, context.Context) {
		dl := must[*distlock.Client](t)(distlock.Dial(broker.Address))
		both := must[distlock.Locks](t)(dl.LockAll(background, distlock.Keys("kept", "dropped")))
		values := context.WithValue(lock(t, dl, "by its context").Context(), writtenKey{}, 1)
		joined, _ := must[distlock.Locks](t)(dl.LockAll(background, distlock.Keys("c", "d"))).Context()
		return both[0], values, joined
	}
	kept, one, joined := take() // their client and the other handles are gone
	s := broker.Session(1)
	collected(t, "the release of the dropped one", func() bool { return len(s.Got("release")) == 1 })
	for range 5 {
		runtime.GC()
		s.Await("heartbeat", len(s.Got("heartbeat"))+1)
	}
	check(t, len(s.Got("release")) == 1 && len(s.Got("goodbye")) == 0, "nothing else is given back")
	check(t, kept.Valid() && one.Err() == nil && joined.Err() == nil, "they are held")
	runtime.KeepAlive(kept)
	runtime.KeepAlive(one)
	runtime.KeepAlive(joined)
	kept, one = nil, nil
	collected(t, "the others", func() bool { return len(s.Got("release")) == 3 })
}

type writtenKey struct{}

func TestClientsThatAreDroppedEnd(t *testing.T) {
	broker := fakebroker.New(t)
	before := runtime.NumGoroutine()
	const clients = 60
	for number := range clients {
		dl := must[*distlock.Client](t)(distlock.Dial(broker.Address))
		lock(t, dl, fmt.Sprint(number))
	}
	for number := 1; number <= clients; number++ {
		s := broker.Session(number)
		collected(t, "the goodbye", func() bool { return len(s.Got("goodbye")) == 1 })
	}
	collected(t, "the end of their goroutines", func() bool { return runtime.NumGoroutine() < before+clients })
}

func TestACallKeepsItsClient(t *testing.T) {
	broker := fakebroker.New(t)
	broker.OnUnary["GetLock"] = func(context.Context, any) (any, error) {
		for range 3 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		return &pb.GetLockResponse{Lock: &pb.LockInfo{Key: "k"}}, nil
	}
	broker.OnAcquire = func(s *fakebroker.Session, command *pb.SessionCommand) {
		for range 3 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		fakebroker.GrantAll(s, command)
	}
	for range 5 {
		_, err := must[*distlock.Client](t)(distlock.Dial(broker.Address)).Inspect(background, "k")
		check(t, err == nil, "%v", err)
		held, err := must[*distlock.Client](t)(distlock.Dial(broker.Address)).Lock(background, "k")
		check(t, err == nil && held.Valid(), "%v", err)
		outcome, err := held.Release(background)
		check(t, outcome == distlock.Released, "%v", err)
	}
}

// panics is an observer whose exporter is down.
type panics struct {
	mu    sync.Mutex
	heard []string
}

func (p *panics) fail(method string) {
	p.mu.Lock()
	p.heard = append(p.heard, method)
	p.mu.Unlock()
	panic("the exporter is down")
}

func (p *panics) Acquiring(context.Context, []string, distlock.Mode) context.Context {
	p.fail("Acquiring")
	return nil
}

func (p *panics) Answered(context.Context, error, time.Duration) { p.fail("Answered") }

func (p *panics) Ended(context.Context, string, error, time.Duration) { p.fail("Ended") }

func (p *panics) Session(string, bool, error) { p.fail("Session") }

func (p *panics) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.heard, " ")
}

func TestAnObserverThatPanicsCostsNoLock(t *testing.T) {
	log := logged(t)
	broker := fakebroker.New(t)
	observer := &panics{}
	dl := dial(t, broker.Address, distlock.WithObserver(observer),
		distlock.OnDraining(func(time.Duration) { panic("by the program") }))
	held := lock(t, dl, "k", distlock.OnQueued(func(distlock.Queued) { panic("by the program") }))
	check(t, held.Valid() && held.Context().Err() == nil, "it is held")
	outcome, err := held.Release(background)
	check(t, outcome == distlock.Released && err == nil, "%v %v", outcome, err)
	again := lock(t, dl, "k")
	s := broker.Session(1)
	s.Lose(s.Got("acquire")[1].Id, pb.LostReason_LOST_REASON_FORCED)
	check(t, lostBy(ends(t, again)) == distlock.CauseForced, "%v", again)
	s.Drain()
	fakebroker.Eventually(t, "the last one's words", func() bool { return log.has("by the program") })
	for _, method := range []string{"Acquiring", "Answered", "Ended", "Session"} {
		check(t, strings.Contains(observer.all(), method) && log.has(method), "%s of %s", method, observer.all())
	}
	check(t, lock(t, dl, "l").Valid(), "the session goes on")
}

func TestWhatIsGivenBackWhileNoBrokerIsThereIsGivenBackByTheNext(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	held, silent := lock(t, dl, "k", distlock.Resume()), lock(t, dl, "l", distlock.Resume())
	broker.Frozen.Store(true)
	check(t, silent.Close() == nil, "the broker goes before it answers")
	broker.Session(1).Await("release", 1)
	broker.Stop()
	fakebroker.Eventually(t, "the break", held.AtRisk)
	outcome, err := held.Release(background)
	check(t, outcome == distlock.OutcomeUnknown && err == distlock.ErrUnknownOutcome, "%v %v", outcome, err)
	broker.Frozen.Store(false)
	broker.Start()
	s := broker.Session(2)
	s.Await("release", 2)
	adopted := map[int64]string{}
	for _, command := range s.Got("adopt") {
		adopted[command.Id] = command.GetAdopt().Lock.Key
	}
	released := map[string]bool{}
	for _, command := range s.Got("release") {
		released[adopted[command.GetRelease().AcquireId]] = true
	}
	check(t, released["k"] && released["l"], "both: %v of %v", released, adopted)
}
