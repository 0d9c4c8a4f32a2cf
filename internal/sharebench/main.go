// Command sharebench measures a repository on an SMB share against a real Samba of its own on this machine:
//
//		go run ./internal/sharebench [-only 1,3] [-runs 5] [-tree DIR] [-dir DIR] [-json FILE]
//
//	 1. Packs: so many files of 16 MiB that nothing makes smaller, beside smbclient, which sends the same files with "put".
//	 2. A line of 15 ms there and back: the pool of sessions with its requests in flight beside one session with one request.
//	 3. Small files: 500 of 4 KiB, beside smbclient, and over the line.
//	 4. Backups: first and unchanged, of a source tree, to the share, to a folder on the same disk, and to the share over
//	    the line.
//	 5. Counts: what is asked of the server for each kind of work, and how many times an answer has to be waited for. They
//	    are the same on every machine.
//	 6. Steadiness: how much the time that the server takes for a request moves by itself, and how much when somebody else
//	    uses the server's disk. It is what decides whether that time says anything about others.
//
// Candidates take turns within every round, so that what else the machine does meets all of them alike; ratios are taken
// round by round, and their medians are printed. It needs Linux and Samba (Debian: samba, smbclient), and refuses to
// know how the store works: it looks from outside, or through a proxy that counts frames.
package main

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

	"github.com/tidemark-backup/tidemark/internal/benchkit"
)

func main() { benchkit.Main("sharebench", run) }

// settings are the flags.
type settings struct {
	runs int
	tree string
	dir  string
	into string
	only []int
}

func parseFlags() (settings, error) {
	var s settings
	flag.IntVar(&s.runs, "runs", 5, "rounds of each measurement")
	flag.StringVar(&s.tree, "tree", "", "what is backed up (default: golang.org/x in the cache of Go modules)")
	flag.StringVar(&s.dir, "dir", "", "where share, repositories and caches are kept (default: the temporary directory)")
	flag.StringVar(&s.into, "json", "", "also write all measurements to this file")
	only := flag.String("only", "", "numbers of the measurements to do, with commas between (default: all)")
	flag.Parse()
	var err error
	if s.only, err = benchkit.Numbers("-only", *only, len(measurements())); err != nil {
		return s, err
	}
	switch {
	case flag.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case s.runs < 1:
		return s, errors.New("at least 1 run")
	case runtime.GOOS != "linux":
		return s, errors.New("needs Linux, to see the processes of Samba")
	}
	return s, nil
}

// measurement is one of those that the head of this file lists.
type measurement struct {
	title string
	do    func(*bench, context.Context) error
	print func(*bench) string
}

func measurements() []measurement {
	return []measurement{
		{"Packs of 16 MiB over the loopback interface", (*bench).packs, (*bench).packsTable},
		{"Packs of 16 MiB over a line of 15 ms", (*bench).line, (*bench).lineTable},
		{"500 files of 4 KiB", (*bench).small, (*bench).smallTable},
		{"Backups of a source tree", (*bench).backups, (*bench).backupsTable},
		{"What is asked of the server", (*bench).counts, (*bench).countsTable},
		{"How steady the server answers", (*bench).steadiness, (*bench).steadinessTable},
	}
}

// bench is one run of the program.
type bench struct {
	*host
	settings
	benchkit.Series
	program string
}

// record books what one case gave in one round.
func (b *bench) record(measurement int, name string, round int, values map[string]float64) {
	b.Add(measurement, name, round, values)
	fmt.Fprintf(os.Stderr, "%d %s, round %d: %v\n", measurement, name, round+1, values)
}

func run(ctx context.Context) (err error) {
	s, err := parseFlags()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("smbclient"); err != nil {
		return errors.New("smbclient is not installed: apt-get install samba smbclient")
	}
	scratch, err := os.MkdirTemp(s.dir, "sharebench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	b := &bench{host: &host{scratch: scratch}, settings: s, program: filepath.Join(scratch, "tidemark")}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := benchkit.Build(ctx, b.program); err != nil {
		return err
	}
	for i, m := range measurements() {
		if len(s.only) > 0 && !slices.Contains(s.only, i+1) {
			continue
		}
		if err := b.Guard(func() error { return m.do(b, ctx) }); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(m.title), err)
		}
		fmt.Printf("### %d. %s\n\n%s\n", i+1, m.title, m.print(b))
	}
	return benchkit.Save(s.into, b.Records)
}
