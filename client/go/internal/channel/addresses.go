// SPDX-License-Identifier: Apache-2.0

// Package channel connects to brokers: which one, with which settings of gRPC, and what its failures mean.
package channel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

const (
	socket   = "/run/distlock/distlock.sock"
	loopback = "127.0.0.1:7420"
)

// DefaultAddress is DISTLOCK_SERVER, else the local socket where that exists, else 127.0.0.1:7420.
func DefaultAddress() string {
	if named := os.Getenv("DISTLOCK_SERVER"); named != "" {
		return named
	}
	if found, err := os.Stat(socket); err == nil && found.Mode()&os.ModeSocket != 0 {
		return "unix://" + socket
	}
	return loopback
}

// Split cuts a list that is separated by commas into gRPC targets, each once.
func Split(text string) ([]string, error) {
	var found []string
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "/") {
			part = "unix://" + part
		}
		scheme, rest, has := strings.Cut(part, "://")
		if has && (rest == "" || (scheme != "unix" && scheme != "dns" && scheme != "tls")) {
			return nil, fmt.Errorf("distlock: the address %q is not known; write host:port, tls://host:port or unix:///path",
				part)
		}
		if part != "" && !slices.Contains(found, part) {
			found = append(found, part)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("distlock: the address %q names no broker; write host:port or unix:///path", text)
	}
	return found, nil
}

// Addresses has the brokers in a random order, and which one is to be tried next.
type Addresses struct {
	all     []string
	present int
	tried   int
}

// NewAddresses shuffles them.
func NewAddresses(all []string) *Addresses {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return &Addresses{all: all}
}

// Count is how many there are.
func (a *Addresses) Count() int { return len(a.all) }

// Present is the one in use, or to be tried now.
func (a *Addresses) Present() string { return a.all[a.present] }

// After is the one that follows another in the order.
func (a *Addresses) After(address string) string {
	return a.all[(slices.Index(a.all, address)+1)%len(a.all)]
}

// Next is called after an attempt that failed. False: each has been tried since the last success, so pause.
func (a *Addresses) Next() bool {
	a.present = (a.present + 1) % len(a.all)
	a.tried++
	if a.tried < len(a.all) {
		return true
	}
	a.tried = 0
	return false
}

// Succeed is called when the present one serves.
func (a *Addresses) Succeed() { a.tried = 0 }
