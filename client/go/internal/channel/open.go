// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

const largestMessage = 4 << 20

// Open makes a connection of its own, with the settings of "Messages and connection" in session.md. more may override
// them.
func Open(address string, more []grpc.DialOption) (*grpc.ClientConn, error) {
	target, secured, err := transport(address)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithPerRPCCredentials(bearer{address}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithDisableRetry(), // the lock table decides what is sent again
		grpc.WithNoProxy(),      // the proxy of the environment is meant for the web, not for the broker
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"pick_first":{"shuffleAddressList":true}}]}`),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestMessage), grpc.MaxCallSendMsgSize(largestMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithIdleTimeout(0),
	}
	return grpc.NewClient(target, append(options, more...)...)
}
