// SPDX-License-Identifier: Apache-2.0

// Package distlockv1 has the messages and services of the wire contract, made from proto/distlock/v1 by stubs.sh.
package distlockv1
