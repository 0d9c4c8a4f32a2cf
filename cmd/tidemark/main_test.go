package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

func TestMain(m *testing.M) {
	main := func() {
		// 0.5 s less for each passphrase
		os.Exit(cli.Main(keyfile.Params{Time: 1, MemoryKiB: keyfile.MinMemoryPerThread, Threads: 1}))
	}
	testscript.Main(together{m}, map[string]func(){"tidemark": main, "dsmc": main})
}

// together runs the scripts side by side: many of them wait.
type together struct{ *testing.M }

func (m together) Run() int { return testkit.RunTogether(m.M, 6) }

// TestScript runs one script for each promise of the documentation. Those of testdata/script run in memory, which takes
// half the processor time of a disk. Those of testdata/disk run on a disk: they contain paths that no rule excludes,
// and a default rule excludes /dev, where the memory is.
func TestScript(t *testing.T) {
	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	p := testscript.Params{
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("TZ", "UTC")
			env.Setenv("TIDEMARK_POLICY", "important") // beside another busy program, others take far longer
			env.Setenv("REPOSITORY", repository)
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/run")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state") // that of root outlives the test
			return errors.Join(os.Mkdir(env.WorkDir+"/home", 0o700), os.Mkdir(env.WorkDir+"/run", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"jsonl":   jsonl,
			"waitfor": waitFor,
			"capture": capture,
			"opens":   opens,
			"receive": receive,
		},
	}
	p.Condition = func(name string) (bool, error) {
		if name != "fuse" {
			return false, fmt.Errorf("unknown condition %q", name)
		}
		_, err := os.Stat("/dev/fuse")
		return err == nil && os.Geteuid() == 0 || os.Getenv("CI") != "", nil
	}
	p.Dir = "testdata/disk"
	testscript.Run(t, p)
	scriptsInMemory(t)
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// scriptsInMemory lets later scripts of the test have their work directories in memory where the system has such a
// folder. Their paths are short, because they contain sockets.
func scriptsInMemory(t *testing.T) { t.Setenv("GOTMPDIR", testkit.Memory()) }

// exits runs a program and wants an exact exit code: exits CODE PROGRAM ARGUMENT...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// jsonl wants every line of a stream to be an object with a message_type, and one line of each type that is named:
// jsonl stdout|stderr TYPE...
func jsonl(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: jsonl stdout|stderr TYPE...")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			ts.Fatalf("not JSON: %q: %v", line, err)
		}
		typ, _ := record["message_type"].(string)
		if typ == "" {
			ts.Fatalf("no message_type: %q", line)
		}
		seen[typ] = true
	}
	for _, typ := range args[1:] {
		if !seen[typ] {
			ts.Fatalf("no %s in %v", typ, seen)
		}
	}
}

// waitFor waits until a file exists.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not appear", args[0])
}

// capture puts a field of the n-th JSON line of standard output (from 1; -1: the last) into a variable:
// capture NAME FIELD N
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture NAME FIELD N")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	if n < 0 {
		n += len(lines) + 1
	}
	if n < 1 || n > len(lines) {
		ts.Fatalf("there is no line %s of %d", args[2], len(lines))
	}
	var record map[string]any
	ts.Check(json.Unmarshal([]byte(lines[n-1]), &record))
	value, ok := record[args[1]].(string)
	if !ok {
		ts.Fatalf("no text %s in %s", args[1], lines[n-1])
	}
	ts.Setenv(args[0], value)
}

// opens requires that no file with a matching path is opened more than N times, by a trace of strace: opens TRACE N
// PATTERN
func opens(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: opens TRACE N PATTERN")
	}
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	pattern, err := regexp.Compile(args[2])
	ts.Check(err)
	count := map[string]int{}
	paths := regexp.MustCompile(`openat\(AT_FDCWD, "([^"]*)"`).FindAllStringSubmatch(ts.ReadFile(args[0]), -1)
	if len(paths) == 0 {
		ts.Fatalf("nothing was opened: is %s a trace?", args[0])
	}
	for _, path := range paths {
		if count[path[1]]++; count[path[1]] > most && pattern.MatchString(path[1]) {
			ts.Fatalf("%s was opened more than %d times", path[1], most)
		}
	}
}

// receive serves HTTP at an address, which it puts into a variable, and appends each request to a file. While the file
// has a neighbour FILE.down, it hangs up: receive NAME FILE
func receive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: receive NAME FILE")
	}
	path := ts.MkAbs(args[1])
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(path + ".down"); err == nil {
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body) // a client that hangs up sends it again
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s %s %s\n", r.Method, r.URL.Path, body)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
