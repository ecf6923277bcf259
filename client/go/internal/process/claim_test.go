// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime"
	"testing"
)

func TestClaimIsOfThisProcessAndForUnixSocketsOnly(t *testing.T) {
	if Claim("127.0.0.1:7420") != nil || Claim("tls://host:1") != nil {
		t.Error("a claim for a broker that cannot check it")
	}
	claim := Claim("unix:///run/distlock/distlock.sock")
	if claim == nil {
		if runtime.GOOS == "linux" {
			t.Skip("this kernel has no pidfds")
		}
		return
	}
	if len(claim.BootId) != 36 || claim.PidfdInode <= 0 {
		t.Errorf("claims %v", claim)
	}
	if again := Claim("unix:/x"); again.PidfdInode != claim.PidfdInode {
		t.Errorf("another inode for the same process: %v, %v", claim, again)
	}
}
