// Package kit is shared by all benchmarks: start and stop, the build of the program to measure, the parsing of flags,
// and the records of each round with their medians and ratios.
package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Main runs a program to its end. If it fails, the process prints the reason and exits with 1. A signal cancels the
// context of run, so that it can clean up.
func Main(name string, run func(context.Context) error) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // started by nohup: ignored
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Build builds tidemark from the module in which the process was started.
func Build(ctx context.Context, program string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/tidemark")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build tidemark: %w\n%s", err, out)
	}
	return nil
}

// Tree returns the tree of the flag -tree; without it, golang.org/x in the cache of Go modules.
func Tree(ctx context.Context, named string) (string, error) {
	if named == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
		if err != nil {
			return "", fmt.Errorf("ask go for its cache of modules: %w", err)
		}
		named = filepath.Join(strings.TrimSpace(string(out)), "golang.org", "x")
	}
	if _, err := os.Stat(named); err != nil {
		return "", fmt.Errorf("the tree to back up: %w; name one with -tree", err)
	}
	return named, nil
}

// Save writes the measurements to a file, unless its name is empty.
func Save(file string, measured any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return fmt.Errorf("write measurements: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// DropCaches flushes dirty pages and empties the page cache.
func DropCaches(ctx context.Context) error {
	if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return DropClean()
}

// DropClean drops clean pages from the page cache.
func DropClean() error {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("drop caches (this needs root): %w", err)
	}
	return nil
}

// Words splits a list with commas or spaces between.
func Words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Known returns an error if the words of a flag include an unknown one.
func Known(flag string, asked, there []string) error {
	for _, word := range asked {
		if !slices.Contains(there, word) {
			return fmt.Errorf("%s %q: there are %s", flag, word, strings.Join(there, ", "))
		}
	}
	return nil
}

// Tail returns the last lines of a program's output.
func Tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
