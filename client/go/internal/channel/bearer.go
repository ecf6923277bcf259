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

// bearer shows the token with each call. A file is read anew for each, because whoever issues tokens replaces it before
// the old one expires. The token leaves this machine in no plain text.
type bearer struct {
	access  Access
	address string
}

type shownKey struct{}

// Noting is for the context of one call: the call leaves the authorization that it has shown in shown.
func Noting(ctx context.Context, shown *string) context.Context {
	return context.WithValue(ctx, shownKey{}, shown)
}

// GetRequestMetadata is of credentials.PerRPCCredentials. Without a token that can be shown it adds nothing, and the
// broker says what it misses.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	authorization := b.access.Authorization(b.address)
	if shown, noting := ctx.Value(shownKey{}).(*string); noting {
		*shown = authorization
	}
	if authorization == "" {
		return nil, nil
	}
	return map[string]string{"authorization": authorization}, nil
}

// token is what there is to be shown now, and where it comes from; "", "" when that is nowhere.
func (a Access) token() (text, source string, err error) {
	path, name := a.TokenFile, "the token file"
	if a.Token != "" {
		return a.Token, "the token", nil
	}
	if path == "" {
		path, name = os.Getenv(tokenFile), tokenFile
	}
	if path == "" {
		return "", "", nil
	}
	read, err := os.ReadFile(path)
	return string(read), fmt.Sprintf("%s: %q", name, path), err
}

// problemOf says why a text is no token; "" when it is one.
func problemOf(text string) string {
	token := strings.TrimSpace(text)
	switch lines := strings.Count(token, "\n") + 1; {
	case token == "":
		return "is empty"
	case lines > 1:
		return fmt.Sprintf("has %d lines; it must hold the token alone", lines)
	case lineOfBroker.MatchString(token):
		return "holds a hash, which is for the broker's --token-file; it must hold the token"
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "holds no token: it has a space, or a character that is not ASCII"
	case len(text) > mostTokenBytes:
		return "is larger than 16 KiB"
	}
	return ""
}

// Authorization is what is shown to this address now; "" when there is no token that can be shown.
func (a Access) Authorization(address string) string {
	if !keepsSecrets(address) {
		return ""
	}
	text, _, err := a.token()
	if err != nil || problemOf(text) != "" {
		return ""
	}
	return "Bearer " + strings.TrimSpace(text)
}

// CheckToken tells why there is no token where one is named, if one of the addresses would be shown it.
func (a Access) CheckToken(addresses []string) error {
	if !slices.ContainsFunc(addresses, keepsSecrets) {
		return nil
	}
	text, source, err := a.token()
	if err != nil {
		return fmt.Errorf("distlock: %s: %w", source, err)
	}
	if problem := problemOf(text); problem != "" && source != "" {
		return fmt.Errorf("distlock: %s %s", source, problem)
	}
	return nil
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
