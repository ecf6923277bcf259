// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
)

const module = "distlock.dev/client/go"

// publish puts the module into a folder that has the shape of a proxy.
func publish(t *testing.T, proxy, version string) {
	t.Helper()
	versions := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	check(t, os.MkdirAll(versions, 0o700) == nil, "%s is made", versions)
	packed := must[*os.File](t)(os.Create(filepath.Join(versions, version+".zip")))
	archive := zip.NewWriter(packed)
	root := filepath.Join(repository(t), "client/go")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := filepath.ToSlash(must[string](t)(filepath.Rel(root, path)))
		file, err := archive.Create(fmt.Sprintf("%s@%s/%s", module, version, name))
		if err == nil {
			_, err = file.Write(must[[]byte](t)(os.ReadFile(path)))
		}
		return err
	})
	check(t, err == nil && archive.Close() == nil && packed.Close() == nil, "packed: %v", err)
	for name, text := range map[string]string{
		"list": version + "\n", version + ".info": fmt.Sprintf(`{"Version": %q}`, version),
		version + ".mod": read(t, "client/go/go.mod"),
	} {
		check(t, os.WriteFile(filepath.Join(versions, name), []byte(text), 0o600) == nil, "%s is written", name)
	}
}

// A module that has nothing but this one gets it from a proxy, and runs the program of the README. The version is this
// test's own, and leaves Go's cache again: what others of this machine get is not to be an old state of the tree.
func TestAnOutsiderGetsTheModule(t *testing.T) {
	b := newWorld(t).broker("a")
	folder, proxy := t.TempDir(), t.TempDir()
	version := fmt.Sprintf("v%s-test%d", distlock.Version, time.Now().UnixNano())
	publish(t, proxy, version)
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindStringSubmatch(read(t, "client/go/README.md"))
	check(t, program != nil, "the README shows a program")
	check(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program[1]), 0o600) == nil, "main.go is written")
	cache := strings.TrimSpace(string(must[[]byte](t)(exec.Command("go", "env", "GOMODCACHE").Output())))
	t.Cleanup(func() {
		kept := must[[]string](t)(filepath.Glob(filepath.Join(cache, "cache/download", module, "@v", version+".*")))
		for _, path := range append(kept, filepath.Join(cache, module+"@"+version)) {
			check(t, os.RemoveAll(path) == nil, "%s is removed", path)
		}
	})
	as := func(name string, args ...string) string {
		t.Helper()
		command := exec.Command(name, args...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-modcacherw -buildvcs=false",
			"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache/download"), "DISTLOCK_SERVER="+b.address)
		output, err := command.CombinedOutput()
		check(t, err == nil, "%s %v: %v\n%s", name, args, err, output)
		return string(output)
	}
	as("go", "mod", "init", "example.com/outsider")
	as("go", "get", module+"@latest")
	as("go", "mod", "tidy")
	check(t, strings.TrimSpace(as("go", "list", "-m", module)) == module+" "+version, "the version is that of the tree")
	as("go", "build", "-race", "-o", "program", ".") // as its dependencies are built already
	check(t, strings.HasSuffix(as("./program"), " <nil>\n"), "the lock was held")
}
