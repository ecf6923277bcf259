// SPDX-License-Identifier: Apache-2.0

// Package process makes what this process says of itself, so that a broker on the same machine sees its end.
package process

import (
	"math"
	"os"
	"strings"

	pb "distlock.dev/client/go/distlockv1"
	"golang.org/x/sys/unix"
)

// Claim is nil where the address is no unix socket, or the kernel has no pidfds. The broker knows whether the kernel
// tells processes apart by them.
func Claim(address string) *pb.ProcessClaim {
	if !strings.HasPrefix(address, "unix:") {
		return nil
	}
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(pidfd) }()
	var found unix.Stat_t
	if unix.Fstat(pidfd, &found) != nil || found.Ino > math.MaxInt64 {
		return nil
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	return &pb.ProcessClaim{BootId: strings.TrimSpace(string(boot)), PidfdInode: int64(found.Ino)}
}
