// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
	"distlock.dev/client/go/internal/fakebroker"
)

func TestALockWhoseCallerNamesNoOwnerShowsTheProcess(t *testing.T) {
	t.Parallel()
	broker := fakebroker.New(t)
	dl := dial(t, broker.Address)
	lock(t, dl, "a")
	lock(t, dl, "b", distlock.Owner("me"))
	lock(t, dl, "c", distlock.Reentrant())
	var owners []string
	for _, asked := range broker.Session(1).Got("acquire") {
		owners = append(owners, asked.GetAcquire().Locks[0].Owner)
	}
	host := must[string](t)(os.Hostname())
	check(t, strings.HasSuffix(owners[0], fmt.Sprintf("@%s:%d", host, os.Getpid())) && owners[0][0] != '@', "%v", owners)
	check(t, owners[1] == "me" && owners[2] == "", "others keep what they name: %v", owners)
}

func TestABrokerThatHangsUpAtOnceIsNoMissingBroker(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener := must[net.Listener](t)(net.Listen("unix", path))
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			_ = conn.Close()
		}
	}()
	dl := dial(t, "unix://"+path)
	_, err := dl.Lock(background, "k", distlock.Try())
	check(t, strings.Contains(fmt.Sprint(err), "limit max-connections-per-peer"), "%v", err)
	_, err = dl.Inspect(background, "k")
	check(t, strings.Contains(fmt.Sprint(err), "limit max-connections-per-peer"), "%v", err)
}

func TestDialSaysWhatIsWrongWithASetting(t *testing.T) {
	t.Parallel()
	for problem, option := range map[string]distlock.DialOption{
		"/nosuch": distlock.WithTokenFile("/nosuch"), "the token has 2 lines": distlock.WithToken("a\nb"),
	} {
		_, err := distlock.Dial("unix:///s", option)
		check(t, err != nil && strings.Contains(err.Error(), problem), "%q: %v", problem, err)
	}
	dl := dial(t, "tls://127.0.0.1:1", distlock.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}))
	_, err := dl.Lock(background, "k", distlock.Try())
	check(t, unavailable(err), "it is tried: %v", err)
}

func unavailable(err error) bool {
	var away *distlock.UnavailableError
	return errors.As(err, &away)
}

func TestDrainedWaitsForWhatIsOnItsWayBack(t *testing.T) {
	t.Parallel()
	broker := distlocktest.New()
	dl := broker.Client()
	check(t, dl.Drained(background) == nil && dl.Stats() == distlock.Stats{}, "at first there is nothing")
	held := must[*distlock.Lock](t)(dl.Lock(background, "k"))
	drained := make(chan error, 1)
	go func() { drained <- dl.Drained(background) }()
	broker.Settle()
	check(t, len(drained) == 0 && dl.Stats().Held == 1, "one is held")
	broker.Freeze()
	check(t, held.Close() == nil, "it is on its way back")
	broker.Settle()
	isDrained := func() bool {
		soon, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		return !errors.Is(dl.Drained(soon), context.DeadlineExceeded) || len(drained) > 0
	}
	check(t, !isDrained(), "the broker has not confirmed it")
	broker.Stop()
	check(t, !isDrained(), "nor could it: the next session frees it")
	broker.Start()
	broker.Thaw()
	broker.Advance(2 * time.Second)
	check(t, <-drained == nil, "now it is confirmed")
}
