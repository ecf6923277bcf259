// SPDX-License-Identifier: Apache-2.0

// Package tests runs the Go package with real brokers and a real store, and compares it with the repository.
package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const patience = 30 * time.Second

var background = context.Background()

func check(t testing.TB, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		check(t, time.Now().Before(deadline), "%s within %v", what, patience)
	}
}

// setting is the value of an environment variable, or another one.
func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// repository is its root.
func repository(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	check(t, err == nil, "%v", err)
	return root
}

// process is a program under test, with its log. It is killed at the end of its test.
type process struct {
	t    testing.TB
	name string
	log  string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) launch() {
	p.t.Helper()
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(p.t, err == nil, "%v", err)
	defer output.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = p.cmd.Start()
	check(p.t, err == nil, "%s: %v", p.args[0], err)
	done, cmd := make(chan struct{}), p.cmd
	p.done = done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
}

func (p *process) signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) text() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

// world is the processes of one test.
type world struct {
	t      *testing.T
	folder string
	redis  string // its URL
	store  *process
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	folder, err := os.MkdirTemp("", "dlgo") // short, because the path of a socket must be
	check(t, err == nil, "%v", err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	w := &world{t: t, folder: folder}
	path := filepath.Join(folder, "redis.sock")
	w.redis = "unix://" + path
	w.store = w.start("redis", setting("REDIS_SERVER", "redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
		"--appendonly", "no", "--dir", folder, "--maxmemory-policy", "noeviction")
	eventually(t, "redis-server answers", func() bool {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return w
}

// flush empties the store.
func (w *world) flush() {
	w.t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(w.redis, "unix://"))
	check(w.t, err == nil, "%v", err)
	defer conn.Close()
	_, _ = conn.Write([]byte("FLUSHALL\r\n"))
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	check(w.t, err == nil && string(answer) == "+OK\r\n", "%q %v", answer, err)
}

func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, name: name, log: filepath.Join(w.folder, name+".log"), args: args}
	p.launch()
	w.t.Cleanup(func() {
		if p.kill(); w.t.Failed() {
			w.t.Logf("---- %s ----\n%s", name, p.text())
		}
	})
	return p
}

// broker is a distlockd.
type broker struct {
	*process
	address string
}

func (w *world) broker(name string, more ...string) *broker {
	w.t.Helper()
	daemon := setting("DISTLOCKD", filepath.Join(repository(w.t), "build/release/bin/distlockd"))
	address := "unix://" + filepath.Join(w.folder, name+".sock")
	args := append([]string{daemon, "--listen", address, "--redis", w.redis, "--http", "127.0.0.1:0"}, more...)
	b := &broker{w.start(name, args...), address}
	b.awaitServing()
	return b
}

func (b *broker) awaitServing() {
	b.t.Helper()
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(b.t, err == nil, "%v", err)
	defer conn.Close()
	eventually(b.t, b.name+" serves", func() bool {
		select {
		case <-b.done:
			b.t.Fatalf("%s has ended:\n%s", b.name, b.text())
		default:
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{},
			grpc.WaitForReady(true))
		return err == nil && answer.Status == grpc_health_v1.HealthCheckResponse_SERVING
	})
}

// drain ends it in good order.
func (b *broker) drain() {
	b.t.Helper()
	b.signal(syscall.SIGTERM)
	select {
	case <-b.done:
	case <-time.After(patience):
		b.t.Fatalf("%s does not end", b.name)
	}
	code := b.cmd.ProcessState.ExitCode()
	check(b.t, code == 0, "%s has ended with %d", b.name, code)
}

func dial(t testing.TB, address string, options ...distlock.DialOption) *distlock.Client {
	t.Helper()
	dl, err := distlock.Dial(address, options...)
	check(t, err == nil, "%v", err)
	t.Cleanup(func() { _ = dl.Close() })
	return dl
}

// must is the value of a call that succeeds.
func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		check(t, err == nil, "%v", err)
		return value
	}
}

// kept is must for a lock that lasts until the end of the test, also when nothing else refers to it.
func kept(t testing.TB) func(*distlock.Lock, error) *distlock.Lock {
	t.Helper()
	return func(held *distlock.Lock, err error) *distlock.Lock {
		t.Helper()
		t.Cleanup(func() { runtime.KeepAlive(held) })
		return must[*distlock.Lock](t)(held, err)
	}
}

func lock(t testing.TB, dl *distlock.Client, key string, options ...distlock.Option) *distlock.Lock {
	t.Helper()
	return kept(t)(dl.Lock(background, key, options...))
}

func ends(t testing.TB, held *distlock.Lock) distlock.Cause {
	t.Helper()
	select {
	case <-held.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lock does not end")
	}
	return lostBy(context.Cause(held.Context()))
}

func lostBy(err error) distlock.Cause {
	var lost *distlock.LostError
	if !errors.As(err, &lost) {
		return distlock.Cause(fmt.Sprint("no loss: ", err))
	}
	return lost.Cause
}

func isBusy(err error) *distlock.BusyError {
	var busy *distlock.BusyError
	if errors.As(err, &busy) {
		return busy
	}
	return nil
}
