// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package process makes what this process says of itself, so that a broker on the same machine sees its end.
package process

import pb "distlock.dev/client/go/distlockv1"

// Claim is nil: only Linux has what it takes.
func Claim(string) *pb.ProcessClaim { return nil }
