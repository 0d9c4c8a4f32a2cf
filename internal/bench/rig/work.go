package rig

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// Works are foregrounds of real work; their wall time is measured.
func Works() []Foreground {
	return []Foreground{
		{Key: "compile", Name: "compile, from an empty cache", Unit: "s", work: compile},
		{Key: "sqlite", Name: "SQLite: transactions, cold queries", Unit: "s", work: sqlite},
		{Key: "git", Name: "git status, cold", Unit: "s", work: gitStatus},
	}
}

// job is one piece of work, whose preparation does not count.
type job struct {
	once, every *exec.Cmd // preparation: of the disk, of each time; nil: none
	do          *exec.Cmd
}

// Ready prepares a work on the disk. It does nothing for other foregrounds.
func (d *Disk) Ready(ctx context.Context, f *Foreground) error {
	if f.work == nil || exists(d.At(f.Key)) {
		return nil
	}
	if err := os.MkdirAll(d.At(f.Key), 0o755); err != nil {
		return err
	}
	j, err := f.work(ctx, d.At(f.Key))
	if err != nil || j.once == nil {
		return err
	}
	return runWork(j.once)
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func runWork(cmd *exec.Cmd) error {
	if cmd == nil {
		return nil
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// Compilers that go has started end with it, or the disk could not be unmounted.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, kit.Tail(out.Bytes()))
	}
	return nil
}

// Worker repeats a work, each time from cold caches.
type Worker struct {
	stopping atomic.Bool
	done     chan struct{}
	all      []Request
	err      error
}

// work begins to repeat a work. The caches must be cold.
func (d *Disk) work(ctx context.Context, f *Foreground) *Worker {
	w := &Worker{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for i := 0; w.err == nil && ctx.Err() == nil && (i == 0 || !w.stopping.Load()); i++ {
			w.err = w.once(ctx, f, d, i > 0)
		}
	}()
	return w
}

func (w *Worker) once(ctx context.Context, f *Foreground, d *Disk, again bool) error {
	j, err := f.work(ctx, d.At(f.Key))
	if err == nil {
		err = runWork(j.every)
	}
	if err == nil && again {
		err = kit.DropClean()
	}
	if err != nil {
		return err
	}
	began := time.Now()
	if err := runWork(j.do); err != nil {
		return err
	}
	w.all = append(w.all, Request{time.Now(), time.Since(began)})
	return nil
}

// Stop waits until the current work has ended, and returns all works.
func (w *Worker) Stop() ([]Request, error) {
	w.stopping.Store(true)
	<-w.done
	return w.all, w.err
}

// compile builds two packages of Go's library with all their imports. Compiler, sources and results are on the disk.
func compile(ctx context.Context, dir string) (job, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return job{}, fmt.Errorf("ask go for its directory: %w", err)
	}
	root, cache := filepath.Join(dir, "go"), filepath.Join(dir, "cache")
	build := exec.CommandContext(ctx, filepath.Join(root, "bin", "go"), "build", "-p", "2", "encoding/json",
		"text/template")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOROOT="+root, "GOCACHE="+cache, "GO111MODULE=off", "GOFLAGS=", "GOTOOLCHAIN=local",
		"CGO_ENABLED=0", "GOTMPDIR="+dir)
	return job{
		once:  exec.CommandContext(ctx, "cp", "-a", strings.TrimSpace(string(out)), root),
		every: exec.CommandContext(ctx, "rm", "-rf", cache),
		do:    build,
	}, nil
}

// sqlite changes single rows of a database of about 200 MB, each in a transaction of its own, then queries ranges of
// rows all over the file, and finally reads all of it.
func sqlite(ctx context.Context, dir string) (job, error) {
	const rows = 450_000
	file := filepath.Join(dir, "data.db")
	once := exec.CommandContext(ctx, "sqlite3", file, fmt.Sprintf(`
CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
INSERT INTO t SELECT i, i*7919%%1000, randomblob(400)
FROM n;`, rows))
	var script strings.Builder
	script.WriteString("PRAGMA synchronous=FULL;\nPRAGMA mmap_size=0;\n")
	random := rand.New(rand.NewPCG(1, rows)) // the same rows each time
	for range 60 {
		fmt.Fprintf(&script, "BEGIN; UPDATE t SET k=k+1 WHERE id=%d; COMMIT;\n", 1+random.IntN(rows))
	}
	for range 300 {
		at := 1 + random.IntN(rows)
		fmt.Fprintf(&script, "SELECT sum(length(v)) FROM t WHERE id BETWEEN %d AND %d;\n", at, at+20)
	}
	script.WriteString("SELECT count(*), avg(k), max(length(v)) FROM t;\n")
	do := exec.CommandContext(ctx, "sqlite3", file)
	do.Stdin = strings.NewReader(script.String())
	return job{once: once, do: do}, nil
}

// gitStatus checks whether any of 20,000 files has changed.
func gitStatus(ctx context.Context, dir string) (job, error) {
	tree := filepath.Join(dir, "tree")
	if !exists(tree) {
		if err := Filler(5).Code(ctx, tree, 20_000, 100<<20); err != nil {
			return job{}, err
		}
	}
	env := append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0")
	git := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Env = tree, env
		return cmd
	}
	return job{
		once: git("sh", "-c", "git init -q . && git add . && git -c user.name=x -c user.email=x@localhost commit -qm x"),
		do:   git("git", "status", "--porcelain"),
	}, nil
}
