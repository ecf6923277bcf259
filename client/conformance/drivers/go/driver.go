// SPDX-License-Identifier: Apache-2.0

// The Go package, as client/conformance drives it. Commands come as JSON lines on stdin; what the package says goes out
// as JSON lines on stdout. client/conformance/README.md lists both.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	distlock "distlock.dev/client/go"
	"golang.org/x/sys/unix"
)

type object = map[string]any

// command is one line of stdin.
type command struct {
	Do            string
	Lock, Key     string
	Keys          []string
	Address       string
	UnreachableMs *int64 `json:"unreachable_ms"`
	Mode          string
	Limit         int
	Permits       int
	WaitMs        *int64 `json:"wait_ms"`
	TTLMs         *int64 `json:"ttl_ms"`
	MaxHoldMs     *int64 `json:"max_hold_ms"`
	LockDelayMs   *int64 `json:"lock_delay_ms"`
	MinHoldMs     *int64 `json:"min_hold_ms"`
	OnDisconnect  string `json:"on_disconnect"`
	Owner         string
	Reentrant     bool
	Resume        bool
}

// entry is one lock of the case, from its request on.
type entry struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	held   *distlock.Lock
}

func bootNow() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

var printing sync.Mutex

// say writes one line to stdout, whole and at once.
func say(event string, more object) {
	printing.Lock()
	defer printing.Unlock()
	line := object{"event": event, "at": bootNow()}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		os.Exit(3) // nobody reads any more
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// untilOf is the deadline, or a few microseconds less.
func untilOf(held *distlock.Lock) int64 { return bootNow() + int64(held.ValidFor()) }

func (e *entry) granted(held *distlock.Lock) {
	e.mu.Lock()
	e.held = held
	e.mu.Unlock()
	say("granted", object{"lock": e.name, "token": held.Token(), "hold_count": held.HoldCount(), "until": untilOf(held)})
	ctx := held.Context()
	context.AfterFunc(ctx, func() {
		for held.Valid() { // a cancel that came too late has ended the context, but not the lock
			time.Sleep(time.Millisecond)
		}
		var lost *distlock.LostError
		if errors.As(held.Err(), &lost) {
			say("lost", object{"lock": e.name, "cause": lost.Cause, "message": lost.Message})
		}
	})
}

func (e *entry) refused(err error) {
	reason, holders := "CLIENT_CLOSED", []string{}
	var refused *distlock.RefusedError
	if errors.Is(err, context.Canceled) {
		reason = "CANCELLED"
	} else if errors.As(err, &refused) {
		reason = string(refused.Reason)
		for _, holder := range refused.Holders {
			holders = append(holders, holder.Owner)
		}
	}
	say("refused", object{"lock": e.name, "reason": reason, "message": err.Error(), "holders": holders})
}

func (e *entry) lock() (*distlock.Lock, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == nil {
		return nil, fmt.Errorf("%s was not granted", e.name)
	}
	return e.held, nil
}

func (e *entry) release(held *distlock.Lock) {
	since := bootNow()
	outcome, _ := held.Release(context.Background())
	say("released", object{"lock": e.name, "outcome": outcome.String(), "since": since})
}

func (e *entry) downgrade(held *distlock.Lock) {
	err := held.Downgrade(context.Background())
	if err == nil {
		say("downgraded", object{"lock": e.name})
		return
	}
	reason := "LOST"
	var refused *distlock.RefusedError
	if errors.As(err, &refused) {
		reason = string(refused.Reason)
	}
	say("not_downgraded", object{"lock": e.name, "reason": reason})
}

func (e *entry) state(held *distlock.Lock) {
	at := bootNow() // before the question: so long at least the answer is true
	err := held.Err()
	state, cause, until := "HELD", "", int64(0)
	var lost *distlock.LostError
	switch {
	case err == nil:
		until = untilOf(held)
		if held.AtRisk() {
			state = "AT_RISK"
		}
	case errors.As(err, &lost):
		state, cause = "LOST", string(lost.Cause)
	default:
		state = "RELEASED"
	}
	say("state", object{"lock": e.name, "at": at, "state": state, "cause": cause, "token": held.Token(), "until": until})
}

// work is the program of a worker: it takes locks, tells, and waits to be killed.
func work(address string, keys []string) {
	var taken []string
	held := map[string]*distlock.Lock{}
	client, err := distlock.Dial(address, distlock.WithLabel("worker"))
	for _, key := range keys {
		if err == nil {
			held[key], err = client.Lock(context.Background(), key, distlock.Try())
		}
		var refused *distlock.RefusedError
		switch {
		case err == nil:
			taken = append(taken, "GRANTED")
		case errors.As(err, &refused):
			taken = append(taken, string(refused.Reason))
			err = nil
		}
	}
	say("worker", object{"taken": taken})
	_, _ = os.Stdin.Read(make([]byte, 1)) // its end is that of the driver
	runtime.KeepAlive(held)
}

// spawn starts a worker, and kills it when it has told what it has taken.
func (d *driver) spawn(keys []string) error {
	worker := exec.Command(os.Args[0], append([]string{d.address}, keys...)...)
	worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	worker.Stderr = os.Stderr
	hold, err := worker.StdinPipe()
	if err != nil {
		return err
	}
	output, err := worker.StdoutPipe()
	if err != nil {
		return err
	}
	if err := worker.Start(); err != nil {
		return err
	}
	go func() {
		defer hold.Close()
		var told struct{ Taken []string }
		err := json.NewDecoder(output).Decode(&told)
		_ = worker.Process.Kill()
		_ = worker.Wait()
		if err != nil {
			say("failed", object{"message": err.Error()})
			return
		}
		say("worker", object{"taken": told.Taken})
	}()
	return nil
}

type driver struct {
	address string
	client  *distlock.Client
	entries map[string]*entry
}

func (d *driver) connect(line command) error {
	options := []distlock.DialOption{distlock.WithLabel("conformance"), distlock.OnDraining(func(left time.Duration) {
		say("draining", object{"time_left_ms": left.Milliseconds()})
	})}
	if line.UnreachableMs != nil {
		options = append(options, distlock.WithUnreachableAfter(millis(*line.UnreachableMs)))
	}
	var err error
	d.address = line.Address
	d.client, err = distlock.Dial(line.Address, options...)
	return err
}

func optionsOf(line command) []distlock.Option {
	actions := map[string]distlock.DisconnectAction{"SAFE": distlock.DisconnectSafe,
		"RELEASE": distlock.DisconnectRelease, "EXPIRE": distlock.DisconnectExpire}
	options := []distlock.Option{distlock.Owner(line.Owner)}
	if action, given := actions[line.OnDisconnect]; given {
		options = append(options, distlock.OnDisconnect(action))
	}
	for _, one := range []struct {
		ms     *int64
		option func(time.Duration) distlock.Option
	}{{line.WaitMs, distlock.Wait}, {line.TTLMs, distlock.TTL}, {line.MaxHoldMs, distlock.MaxHold},
		{line.LockDelayMs, distlock.LockDelay}, {line.MinHoldMs, distlock.MinHold}} {
		if one.ms != nil {
			options = append(options, one.option(millis(*one.ms)))
		}
	}
	if line.Reentrant {
		options = append(options, distlock.Reentrant())
	}
	if line.Resume {
		options = append(options, distlock.Resume())
	}
	return options
}

func (d *driver) add(name string) (*entry, error) {
	if d.entries[name] != nil {
		return nil, fmt.Errorf("%s is in use", name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.entries[name] = &entry{name: name, ctx: ctx, cancel: cancel}
	return d.entries[name], nil
}

func (d *driver) acquire(line command) error {
	one, err := d.add(line.Lock)
	if err != nil {
		return err
	}
	options := append(optionsOf(line), distlock.OnQueued(func(queued distlock.Queued) {
		say("queued", object{"lock": one.name, "position": queued.Position})
	}))
	client := d.client
	go func() {
		var held *distlock.Lock
		var err error
		switch line.Mode {
		case "SHARED":
			held, err = client.RLock(one.ctx, line.Key, options...)
		case "PERMIT":
			held, err = client.Permits(one.ctx, line.Key, line.Limit, max(line.Permits, 1), options...)
		default:
			held, err = client.Lock(one.ctx, line.Key, options...)
		}
		if err != nil {
			one.refused(err)
		} else {
			one.granted(held)
		}
	}()
	return nil
}

// acquireAll asks for several: lock i of the request is called NAME.i.
func (d *driver) acquireAll(line command) error {
	var parts []*entry
	for i := range line.Keys {
		part, err := d.add(fmt.Sprintf("%s.%d", line.Lock, i))
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	client := d.client
	go func() {
		all, err := client.LockAll(parts[0].ctx, distlock.Keys(line.Keys...), optionsOf(line)...)
		for i, part := range parts {
			if err != nil {
				part.refused(err)
			} else {
				part.granted(all[i])
			}
		}
	}()
	return nil
}

func (d *driver) obey(line command) error {
	switch line.Do {
	case "connect":
		return d.connect(line)
	case "close":
		client := d.client
		go func() {
			_ = client.Close()
			say("closed", nil)
		}()
		return nil
	case "acquire":
		return d.acquire(line)
	case "acquire_all":
		return d.acquireAll(line)
	case "spawn":
		return d.spawn(line.Keys)
	}
	one := d.entries[line.Lock]
	if one == nil {
		return fmt.Errorf("there is no %q", line.Lock)
	}
	if line.Do == "cancel" {
		one.cancel()
		return nil
	}
	held, err := one.lock()
	if err != nil {
		return err
	}
	switch line.Do {
	case "release":
		go one.release(held)
	case "downgrade":
		go one.downgrade(held)
	case "state":
		one.state(held)
	default:
		return fmt.Errorf("cannot do %q", line.Do)
	}
	return nil
}

func main() {
	if len(os.Args) > 1 {
		work(os.Args[1], os.Args[2:])
		return
	}
	say("ready", object{"language": "Go", "features": []string{"cancel", "queued", "many", "stores", "worker"}})
	made := driver{entries: map[string]*entry{}}
	lines := bufio.NewReader(os.Stdin)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var line command
		if err = json.Unmarshal(text, &line); err == nil {
			err = made.obey(line)
		}
		if err != nil {
			say("failed", object{"line": string(text), "message": err.Error()})
		}
	}
}
