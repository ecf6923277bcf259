// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

const (
	tokenFile      = "DISTLOCK_TOKEN_FILE"
	mostTokenBytes = 16 << 10
)

// name:sha256, or the hash alone.
var lineOfBroker = regexp.MustCompile(`^(.*:)?[0-9a-f]{64}$`)

// bearer shows the token in the file that DISTLOCK_TOKEN_FILE names with each call. The file is read anew for each,
// because whoever issues tokens replaces it before the old one expires. The token leaves this machine in no plain text.
type bearer struct{ address string }

type shownKey struct{}

// Noting is for the context of one call: the call leaves the authorization that it has shown in shown.
func Noting(ctx context.Context, shown *string) context.Context {
	return context.WithValue(ctx, shownKey{}, shown)
}

// GetRequestMetadata is of credentials.PerRPCCredentials. Without a token that can be shown it adds nothing, and the
// broker says what it misses.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	authorization := Authorization(b.address)
	if shown, noting := ctx.Value(shownKey{}).(*string); noting {
		*shown = authorization
	}
	if authorization == "" {
		return nil, nil
	}
	return map[string]string{"authorization": authorization}, nil
}

// Authorization is what the file says now; "" when there is no token that can be shown to this address.
func Authorization(address string) string {
	path := os.Getenv(tokenFile)
	if path == "" || !keepsSecrets(address) {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) > mostTokenBytes {
		return ""
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return "Bearer " + token
}

// CheckToken tells why the file that DISTLOCK_TOKEN_FILE names holds no token, if one of the addresses would be shown
// it.
func CheckToken(addresses []string) error {
	path := os.Getenv(tokenFile)
	if path == "" || !slices.ContainsFunc(addresses, keepsSecrets) {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("distlock: %s: %w", tokenFile, err)
	}
	token := strings.TrimSpace(string(text))
	problem := ""
	if lines := strings.Count(token, "\n") + 1; token == "" {
		problem = "is empty"
	} else if lines > 1 {
		problem = fmt.Sprintf("has %d lines; it must hold the token alone", lines)
	} else if lineOfBroker.MatchString(token) {
		problem = "holds a hash, which is for the broker's --token-file; it must hold the token"
	} else if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		problem = "holds no token: it has a space, or a character that is not ASCII"
	} else if len(text) > mostTokenBytes {
		problem = "is larger than 16 KiB"
	}
	if problem == "" {
		return nil
	}
	return fmt.Errorf("distlock: %s: %q %s", tokenFile, path, problem)
}

// RequireTransportSecurity is of credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

func keepsSecrets(address string) bool {
	address = strings.TrimPrefix(strings.TrimPrefix(address, "passthrough:///"), "dns:///")
	for _, safe := range []string{"tls://", "unix:", "/", "127.", "localhost:", "[::1]:", "ipv4:127."} {
		if strings.HasPrefix(address, safe) {
			return true
		}
	}
	return false
}
