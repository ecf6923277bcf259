// SPDX-License-Identifier: Apache-2.0

// Package copies is what go vet must refuse: a copy of a lock or of a client is given back with the original.
package copies

import distlock "distlock.dev/client/go"

func lock(held *distlock.Lock) bool {
	other := *held
	return other.Valid()
}

func client(dl *distlock.Client) distlock.Stats {
	other := *dl
	return other.Stats()
}
