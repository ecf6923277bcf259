// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const tlsScheme = "tls://"

// transport is the target without the scheme, and how to reach it: TLS for tls://host:port, by a.TLS, or else by the
// files that DISTLOCK_TLS_CA, _CERT and _KEY name. Each connection reads them anew.
func (a Access) transport(target string) (string, credentials.TransportCredentials, error) {
	address, secure := strings.CutPrefix(target, tlsScheme)
	if !secure {
		return target, insecure.NewCredentials(), nil
	}
	if a.TLS != nil {
		return address, credentials.NewTLS(a.TLS), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: os.Getenv("DISTLOCK_TLS_SERVER_NAME")}
	if path := os.Getenv("DISTLOCK_TLS_CA"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, fmt.Errorf("distlock: DISTLOCK_TLS_CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return "", nil, fmt.Errorf("distlock: DISTLOCK_TLS_CA: %q holds no PEM certificate", path)
		}
	}
	cert, key := os.Getenv("DISTLOCK_TLS_CERT"), os.Getenv("DISTLOCK_TLS_KEY")
	if (cert == "") != (key == "") {
		return "", nil, errors.New(
			"distlock: DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY belong together: give both, or none")
	}
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return "", nil, fmt.Errorf("distlock: DISTLOCK_TLS_CERT %q with DISTLOCK_TLS_KEY %q: %w", cert, key, err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if renewed, err := tls.LoadX509KeyPair(cert, key); err == nil {
				return &renewed, nil
			}
			return &own, nil // half replaced at this moment
		}
	}
	return address, credentials.NewTLS(config), nil
}
