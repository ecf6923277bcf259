// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"os/user"
	"strings"
	"sync"
)

const ownerBytes = 256

// Owner is user@host:pid, as distlockctl says it, cut to what a broker takes.
var Owner = sync.OnceValue(func() string {
	account := fmt.Sprint("uid", os.Geteuid())
	if found, err := user.LookupId(fmt.Sprint(os.Geteuid())); err == nil {
		account = found.Username
	} else if found, err := user.Current(); err == nil && os.Geteuid() < 0 { // not a Unix
		account = found.Username
	}
	host, _ := os.Hostname()
	return Cut(fmt.Sprintf("%s@%s:%d", account, host, os.Getpid()))
})

// Cut shortens a name to what a broker takes, and leaves out what is not UTF-8.
func Cut(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), ownerBytes)], "")
}
