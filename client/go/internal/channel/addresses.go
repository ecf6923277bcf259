// SPDX-License-Identifier: Apache-2.0

// Package channel connects to brokers: which one, with which settings of gRPC, and what its failures mean.
package channel

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
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

// target is an address as gRPC for Go knows it. That has no ipv4: and ipv6:, which gRPC has in other languages.
func target(address string) (string, error) {
	if strings.HasPrefix(address, "/") {
		return "unix://" + address, nil
	}
	scheme, rest, has := strings.Cut(address, "://")
	if has && (rest == "" || (scheme != "unix" && scheme != "dns" && scheme != "tls")) {
		return "", fmt.Errorf("distlock: the address %q is not known; write host:port, tls://host:port or unix:///path",
			address)
	}
	family, literal, _ := strings.Cut(address, ":")
	if family != "ipv4" && family != "ipv6" {
		return address, checkPort(address)
	}
	if err := checkPort(literal); err != nil {
		return "", err
	}
	found, err := netip.ParseAddrPort(literal)
	if err != nil {
		return "", fmt.Errorf("distlock: the address %q has no number of a host and a port; write ipv4:127.0.0.1:7420, "+
			"ipv6:[::1]:7420 or host:port", address)
	}
	if found.Addr().Is4() != (family == "ipv4") {
		return "", fmt.Errorf("distlock: the address %q names a host of the other family", address)
	}
	return "passthrough:///" + literal, nil
}

// checkPort tells why no broker can be at the address: its port is missing, or is no number of 1..65535.
func checkPort(address string) error {
	if address == "" || strings.HasPrefix(address, "unix:") {
		return nil
	}
	place := strings.TrimPrefix(strings.TrimPrefix(address, "tls://"), "dns:")
	if strings.HasPrefix(place, "//") {
		place = place[strings.LastIndex(place, "/")+1:]
	}
	before := strings.TrimSuffix(address, place)
	host, port := place, ""
	if end := strings.LastIndex(place, ":"); end > strings.LastIndex(place, "]") {
		host, port = place[:end], place[end+1:]
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return fmt.Errorf("distlock: the broker's address %s is IPv6 without brackets; write %s[%s]:7420", address, before,
			place)
	}
	if port == "" {
		return fmt.Errorf("distlock: the broker's address %s has no port; write %s%s:7420", address, before, host)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("distlock: the broker's address %s has the port %s; a port is a number of 1..65535", address,
			port)
	}
	return nil
}

// Split cuts a list that is separated by commas into gRPC targets, each once.
func Split(text string) ([]string, error) {
	var found []string
	for _, part := range strings.Split(text, ",") {
		one, err := target(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if one != "" && !slices.Contains(found, one) {
			found = append(found, one)
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
