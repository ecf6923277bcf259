// SPDX-License-Identifier: Apache-2.0

package distlock

// Version is that of the brokers.
const Version = "0.1.0"
