// Command peerbench runs tidemark beside restic and Borg on real trees: first backup, second backup of the unchanged
// tree, restore, size of the repository.
//
//	go run ./internal/peerbench [-runs 3] [-work DIR] [-json FILE] [-tidemark PROGRAM] TREE...
//
// The programs take turns within every step, in another order each run, so that what else the machine does meets all of
// them alike; and they are compared run by run: the table shows the median of those ratios, not the ratio of medians. As
// root the page cache is dropped before every step, otherwise everything is warm; the heading says which. A restore
// counts only if it brought back as many files and bytes as the tree has. Each tool runs as its package sets it up, but
// for Borg's compression, which is zstd as in the others, so that sizes compare.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peerbench:", err)
		os.Exit(1)
	}
}

func run() error {
	runs := flag.Int("runs", 3, "how often everything is done")
	work := flag.String("work", "", "where repositories and restored trees go (default: the temporary directory)")
	into := flag.String("json", "", "also write all measurements to this file")
	program := flag.String("tidemark", "", "the program to measure (default: built from this module)")
	flag.Parse()
	if flag.NArg() == 0 || *runs < 1 {
		return errors.New("name the trees to back up, and at least one run")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp(*work, "peerbench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *program == "" {
		*program = filepath.Join(dir, "program")
		build := exec.CommandContext(ctx, "go", "build", "-o", *program, "./cmd/tidemark")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build tidemark: %w\n%s", err, out)
		}
	}
	b := &bench{dir: dir, cold: os.Geteuid() == 0}
	for _, t := range tools(*program) {
		if _, err := exec.LookPath(t.program); err != nil {
			fmt.Printf("%s is not installed and left out\n", t.name)
			continue
		}
		b.tools = append(b.tools, t)
	}
	var all []measurement
	for _, tree := range flag.Args() {
		found, err := b.tree(ctx, tree, *runs)
		if err != nil {
			return err
		}
		all = append(all, found...)
		fmt.Print(table(found))
	}
	if *into == "" {
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*into, append(text, '\n'), 0o644)
}

// bench is one call of this program.
type bench struct {
	dir   string
	cold  bool
	tools []tool
}

// tree measures everything on one tree.
func (b *bench) tree(ctx context.Context, tree string, runs int) ([]measurement, error) {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return nil, err
	}
	size, err := measure(tree)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", tree, err)
	}
	cache := "warm cache"
	if b.cold {
		cache = "cold cache"
	}
	fmt.Printf("\n%s: %d files, %.1f MiB, %s, median of %d\n", tree, size.files, mib(size.bytes), cache, runs)
	var all []measurement
	for i := range runs {
		places := map[string]place{}
		for _, t := range b.tools {
			at := filepath.Join(b.dir, t.name)
			p := place{repo: filepath.Join(at, "repo"), home: filepath.Join(at, "home"), out: filepath.Join(at, "out")}
			if err := errors.Join(os.MkdirAll(p.home, 0o700), os.MkdirAll(p.out, 0o700)); err != nil {
				return nil, err
			}
			places[t.name] = p
			if _, err := b.do(ctx, t, p, t.prepare(p)); err != nil {
				return nil, err
			}
		}
		for _, step := range steps() {
			for k := range b.tools {
				t := b.tools[(k+i)%len(b.tools)]
				p := places[t.name]
				m, err := b.do(ctx, t, p, step.args(t, p, tree))
				if err != nil {
					return nil, err
				}
				m.Tree, m.Run, m.Step = tree, i+1, step.name
				all = append(all, m)
				fmt.Fprintf(os.Stderr, "run %d: %-8s %-14s %8.2f s\n", i+1, t.name, step.name, m.Seconds)
			}
		}
		for _, t := range b.tools {
			stored, err := measure(places[t.name].repo)
			if err != nil {
				return nil, err
			}
			all = append(all, measurement{Tool: t.name, Tree: tree, Run: i + 1, Step: sizeStep, Bytes: stored.bytes})
			if err := complete(places[t.name].out, size); err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			if err := os.RemoveAll(filepath.Join(b.dir, t.name)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// extent is how much there is below a folder.
type extent struct{ files, bytes int64 }

// measure counts the regular files below a folder.
func measure(root string) (e extent, err error) {
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e.files++
		e.bytes += info.Size()
		return nil
	})
	return e, err
}

// complete compares what was restored with what there was.
func complete(out string, want extent) error {
	got, err := measure(out)
	if err == nil && got != want {
		err = fmt.Errorf("restored %d files of %d bytes, there are %d of %d (did the tree change?)",
			got.files, got.bytes, want.files, want.bytes)
	}
	return err
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// dropCaches empties the page cache, after what is dirty has been written.
func dropCaches(ctx context.Context) error {
	if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	return nil
}

// tail returns the last lines of a program's output.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
