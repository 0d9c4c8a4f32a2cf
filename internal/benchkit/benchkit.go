// Package benchkit is what the programs have in common that measure tidemark from outside: how one starts and is stopped,
// how the program to measure is built, words of flags, and what is kept of each round and made of it.
//
// It refuses to know what is measured and how: not even that something takes time.
package benchkit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Main runs a program to its end, and ends the process with 1 and the reason if it fails. The context of run is over when
// somebody stops the program, so that it can clean up.
func Main(name string, run func(context.Context) error) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // whoever started it with nohup wants it to go on
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

// Tree returns the tree that a flag -tree names; if it names none, golang.org/x in the cache of Go modules.
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

// Save writes what was measured to a file; to none if it has no name.
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

// Words splits a list with commas or spaces between.
func Words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Known demands of the words that a flag has that they are among those that there are.
func Known(flag string, asked, there []string) error {
	for _, word := range asked {
		if !slices.Contains(there, word) {
			return fmt.Errorf("%s %q: there are %s", flag, word, strings.Join(there, ", "))
		}
	}
	return nil
}

// Numbers reads a list of numbers from 1 to most.
func Numbers(flag, list string, most int) (numbers []int, err error) {
	for _, word := range Words(list) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("%s %q: there are 1 to %d", flag, word, most)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
