// Package policy measures what a backup costs a foreground that uses the same disk, and what yielding costs the backup.
// docs/measurements/2026-11-yielding.md describes the parts, their aims and a series.
//
//	tidemark-bench policy [-parts cost,curve,...] [-disk loop] [-rounds 5] [-bound 60s] [-foregrounds LIST]
//	    [-steps LIST] [-beside LIST] [-dir DIR] [-json FILE] [-pictures DIR]
//
// It needs root, Linux and fio. The disk is a file on a loop device without the page cache of the file system below and
// with an ext4 of its own; it holds source, repositories and caches, and page caches are dropped. With -disk real it is
// a directory of an existing file system, with -disk hdd a loop device over a file that serves one request at a time
// with a seek time. Candidates take turns in each round in another order, so that the noise of the machine meets all
// alike. Medians over the rounds are printed; ratios are taken round by round. What could not be measured is listed
// below the tables.
package policy

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

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/picture"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// defaultRounds is how many rounds a measurement has by default.
const defaultRounds = 5

// settings are the flags.
type settings struct {
	parts   []string
	rounds  int
	stretch float64
	medium  string
	dir     string
	into    string
	program string
	kind    string // of disk
	// folder of the pictures; "": none
	pictures string
	costSettings
}

func parseFlags(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("tidemark-bench policy", flag.ExitOnError)
	parts := flags.String("parts", "", "what to measure: "+strings.Join(partNames(), ", ")+" (default: all but the "+
		"last)")
	flags.IntVar(&s.rounds, "rounds", defaultRounds, "rounds of each measurement")
	flags.Float64Var(&s.stretch, "stretch", 1, "factor on the duration of a foreground in each round")
	flags.StringVar(&s.medium, "medium", "", "value of tidemark's --medium: ssd, hdd or auto (default: hdd with "+
		"-disk hdd, otherwise ssd)")
	flags.StringVar(&s.dir, "dir", "", "folder of the file that is the disk (default: the temporary directory)")
	flags.StringVar(&s.into, "json", "", "also write all measurements to this file")
	flags.StringVar(&s.pictures, "pictures", "", "also draw the pictures of curve and mixed into this folder, usually "+
		picture.Folder)
	flags.StringVar(&s.program, "tidemark", "", "the program to measure (default: built from this module)")
	flags.StringVar(&s.kind, "disk", "loop", "what the disk is: "+strings.Join(rig.Kinds(), ", "))
	check := s.costSettings.flags(flags)
	_ = flags.Parse(args)
	s.parts = kit.Words(*parts)
	if err := kit.Known("-parts", s.parts, partNames()); err != nil {
		return s, err
	}
	if len(s.parts) == 0 {
		s.parts = slices.DeleteFunc(partNames(), func(p string) bool { return p == partCurve })
	}
	if s.medium == "" {
		s.medium = map[bool]string{true: "hdd", false: "ssd"}[s.kind == "hdd"]
	}
	if err := check(); err != nil {
		return s, err
	}
	switch {
	case !slices.Contains(rig.Kinds(), s.kind):
		return s, fmt.Errorf("-disk %q: there are %s", s.kind, strings.Join(rig.Kinds(), ", "))
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q; the source is made by the tool", flags.Arg(0))
	case s.rounds < 1 || s.stretch < 0.5:
		return s, errors.New("at least 1 round and a stretch of 0.5")
	case !slices.Contains([]string{"ssd", "hdd", "auto"}, s.medium):
		return s, fmt.Errorf("-medium %q: say ssd, hdd or auto", s.medium)
	case runtime.GOOS != "linux" || os.Geteuid() != 0:
		return s, errors.New("needs Linux and root: it makes a loop device and drops caches")
	}
	return s, nil
}

// Run makes the measurements that the arguments select.
func Run(ctx context.Context, args []string) (err error) {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("fio"); err != nil {
		return errors.New("fio is not installed: apt-get install fio")
	}
	scratch, err := os.MkdirTemp(s.dir, "tidemark-bench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if s.program == "" {
		s.program = filepath.Join(scratch, "tidemark")
		if err := kit.Build(ctx, s.program); err != nil {
			return err
		}
	}
	if err := knowsPolicies(ctx, s.program); err != nil {
		return err
	}
	b := &bench{settings: s, pools: map[string][]time.Duration{}}
	if b.disk, err = rig.Open(ctx, s.kind, scratch, 4*s.code+2<<30); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.disk.Remove()) }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	return b.measure(ctx)
}

// knowsPolicies fails early for a program without I/O policies.
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
	kit.Series
	disk     *rig.Disk
	backups  []rig.Candidate            // beside foregrounds
	peers    []rig.Candidate            // other tools
	pools    map[string][]time.Duration // its latencies, of each case over all rounds
	moments  []picture.Moment           // of the gate beside a mixed foreground
	problems []string
}

// The parts of this benchmark.
const (
	partCost  = "cost"  // foregrounds and backups beside each other
	partMixed = "mixed" // slot grants beside a foreground that changes
	partCurve = "curve" // what foregrounds keep against the speed of the backup
)

func partNames() []string {
	return []string{partMixed, partCost, partCurve}
}

// measurement is one part.
type measurement struct {
	part, title string
	do          func(*bench, context.Context) error
	table       func(*bench) string
}

func measurements() []measurement {
	return []measurement{
		{partMixed, "Slot grants beside a mixed foreground", (*bench).mixed, (*bench).mixedTable},
		{partCost, "Foregrounds and backups beside each other", (*bench).cost, (*bench).costTable},
		{partCurve, "What foregrounds keep against the speed of the backup", (*bench).curve, (*bench).curveTable},
	}
}

// wants reports whether one of some parts is selected.
func (b *bench) wants(parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(b.parts, p) })
}

// measure runs the selected parts and prints each table as soon as it is complete. A failed part does not stop the
// others.
func (b *bench) measure(ctx context.Context) error {
	fmt.Printf("Medium `%s`, %d rounds, stretch %g; %s.\n", b.medium, b.rounds, b.stretch, b.disk.Describe())
	var failed error
	for _, m := range measurements() {
		if !b.wants(m.part) {
			continue
		}
		start := time.Now()
		fmt.Printf("\n### %s\n\n", m.title)
		if err := m.do(b, ctx); err != nil {
			if ctx.Err() != nil {
				failed = errors.Join(failed, context.Cause(ctx))
				break
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.part, err))
			b.problem("%s stopped early: %v", m.part, err)
		}
		fmt.Print(m.table(b))
		b.say("%s took %.0f s", m.part, time.Since(start).Seconds())
		if err := kit.Save(b.into, b.Records); err != nil { // after each part: a run is long
			return err
		}
	}
	if len(b.problems) > 0 {
		fmt.Printf("\nNot as it should be:\n\n- %s\n", strings.Join(b.problems, "\n- "))
	}
	return failed
}

// add records the values of a case.
func (b *bench) add(measurement, name string, round int, values map[string]float64) {
	b.Add(measurement, name, round, values)
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", key, values[key]))
	}
	b.say("%s: round %d, %s: %s", measurement, round, name, strings.Join(parts, ", "))
}

// problem lists something below the tables, each text once.
func (b *bench) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.problems, text) {
		b.problems = append(b.problems, text)
		b.say("%s", text)
	}
}

// say prints progress.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// stretched scales the duration of a sample.
func (b *bench) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.stretch)
}
