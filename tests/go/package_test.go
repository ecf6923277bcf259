// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The package belongs to this repository: its version, its stubs, its README.

func read(t *testing.T, path ...string) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile(filepath.Join(append([]string{repository(t)}, path...)...))))
}

func run(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	check(t, err == nil, "%s: %v\n%s", name, err, output)
}

func TestTheVersionIsThatOfTheBroker(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`project\(distlock VERSION (\S+)`).FindStringSubmatch(read(t, "CMakeLists.txt"))
	check(t, found != nil && found[1] == distlock.Version, "%v is not %s", found, distlock.Version)
}

func withoutJSONNames(messages []*descriptorpb.DescriptorProto) {
	for _, message := range messages {
		for _, field := range message.Field {
			field.JsonName = nil
		}
		withoutJSONNames(message.NestedType)
	}
}

func TestTheStubsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]protoreflect.FileDescriptor{
		"admin_service": pb.File_distlock_v1_admin_service_proto, "lock": pb.File_distlock_v1_lock_proto,
		"lock_service": pb.File_distlock_v1_lock_service_proto, "look": pb.File_distlock_v1_look_proto,
	} {
		out := filepath.Join(t.TempDir(), "set")
		run(t, repository(t), "protoc", "-I", "proto", "--descriptor_set_out="+out, "distlock/v1/"+name+".proto")
		var set descriptorpb.FileDescriptorSet
		err := proto.Unmarshal(must[[]byte](t)(os.ReadFile(out)), &set)
		check(t, err == nil, "%v", err)
		wanted, found := set.File[0], protodesc.ToFileDescriptorProto(file)
		withoutJSONNames(wanted.MessageType)
		withoutJSONNames(found.MessageType)
		check(t, proto.Equal(wanted, found), "%s.proto has changed: run client/go/stubs.sh", name)
	}
}

func TestTheStubsAreThoseOfTheScript(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	run(t, repository(t), "client/go/stubs.sh", out)
	generator := regexp.MustCompile(`(?m)^//\s+(- )?protoc\s.*$`) // its version is that of the system
	files := must[[]string](t)(filepath.Glob(filepath.Join(out, "*.go")))
	check(t, len(files) == 6, "%v", files)
	for _, file := range files {
		made := generator.ReplaceAllString(string(must[[]byte](t)(os.ReadFile(file))), "")
		kept := generator.ReplaceAllString(read(t, "client/go/distlockv1", filepath.Base(file)), "")
		check(t, made == kept, "%s differs: run client/go/stubs.sh", filepath.Base(file))
	}
}

// build makes an example. With -race, because what it needs is built so already.
func build(t *testing.T, example string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), example)
	run(t, filepath.Join(repository(t), "client/go"), "go", "build", "-race", "-buildvcs=false", "-o", program,
		"./examples/"+example)
	return program
}

func TestTheProgramOfTheReadmeIsVetted(t *testing.T) {
	t.Parallel()
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindStringSubmatch(read(t, "client/go/README.md"))
	check(t, program != nil, "the README shows a program")
	folder, module := t.TempDir(), read(t, "tests/go/go.mod")
	module = strings.Replace(module, "../../client/go", filepath.Join(repository(t), "client/go"), 1)
	sums := read(t, "tests/go/go.sum")
	for name, text := range map[string]string{"main.go": program[1], "go.mod": module, "go.sum": sums} {
		check(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600) == nil, "%s is written", name)
	}
	run(t, folder, "go", "vet", ".")
	formatted := exec.Command("gofmt", "-l", folder)
	output, err := formatted.CombinedOutput()
	check(t, err == nil && len(output) == 0, "gofmt has changes: %s", output)
}

func TestTheTourPrintsWhatItShows(t *testing.T) {
	b := newWorld(t).broker("a")
	tour := exec.Command(build(t, "tour"))
	tour.Env = append(os.Environ(), "DISTLOCK_SERVER="+b.address)
	output, err := tour.CombinedOutput()
	check(t, err == nil && string(output) == read(t, "client/go/examples/tour/tour.txt"), "%v\n%s", err, output)
}

func TestTheService(t *testing.T) {
	b := newWorld(t).broker("a")
	service := exec.Command(build(t, "service"), "127.0.0.1:0")
	service.Env = append(os.Environ(), "DISTLOCK_SERVER="+b.address)
	output := must[io.ReadCloser](t)(service.StdoutPipe())
	check(t, service.Start() == nil, "it starts")
	defer func() {
		_ = service.Process.Kill()
		_ = service.Wait()
	}()
	lines := bufio.NewScanner(output)
	port := ""
	for port == "" && lines.Scan() { // beside it, the first report
		port, _ = strings.CutPrefix(lines.Text(), "serving on ")
		if port == lines.Text() {
			port = ""
		}
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	post := func() (int, string) {
		answer := must[*http.Response](t)(http.Post("http://"+port+"/transfer?from=7&to=9&amount=5", "", nil))
		defer answer.Body.Close()
		return answer.StatusCode, string(must[[]byte](t)(io.ReadAll(answer.Body)))
	}
	code, text := post()
	check(t, code == 200 && strings.HasPrefix(text, "moved 5 under the tokens ["), "%d %s", code, text)
	dl := dial(t, b.address)
	lock(t, dl, "account/9")
	code, text = post()
	check(t, code == 409 && strings.Contains(text, "WAIT_TIMEOUT"), "%d %s", code, text)
	eventually(t, "a leader", func() bool {
		leader := must[*distlock.Leadership](t)(dl.Leader(background, "reports"))
		return leader != nil && leader.Value != ""
	})
}
