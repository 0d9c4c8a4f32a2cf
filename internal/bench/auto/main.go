// Package auto compares automatic numbers of workers and compression levels with the best fixed ones:
//
//	tidemark-bench auto [-only target,source-rate] [-candidates auto,level-1] [-runs 3] [-tree DIR] [-dir DIR]
//	    [-json FILE]
//
// First backups of a tree run with one slow resource:
//
//	target         a share of a Samba of its own, over a line of 24 Mbit/s
//	processors-0.4 a quota of 0.4 processors
//	processors-1   a quota of one processor
//	source-rate    a disk that gives 20 MB/s
//	source-iops    a disk that gives 600 blocks a second, wherever they lie
//
// Candidates take turns within every round, so that other load of the machine affects all alike; medians are printed,
// with their ratio to the best fixed one. It needs Linux, root, control groups, and for the target Samba and tc
// (Debian: samba, iproute2). It measures from outside, and records the decisions in the program's output.
package auto

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// settings are the flags.
type settings struct {
	runs       int
	tree       string
	dir        string
	into       string
	program    string
	only       []string
	candidates []string
}

func parseFlags(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("tidemark-bench auto", flag.ExitOnError)
	flags.IntVar(&s.runs, "runs", 3, "rounds")
	flags.StringVar(&s.tree, "tree", "", "what is backed up (default: golang.org/x in the cache of Go modules)")
	flags.StringVar(&s.dir, "dir", "",
		"where repositories, caches and the slow disk are kept (default: the temporary directory)")
	flags.StringVar(&s.into, "json", "", "also write all measurements to this file")
	flags.StringVar(&s.program, "program", "", "a tidemark to measure (default: built from here)")
	only := flags.String("only", "", "what is slow, with commas between (default: each in turn)")
	candidates := flags.String("candidates", "", "names of candidates, with commas between (default: all)")
	_ = flags.Parse(args)
	s.only, s.candidates = kit.Words(*only), kit.Words(*candidates)
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.runs < 1:
		return s, errors.New("at least 1 run")
	case runtime.GOOS != "linux" || os.Geteuid() != 0:
		return s, errors.New("needs Linux and root, to make a disk, a line and a processor slow")
	}
	if err := kit.Known("-only", s.only, places()); err != nil {
		return s, err
	}
	return s, kit.Known("-candidates", s.candidates, names())
}

// candidate is one way to call a backup.
type candidate struct {
	name string
	args []string
}

// candidates are auto, first, and the fixed numbers that a user would try.
func candidates() []candidate {
	n := runtime.NumCPU()
	fixed := func(name string, level, readers, compressors, uploads int) candidate {
		return candidate{name, []string{
			fmt.Sprintf("--compression-level=%d", level), fmt.Sprintf("--readers=%d", readers),
			fmt.Sprintf("--compressors=%d", compressors), fmt.Sprintf("--uploads=%d", uploads),
		}}
	}
	return []candidate{
		{"auto", nil},
		fixed("level-1", 1, 8, n, 4), fixed("level-2", 2, 8, n, 4), fixed("level-3", 3, 8, n, 4),
		fixed("one-of-each-level-1", 1, 1, 1, 1), fixed("one-of-each-level-3", 3, 1, 1, 1),
		fixed("two-of-each-level-1", 1, 2, 2, 2), fixed("many-level-1", 1, 32, 2*n, 6), fixed("many-level-2", 2, 32, 2*n, 6),
		{"dial-1-level-1", []string{"--resource-utilization=1", "--compression-level=1"}},
		{"dial-10-level-1", []string{"--resource-utilization=10", "--compression-level=1"}},
	}
}

func names() (names []string) {
	for _, c := range candidates() {
		names = append(names, c.name)
	}
	return names
}

// bench is one run of the program.
type bench struct {
	smbtest.Host
	settings
	scratch string
	records []record
}

// record is what one candidate took in one round.
type record struct {
	Slow      string            `json:"slow"`
	Candidate string            `json:"candidate"`
	Round     int               `json:"round"`
	Seconds   float64           `json:"seconds"`
	Processor float64           `json:"processor_seconds"`
	Stored    int64             `json:"bytes_stored"`
	Workers   []json.RawMessage `json:"workers,omitempty"` // the program's decisions, from its output
}

// Run makes the measurements that the arguments select.
func Run(ctx context.Context, args []string) (err error) {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(s.dir, "tidemark-bench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	b := &bench{settings: s, scratch: scratch}
	defer func() {
		b.Close()
		err = errors.Join(err, os.RemoveAll(scratch))
	}()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, name := range places() {
		if len(s.only) > 0 && !slices.Contains(s.only, name) {
			continue
		}
		if err := b.Guard(func() error { return b.compare(ctx, name) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("### %s\n\n%s\n", name, b.table(name))
	}
	return kit.Save(s.into, b.records)
}

// prepare finds the tree, and builds the program.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.tree, err = kit.Tree(ctx, b.tree); err != nil || b.program != "" {
		return err
	}
	b.program = filepath.Join(b.scratch, "tidemark")
	return kit.Build(ctx, b.program)
}
