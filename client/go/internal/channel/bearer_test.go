// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTokenIsReadAnewForEachCallAndStaysHere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	shown := func(target string) string {
		t.Helper()
		metadata, err := bearer{Access{}, target}.GetRequestMetadata(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return metadata["authorization"]
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(tokenFile, "")
	if got := shown("unix:///s"); got != "" {
		t.Errorf("without the variable: %q", got)
	}
	t.Setenv(tokenFile, path)
	if got := shown("unix:///s"); got != "" {
		t.Errorf("without the file: %q", got)
	}
	write(" one\n")
	for _, target := range []string{"unix:///s", "127.0.0.1:7420", "localhost:7420", "[::1]:7420", "tls://broker:7420"} {
		if got := shown(target); got != "Bearer one" {
			t.Errorf("to %s: %q", target, got)
		}
	}
	for _, target := range []string{"10.0.0.1:7420", "broker:7420", "localhost.example:7420"} {
		if got := shown(target); got != "" {
			t.Errorf("in plain text to %s: %q", target, got)
		}
	}
	write("two")
	var noted string
	if _, err := (bearer{Access{}, "unix:///s"}).GetRequestMetadata(Noting(context.Background(), &noted)); err != nil {
		t.Fatal(err)
	}
	if noted != "Bearer two" {
		t.Errorf("noted by the call: %q", noted)
	}
	if got := shown("unix:///s"); got != "Bearer two" {
		t.Errorf("after the file was replaced: %q", got)
	}
	for _, text := range []string{"", "a b", "a\x01", "é", strings.Repeat("a", mostTokenBytes+1)} {
		write(text)
		if got := shown("unix:///s"); got != "" {
			t.Errorf("%.20q: %.20q", text, got)
		}
	}
}

func TestAFileWithoutATokenIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	t.Setenv(tokenFile, path)
	check := func(addresses ...string) string {
		if err := (Access{}).CheckToken(addresses); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := check("10.0.0.1:1", "tls://a:1"); !strings.Contains(got, "DISTLOCK_TOKEN_FILE") ||
		!strings.Contains(got, path) || !strings.Contains(got, "no such file") {
		t.Error(got)
	}
	if got := check("10.0.0.1:1"); got != "" {
		t.Errorf("it is not shown there: %s", got)
	}
	for text, problem := range map[string]string{
		"":                                      "is empty",
		"dlt_a\nops:0123\n":                     "has 2 lines; it must hold the token alone",
		"ops:" + strings.Repeat("0a", 32):       "holds a hash, which is for the broker's --token-file",
		strings.Repeat("0a", 32) + "\n":         "holds a hash",
		"two words":                             "holds no token: it has a space",
		strings.Repeat("a", mostTokenBytes+1):   "is larger than 16 KiB",
		"dlt_" + strings.Repeat("A", 43) + "\n": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := check("unix:///s"); (problem == "") != (got == "") || !strings.Contains(got, problem) {
			t.Errorf("%.20q: %s", text, got)
		}
	}
}

func TestWhatAnOptionNamesGoesBeforeTheEnvironment(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv(tokenFile, file("a", "of the environment"))
	t.Setenv("DISTLOCK_TLS_CA", filepath.Join(folder, "missing"))
	named := Access{TokenFile: file("b", "two\n"), TLS: &tls.Config{ServerName: "other"}}
	if got := named.Authorization("unix:///s"); got != "Bearer two" {
		t.Errorf("of the file: %q", got)
	}
	if got := (Access{Token: "one", TokenFile: named.TokenFile}).Authorization("unix:///s"); got != "Bearer one" {
		t.Errorf("the token itself: %q", got)
	}
	if _, secured, err := named.transport("tls://a:1"); err != nil || secured.Info().SecurityProtocol != "tls" {
		t.Errorf("its TLS: %v", err)
	}
	for problem, access := range map[string]Access{
		"the token file: ": {TokenFile: filepath.Join(folder, "none")}, "the token has 2 lines": {Token: "a\nb"},
	} {
		if err := access.CheckToken([]string{"unix:///s"}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v", problem, err)
		}
	}
}
