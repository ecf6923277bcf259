// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
)

// Programs that use the package as it is not meant leave no lock behind.

// ends are how a program ends in the body of Do, and with which code.
var programEnds = map[string]struct {
	end  func()
	code int
}{
	"os.Exit":       {func() { os.Exit(3) }, 3},
	"a panic":       {func() { panic("by the test") }, 2},
	"another panic": {func() { go panic("by the test"); select {} }, 2},
	"SIGTERM":       {func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM); select {} }, -1},
	"another program": {func() {
		_ = syscall.Exec("/bin/sh", []string{"sh", "-c", "read line; exit 5"}, os.Environ())
	}, 5},
}

// TestEnding is no test: it is the child of the next one.
func TestEnding(t *testing.T) {
	address := os.Getenv("END_UNDER_A_LOCK_OF")
	if address == "" {
		return
	}
	_ = dial(t, address).Do(background, "k", func(context.Context, int64) error {
		_, _ = os.Stdout.WriteString("held\n")
		programEnds[os.Getenv("END_BY")].end()
		return nil
	})
}

func TestAProgramThatEndsInABody(t *testing.T) {
	b := newWorld(t).broker("a")
	for name, wanted := range programEnds {
		t.Run(name, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestEnding$")
			child.Env = append(os.Environ(), "END_UNDER_A_LOCK_OF="+b.address, "END_BY="+name)
			input := must[interface{ Close() error }](t)(child.StdinPipe())
			output := must[interface{ Read([]byte) (int, error) }](t)(child.StdoutPipe())
			check(t, child.Start() == nil, "the child starts")
			defer func() { _ = child.Process.Kill() }()
			line := make([]byte, 5)
			_, _ = output.Read(line)
			check(t, string(line) == "held\n", "%q", line)
			dl, began := dial(t, b.address), time.Now()
			held := lock(t, dl, "k", distlock.Wait(patience))
			check(t, time.Since(began) < 13*time.Second, "before its ttl of 15 s has ended")
			_ = input.Close() // the other program lives until then
			_ = child.Wait()
			check(t, child.ProcessState.ExitCode() == wanted.code, "%v", child.ProcessState)
			check(t, held.Close() == nil, "it is held")
		})
	}
}

// TestOnce is no test: it is the child of the next one.
func TestOnce(t *testing.T) {
	address := os.Getenv("RUN_ONCE_BY")
	if address == "" {
		return
	}
	err := dial(t, address).Do(background, "once", func(context.Context, int64) error { return nil },
		distlock.MinHold(time.Hour))
	if err != nil {
		os.Exit(8)
	}
	os.Exit(7)
}

// The release has arrived, for a death would leave no block.
func TestMinHoldOfAProgramThatEndsRightAfterABody(t *testing.T) {
	b := newWorld(t).broker("a")
	child := exec.Command(os.Args[0], "-test.run=^TestOnce$")
	child.Env = append(os.Environ(), "RUN_ONCE_BY="+b.address)
	_ = child.Run()
	check(t, child.ProcessState.ExitCode() == 7, "%v", child.ProcessState)
	info := must[*distlock.LockInfo](t)(dial(t, b.address).Inspect(background, "once"))
	check(t, info.Block != nil && info.Block.TimeLeft > 50*time.Minute, "%+v", info)
}

func TestAGoroutineThatEndsInABody(t *testing.T) {
	dl := dial(t, newWorld(t).broker("a").address)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = dl.Do(background, "k", func(context.Context, int64) error {
			runtime.Goexit() // as t.FailNow
			return nil
		})
	}()
	<-done
	lock(t, dl, "k", distlock.Try())
}

func TestAReleaseWhoseContextHasEnded(t *testing.T) {
	b := newWorld(t).broker("a")
	dl, other := dial(t, b.address), dial(t, b.address)
	over, cancel := context.WithCancelCause(background)
	cancel(errors.New("the request has ended"))
	for range 100 {
		held := lock(t, dl, "k", distlock.Wait(patience))
		outcome, err := held.Release(over) // it is sent all the same
		check(t, outcome == distlock.Released && err == nil || outcome == distlock.OutcomeUnknown &&
			errors.Is(err, distlock.ErrUnknownOutcome) && strings.Contains(err.Error(), "the request has ended"),
			"%v %v", outcome, err)
		next := lock(t, other, "k", distlock.Wait(patience))
		outcome, err = held.Release(background)
		check(t, outcome == distlock.AlreadyGone && err == distlock.ErrReleased, "%v %v", outcome, err)
		check(t, next.Valid() && next.Close() == nil, "the next one has it")
	}
	_, err := dl.Lock(over, "k")
	check(t, errors.Is(err, context.Canceled) && strings.Contains(err.Error(), "the request has ended"), "%v", err)
}

func TestASecretIsNotPrinted(t *testing.T) {
	held := lock(t, dial(t, newWorld(t).broker("a").address), "k")
	for _, format := range []string{"%v", "%s", "%q"} {
		text := fmt.Sprintf(format, held)
		check(t, !strings.Contains(text, held.LeaseID()), "%s", text)
	}
}

func TestVetFindsCopies(t *testing.T) {
	t.Parallel()
	vet := exec.Command("go", "vet", "./testdata/copies")
	output, err := vet.CombinedOutput()
	found := string(output)
	check(t, err != nil && strings.Contains(found, "assignment copies lock value to other: distlock.dev/client/go.Lock") &&
		strings.Contains(found, "assignment copies lock value to other: distlock.dev/client/go.Client"), "%s", found)
}
