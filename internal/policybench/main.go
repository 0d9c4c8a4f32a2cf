// Command policybench measures what the I/O policy is for: what a backup costs whoever else uses the disk, and what giving
// way costs the backup. docs/throttling.md says what each of the eight measurements is about and what is aimed at.
//
//	go run ./internal/policybench [-only 1,2,5] [-runs 3] [-stretch 1] [-size 1536] [-medium ssd] [-dir DIR] [-json FILE]
//
// It needs root, Linux and fio: the disk is a file, bound to a loop device without the page cache of the file system
// below and with an ext4 of its own, and holds source, repositories and caches; page caches are dropped. Candidates take
// turns within every round, in another order each round, so that what else the machine does meets all of them alike;
// medians over the rounds are printed, and ratios are taken round by round. What could not be measured as it should have
// been is listed under the tables instead of being left out.
//
// It refuses to know how the policy works: it watches programs from outside, but for the sensor, whose misses nobody can
// see there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/misses"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

func main() {
	benchkit.Main("policybench", func(ctx context.Context) error {
		if len(os.Args) == 3 && os.Args[1] == misses.TouchWord { // started by this program itself
			return misses.Touch(os.Args[2], os.Stdin, os.Stdout)
		}
		return run(ctx)
	})
}

// settings are the flags.
type settings struct {
	runs    int
	stretch float64
	size    int64 // bytes
	files   int
	medium  string
	dir     string
	into    string
	program string
	only    []int
}

func parseFlags() (settings, error) {
	var s settings
	flag.IntVar(&s.runs, "runs", 3, "rounds of each measurement")
	flag.Float64Var(&s.stretch, "stretch", 1, "factor on how long a foreground runs in each round: more is calmer")
	mib := flag.Int64("size", 1536, "MiB of the source")
	flag.IntVar(&s.files, "files", 60000, "small files of the source that is backed up unchanged from a warm cache")
	flag.StringVar(&s.medium, "medium", "ssd", "what tidemark is told that the disk is: ssd or hdd (3 measures both)")
	flag.StringVar(&s.dir, "dir", "", "where the file is kept that is the disk (default: the temporary directory)")
	flag.StringVar(&s.into, "json", "", "also write all measurements to this file")
	flag.StringVar(&s.program, "tidemark", "", "the program to measure (default: built from this module)")
	only := flag.String("only", "", "numbers of the measurements to do, with commas between (default: all)")
	flag.Parse()
	s.size = *mib << 20
	var err error
	if s.only, err = benchkit.Numbers("-only", *only, len(measurements())); err != nil {
		return s, err
	}
	switch {
	case flag.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q; the source is made by the tool", flag.Arg(0))
	case s.runs < 1 || s.stretch < 0.5 || *mib < 64 || s.files < 1:
		return s, errors.New("at least 1 run, a stretch of 0.5, 64 MiB and 1 file")
	case s.medium != "ssd" && s.medium != "hdd":
		return s, fmt.Errorf("-medium %q: say ssd or hdd", s.medium)
	case runtime.GOOS != "linux" || os.Geteuid() != 0:
		return s, errors.New("needs Linux and root: it makes a loop device and drops caches")
	}
	return s, nil
}

func run(ctx context.Context) (err error) {
	s, err := parseFlags()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("fio"); err != nil {
		return errors.New("fio is not installed: apt-get install fio")
	}
	scratch, err := os.MkdirTemp(s.dir, "policybench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if s.program == "" {
		s.program = filepath.Join(scratch, "tidemark")
		if err := benchkit.Build(ctx, s.program); err != nil {
			return err
		}
	}
	if err := knowsPolicies(ctx, s.program); err != nil {
		return err
	}
	d, err := rig.MakeDisk(ctx, scratch, 6*s.size+4<<30)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Remove()) }()
	b := &bench{settings: s, disk: d}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	return b.measure(ctx)
}

// knowsPolicies asks early what would otherwise fail late.
func knowsPolicies(ctx context.Context, program string) error {
	c := rig.Tidemark(program, "off", "ssd", "--help")
	if _, err := rig.Command(ctx, c.Argv[0], c.Argv[1:]...); err != nil {
		return fmt.Errorf("this tidemark knows no I/O policy; give another one with -tidemark: %w", err)
	}
	return nil
}

// bench is one call of this program.
type bench struct {
	settings
	benchkit.Series
	disk       *rig.Disk
	candidates []rig.Candidate
	problems   []string
}

// measurement is one of those in docs/throttling.md.
type measurement struct {
	title string
	do    func(*bench, context.Context) error
	table func(*bench) string
}

// measurements returns them in the order of their numbers.
func measurements() []measurement {
	return []measurement{
		{"Idle disk", (*bench).idle, (*bench).idleTable},
		{"Foreground beside a backup", (*bench).beside, (*bench).besideTable},
		{"The backup's rate beside a foreground without a break", (*bench).floor, (*bench).floorTable},
		{"Time to yield and to be back", (*bench).turns, (*bench).turnsTable},
		{"False alarms on an idle disk", (*bench).alarms, (*bench).alarmsTable},
		{"The sensor", (*bench).sensor, (*bench).sensorTable},
		{"Unchanged backup from a warm cache", (*bench).warm, (*bench).warmTable},
		{"Two backups", (*bench).pair, (*bench).pairTable},
	}
}

// measure does what was asked for and prints each table as soon as it is complete. One measurement that fails does not
// keep the others from being made.
func (b *bench) measure(ctx context.Context) error {
	fmt.Printf("Medium `%s`, %d rounds, stretch %g, source of %d MiB; %s.\n", b.medium, b.runs, b.stretch, b.size>>20,
		b.disk.Describe())
	var failed error
	for i, m := range measurements() {
		if len(b.only) > 0 && !slices.Contains(b.only, i+1) {
			continue
		}
		start := time.Now()
		fmt.Printf("\n### %d. %s\n\n", i+1, m.title)
		if err := m.do(b, ctx); err != nil {
			if ctx.Err() != nil {
				failed = errors.Join(failed, context.Cause(ctx))
				break
			}
			failed = errors.Join(failed, fmt.Errorf("measurement %d: %w", i+1, err))
			b.problem("measurement %d broke off: %v", i+1, err)
		}
		fmt.Print(m.table(b))
		b.say("measurement %d took %.0f s", i+1, time.Since(start).Seconds())
		if err := benchkit.Save(b.into, b.Records); err != nil { // also what there is so far: a run is long
			return err
		}
	}
	if len(b.problems) > 0 {
		fmt.Printf("\nNot as it should be:\n\n- %s\n", strings.Join(b.problems, "\n- "))
	}
	return failed
}

// add books the values of a case.
func (b *bench) add(measurement int, name string, round int, values map[string]float64) {
	b.Add(measurement, name, round, values)
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", key, values[key]))
	}
	b.say("%d: round %d, %s: %s", measurement, round, name, strings.Join(parts, ", "))
}

// problem remembers what the reader of the tables must know; the same is told once.
func (b *bench) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.problems, text) {
		b.problems = append(b.problems, text)
		b.say("%s", text)
	}
}

// say tells whoever waits how it goes on.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// stretched is how long something takes that is a sample of what goes on.
func (b *bench) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.stretch)
}

// turn returns what comes when in a round: every round begins with another.
func turn[T any](all []T, round int) []T {
	k := round % len(all)
	return append(slices.Clone(all[k:]), all[:k]...)
}
