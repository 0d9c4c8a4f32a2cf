// Package peers runs tidemark beside other programs on the same data, in turns: first backup, unchanged backup with
// cold and with warm caches, start-up, the next version of the data, restore, check of all data, forget with
// prune, size of the repository.
//
//	tidemark-bench peers -data source,tiny,mixed [-scale 0.1] [-rounds 3] [-peer tidemark,restic] [-step first,restore]
//
// Data is a set of internal/bench/corpus, by name, or an existing tree, by path (which has no next version). Peers are
// known by name and found in PATH, or given as name=program; name@label=program measures a second program of a kind,
// such as tidemark@before=/tmp/tidemark. Missing ones are reported and left out.
//
// The programs take turns within every step, in another order each round, so that other load of the machine affects all
// alike. They are compared round by round: tables show the median of those ratios, not the ratio of medians. As root
// the page cache is dropped before every step that is not warm; otherwise all is warm, and the heading says so. A
// restore counts only if it restored all files and bytes, and a round counts only if `tidemark check --read-data` finds
// its repository intact. Each program runs with its defaults, except for the compression of Borg, Kopia and vykar,
// which is zstd as in the others, and tidemark's policy, which does not yield, as the others do not either. A
// passphrase costs tidemark about a third of a second each time it is opened, on purpose; bupstash has a key file
// without derivation; -unlock key-file is the comparison for it. Borg 2 is found as borg2, since its program has the
// name of Borg 1: make a link of that name, or name the program.
package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// settings are the settings of a run.
type settings struct {
	data, peers, steps []string
	scale              float64
	seed               uint64
	rounds             int
	work, made         string // folders: to remove at the end, and of data that is kept
	flags              []string
	unlock             string
	cold               bool
}

// Run makes the measurements that the arguments select.
func Run(ctx context.Context, args []string) error {
	var s settings
	flags := flag.NewFlagSet("tidemark-bench peers", flag.ExitOnError)
	data := flags.String("data", "source,tiny,mixed", "data sets by name, or trees by path")
	flags.Float64Var(&s.scale, "scale", 1, "how much of the data sets: 0.01 is a hundredth of the files")
	flags.Uint64Var(&s.seed, "seed", 1, "seed of the data sets")
	flags.IntVar(&s.rounds, "rounds", 3, "how often everything is done")
	peers := flags.String("peer", "", "only these: name, name=program or name@label=program (default: all that are there)")
	only := flags.String("step", "", "only these: "+strings.Join(stepNames(), ", "))
	flags.StringVar(&s.work, "work", "", "where repositories and restored trees go (default: the temporary directory)")
	flags.StringVar(&s.made, "made", "", "keep data sets in this folder, and use those that are in it")
	flags.StringVar(&s.unlock, "unlock", unlockPassphrase,
		"how tidemark's repository is opened: "+unlockPassphrase+" or "+unlockKeyFile)
	extra := flags.String("flags", "--policy important", "options of tidemark's backup, restore and check")
	flags.BoolVar(&s.cold, "cold", os.Geteuid() == 0, "drop the page cache before each step that is not warm; root only")
	into := flags.String("json", "", "write all measurements to this file")
	text := flags.String("markdown", "", "write the tables to this file too")
	_ = flags.Parse(args)
	s.data, s.peers, s.steps, s.flags = list(*data), list(*peers), list(*only), strings.Fields(*extra)
	if flags.NArg() > 0 || len(s.data) == 0 || s.rounds < 1 {
		return errors.New("name the data with -data, and at least one round")
	}
	if s.unlock != unlockPassphrase && s.unlock != unlockKeyFile {
		return fmt.Errorf("-unlock is %s or %s", unlockPassphrase, unlockKeyFile)
	}
	if err := kit.Known("-step", s.steps, stepNames()); err != nil {
		return err
	}
	r, err := s.all(ctx)
	if err != nil {
		return err
	}
	tables := r.markdown()
	fmt.Print(tables)
	if *text != "" {
		if err := os.WriteFile(*text, []byte(tables), 0o644); err != nil {
			return err
		}
	}
	return kit.Save(*into, r)
}

func list(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(s string) bool { return s == "" })
}

// all measures all data.
func (s *settings) all(ctx context.Context) (*results, error) {
	dir, err := os.MkdirTemp(s.work, "tidemark-bench-")
	if err != nil {
		return nil, fmt.Errorf("make working directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if s.made == "" {
		s.made = filepath.Join(dir, "made")
	}
	found, missing, err := s.find(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		fmt.Fprintf(os.Stderr, "%s is not installed and left out\n", name)
	}
	b := &bench{dir: dir, peers: found, settings: s}
	r := &results{Machine: describe(ctx, dir, found), Cold: s.cold, Rounds: s.rounds, Unlock: s.unlock, Missing: missing}
	for _, name := range s.data {
		d, err := s.prepare(ctx, name)
		if err != nil {
			return nil, err
		}
		measured, err := b.data(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.Data = append(r.Data, d.dataset)
		r.All = append(r.All, measured...)
		fmt.Fprint(os.Stderr, r.of(name).markdown())
	}
	return r, nil
}

// find returns the installed programs, and the names of the missing ones.
func (s *settings) find(ctx context.Context, dir string) (found []peer, missing []string, err error) {
	wanted := s.peers
	if len(wanted) == 0 {
		for _, k := range kinds() {
			wanted = append(wanted, k.name)
		}
	}
	for _, name := range wanted {
		name, program, given := strings.Cut(name, "=")
		k, err := kindOf(name)
		if err != nil {
			return nil, nil, err
		}
		if !given {
			program = k.program
		}
		if k.name == base && s.unlock == unlockKeyFile {
			k.env = keyFileEnv
		}
		switch {
		case k.name == base && !given:
			program = filepath.Join(dir, "program")
			if err := kit.Build(ctx, program); err != nil {
				return nil, nil, err
			}
		case k.name == "walk":
			if program, err = os.Executable(); err != nil {
				return nil, nil, err
			}
		}
		path, err := exec.LookPath(program)
		if err != nil {
			if given {
				return nil, nil, fmt.Errorf("%s: %w", name, err)
			}
			missing = append(missing, name)
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, nil, err
		}
		found = append(found, peer{name: name, program: path, kind: k})
	}
	return found, missing, nil
}
