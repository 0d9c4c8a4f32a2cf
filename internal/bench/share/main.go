// Package share measures a repository on an SMB share against a real Samba of its own on this machine:
//
//		tidemark-bench share [-only packs,small] [-runs 5] [-tree DIR] [-dir DIR] [-json FILE]
//
//	 - Packs: incompressible files of 16 MiB, beside smbclient, which sends the same files with "put".
//	 - A line of 15 ms there and back: the pool of sessions with its requests in flight beside one session with one
//	    request.
//	 - Small files: 500 of 4 KiB, beside smbclient, and over the line.
//	 - Backups: first and unchanged, of a source tree, to the share, to a folder on the same disk, and to the share over
//	    the line.
//	 - Counts: the requests to the server for each kind of work, and the number of round trips. They
//	    are the same on every machine.
//
// Candidates take turns within every round, so that other load of the machine affects all alike; ratios are taken round
// by round, and their medians are printed. It needs Linux and Samba (Debian: samba, smbclient). It measures from
// outside, or through a proxy that counts frames.
package share

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// settings are the flags.
type settings struct {
	runs int
	tree string
	dir  string
	into string
	only []string
}

func parseFlags(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("tidemark-bench share", flag.ExitOnError)
	flags.IntVar(&s.runs, "runs", 5, "rounds of each measurement")
	flags.StringVar(&s.tree, "tree", "", "what is backed up (default: golang.org/x in the cache of Go modules)")
	flags.StringVar(&s.dir, "dir", "", "where share, repositories and caches are kept (default: the temporary directory)")
	flags.StringVar(&s.into, "json", "", "also write all measurements to this file")
	only := flags.String("only", "", "what to measure: "+strings.Join(partNames(), ", ")+" (default: all)")
	_ = flags.Parse(args)
	s.only = kit.Words(*only)
	if err := kit.Known("-only", s.only, partNames()); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.runs < 1:
		return s, errors.New("at least 1 run")
	case runtime.GOOS != "linux":
		return s, errors.New("needs Linux, to see the processes of Samba")
	}
	return s, nil
}

// measurement is one of those that the head of this file lists.
type measurement struct {
	part, title string
	do          func(*bench, context.Context) error
	print       func(*bench) string
}

func partNames() (names []string) {
	for _, m := range measurements() {
		names = append(names, m.part)
	}
	return names
}

func measurements() []measurement {
	return []measurement{
		{ofPacks, "Packs of 16 MiB over the loopback interface", (*bench).packs, (*bench).packsTable},
		{ofLine, "Packs of 16 MiB over a line of 15 ms", (*bench).line, (*bench).lineTable},
		{ofSmall, "500 files of 4 KiB", (*bench).small, (*bench).smallTable},
		{ofBackups, "Backups of a source tree", (*bench).backups, (*bench).backupsTable},
		{ofCounts, "What is asked of the server", (*bench).counts, (*bench).countsTable},
	}
}

// bench is one run of the program.
type bench struct {
	*host
	settings
	kit.Series
	program string
}

// record stores and prints the values of a case in a round.
func (b *bench) record(measurement string, name string, round int, values map[string]float64) {
	b.Add(measurement, name, round, values)
	fmt.Fprintf(os.Stderr, "%s %s, round %d: %v\n", measurement, name, round+1, values)
}

// Run makes the measurements that the arguments select.
func Run(ctx context.Context, args []string) (err error) {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("smbclient"); err != nil {
		return errors.New("smbclient is not installed: apt-get install samba smbclient")
	}
	scratch, err := os.MkdirTemp(s.dir, "tidemark-bench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	b := &bench{host: &host{scratch: scratch}, settings: s, program: filepath.Join(scratch, "tidemark")}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := kit.Build(ctx, b.program); err != nil {
		return err
	}
	for _, m := range measurements() {
		if len(s.only) > 0 && !slices.Contains(s.only, m.part) {
			continue
		}
		if err := b.Guard(func() error { return m.do(b, ctx) }); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(m.title), err)
		}
		fmt.Printf("### %s\n\n%s\n", m.title, m.print(b))
	}
	return kit.Save(s.into, b.Records)
}
