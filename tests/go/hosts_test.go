// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Elections of client-go and jobs of gocron on several hosts, which are processes of the examples, with real brokers
// and a real store; and the end of each of them in the middle.

// example is the path of a built program of client/go. Compiling client-go takes minutes the first time.
func example(t *testing.T, module, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(name))
	command := exec.Command("go", "build", "-o", program, name)
	command.Dir = filepath.Join(repository(t), "client/go", module)
	text, err := command.CombinedOutput()
	check(t, err == nil, "%s: %v\n%s", name, err, text)
	return program
}

// host is a process that begins as the test says.
func (w *world) host(b *broker, name string, args ...string) *process {
	w.t.Helper()
	return w.start(name, append([]string{"env", "DISTLOCK_SERVER=" + b.address}, args...)...)
}

// told is what its lines say after a word.
func (p *process) told(word string) []string {
	var found []string
	for _, line := range strings.Split(p.text(), "\n") {
		if rest, is := strings.CutPrefix(line, word+" "); is {
			found = append(found, rest)
		}
	}
	return found
}

func (p *process) says(word string, count int) string {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%s says %q", p.name, word), func() bool { return len(p.told(word)) >= count })
	return p.told(word)[count-1]
}

// code is its exit code, when it has ended.
func (p *process) code() int {
	p.t.Helper()
	eventually(p.t, p.name+" ends", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	return p.cmd.ProcessState.ExitCode()
}

func number(t *testing.T, text string) int {
	t.Helper()
	found, err := strconv.Atoi(strings.Fields(text)[0])
	check(t, err == nil, "%v", err)
	return found
}

const leads = "leading with token"

// electors are a world with a leader and a candidate, and the leader's token.
func electors(t *testing.T) (w *world, b *broker, leader, candidate *process, token int) {
	t.Helper()
	program := example(t, "k8slock", "./examples/elector")
	w = newWorld(t)
	b = w.broker("a")
	leader = w.host(b, "eu", program, "shop", "eu")
	token = number(t, leader.says(leads, 1))
	candidate = w.host(b, "us", program, "shop", "us")
	check(t, candidate.says("leader:", 1) == "eu", "the candidate is told who leads")
	return
}

func TestHostsElectionEndsInGoodOrder(t *testing.T) {
	_, _, leader, candidate, token := electors(t)
	leader.signal(syscall.SIGTERM)
	check(t, number(t, candidate.says(leads, 1)) > token, "the candidate leads with a greater token")
	check(t, leader.code() == 0 && strings.Contains(leader.text(), "given back"), "in good order")
}

func TestHostsElectionOfALeaderThatDies(t *testing.T) {
	_, _, leader, candidate, token := electors(t)
	leader.kill()
	check(t, number(t, candidate.says(leads, 1)) > token, "the candidate leads with a greater token")
}

func TestHostsElectionOfALeaderThatIsFrozen(t *testing.T) {
	_, _, leader, candidate, token := electors(t)
	leader.signal(syscall.SIGSTOP)
	check(t, number(t, candidate.says(leads, 1)) > token, "the candidate leads with a greater token")
	leader.signal(syscall.SIGCONT)
	check(t, leader.code() == 1 && strings.Contains(leader.text(), "is lost"), "the first one has noticed")
}

func TestHostsElectionOfABrokerThatDies(t *testing.T) {
	_, b, leader, candidate, token := electors(t)
	b.kill()
	check(t, leader.code() == 1 && strings.Contains(leader.text(), "work is over"), "its work ends")
	check(t, len(candidate.told(leads)) == 0, "nobody leads without a broker")
	b.launch()
	check(t, number(t, candidate.says(leads, 1)) > token, "the candidate leads with a greater token")
}

func TestHostsElectionOfAStoreThatDies(t *testing.T) {
	w, _, leader, candidate, token := electors(t)
	w.store.kill()
	check(t, leader.code() == 1 && strings.Contains(leader.text(), "is lost"), "the leader ends by the ttl")
	check(t, len(candidate.told(leads)) == 0, "nobody leads without a store")
	w.store.launch()
	check(t, number(t, candidate.says(leads, 1)) > token, "the candidate leads with a greater token")
}

const eachTwoSeconds = "*/2 * * * * *"

// jobs starts hosts of gocron.
func jobs(t *testing.T, kind, length string, count int) (w *world, b *broker, hosts []*process) {
	t.Helper()
	program := example(t, "gocronlock", "./examples/job")
	w = newWorld(t)
	b = w.broker("a")
	for i := range count {
		hosts = append(hosts, w.host(b, fmt.Sprint("host", i), program, kind, eachTwoSeconds, length))
	}
	return
}

// runs are those of all hosts, when there are so many; each for another period.
func runs(t *testing.T, hosts []*process, count int) {
	t.Helper()
	periods := map[int]string{}
	eventually(t, "runs", func() bool {
		clear(periods)
		for _, host := range hosts {
			for _, run := range host.told("run") {
				period := number(t, strings.Fields(run)[1]) / 2000
				check(t, periods[period] == "", "%s, and before %s", run, periods[period])
				periods[period] = run
			}
		}
		return len(periods) >= count
	})
}

func TestHostsAJobOf10msOnThreeSchedulersRunsOnce(t *testing.T) {
	_, _, hosts := jobs(t, "locker", "10ms", 3)
	runs(t, hosts, 4)
}

func TestHostsOneSchedulerLeadsThree(t *testing.T) {
	_, _, hosts := jobs(t, "elector", "10ms", 3)
	runs(t, hosts, 3)
	for i, host := range hosts {
		if len(host.told("run")) > 0 {
			host.kill()
			runs(t, append(hosts[:i:i], hosts[i+1:]...), 2)
			return
		}
	}
}

func TestHostsAJobOfASchedulerThatDies(t *testing.T) {
	for _, kind := range []string{"locker", "elector"} {
		t.Run(kind, func(t *testing.T) {
			w, b, hosts := jobs(t, kind, "1h", 1)
			first := hosts[0]
			token := number(t, first.says("run", 1))
			second := w.host(b, "second", first.args[2], kind, eachTwoSeconds, "10ms")
			first.kill()
			check(t, number(t, second.says("run", 1)) > token, "another host has the next runs, with a greater token")
		})
	}
}

func TestHostsAJobWhoseBrokerDies(t *testing.T) {
	for _, kind := range []string{"locker", "elector"} {
		t.Run(kind, func(t *testing.T) {
			_, b, hosts := jobs(t, kind, "1h", 1)
			token := number(t, hosts[0].says("run", 1))
			b.kill()
			check(t, number(t, hosts[0].says("lost", 1)) == token, "the job is told")
			before := len(hosts[0].told("run"))
			b.launch()
			check(t, number(t, hosts[0].says("run", before+1)) > token, "runs go on, with a greater token")
		})
	}
}

func TestHostsAJobWhoseStoreDies(t *testing.T) {
	for _, kind := range []string{"locker", "elector"} {
		t.Run(kind, func(t *testing.T) {
			w, _, hosts := jobs(t, kind, "1h", 1)
			token := number(t, hosts[0].says("run", 1))
			w.store.kill()
			check(t, number(t, hosts[0].says("lost", 1)) == token, "the job is told, at the latest by the ttl")
			before := len(hosts[0].told("run"))
			w.store.launch()
			check(t, number(t, hosts[0].says("run", before+1)) > token, "runs go on, with a greater token")
		})
	}
}
