// SPDX-License-Identifier: Apache-2.0

package distlock

import "testing"

func TestErrorsNameWhatThisPackageHas(t *testing.T) {
	for text, want := range map[string]string{
		`acquire.locks[0].key is empty; give 1..512 bytes of UTF-8`: `key is empty; give 1..512 bytes of UTF-8`,
		`acquire.locks[2].max_hold is 1ms`:                          `wants[2]: MaxHold is 1ms`,
		`locks[0].ttl is 1ns`:                                       `TTL is 1ns`,
		`lock "a:max_wait \" ttl" is held by holder 7; retry, or set max_wait to wait in the queue`: `lock "a:max_wait ` +
			`\" ttl" is held by holder 7; retry, or set Wait to wait in the queue`,
		`is empty; pass the lease_id of the Grant`: `is empty; pass the lease id of the Grant`,
		`a word_of_nobody stays`:                   `a word_of_nobody stays`,
	} {
		if got := inWords(text); got != want {
			t.Errorf("%s\nis shown as %s", text, got)
		}
	}
}
