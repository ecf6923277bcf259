// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

const largestMessage = 4 << 20

// Access is whom a client trusts, how it proves who it is, and what else its connections have. What is not set comes
// from the environment, at each use.
type Access struct {
	TLS       *tls.Config
	Token     string
	TokenFile string
	Options   []grpc.DialOption // may override those of this package
}

// Conn is what this package's user needs of a connection.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Open makes a connection of its own, with the settings of "Messages and connection" in session.md.
func (a Access) Open(address string) (Conn, error) {
	target, secured, err := a.transport(address)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithPerRPCCredentials(bearer{a, address}),
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
	return grpc.NewClient(target, append(options, a.Options...)...)
}
