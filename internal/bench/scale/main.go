// Package scale measures tidemark on very many small files: first backup, unchanged backups beside a serial walk of the
// same tree, a backup after a change of one file in a hundred, check, restore of one directory, forget and prune; and
// what all this leaves in the local cache and in the repository, for each object.
//
//	tidemark-bench scale -files 300000,1000000,3000000 -work DIR [-cold] [-rounds 3] [-json FILE]
//
// The tree has the shape of a published run on 27.84 million files in 2.5 million directories: eleven files to a
// directory, most of them empty or a few bytes, a third of the contents duplicates; grow.go makes it from a seed.
// Tree, repository and cache are made in a folder of their own below -work, on a file system with as many free inodes,
// and removed at the end.
//
// Times of a machine that does other work mean little: walk and unchanged backup take turns, and their ratio is taken
// turn by turn. Memory is the high-water mark of the resident set since the program was started, which counts the pages
// of mapped files (the local cache is one); its split into private memory and pages of files is sampled.
//
// The package starts the program and measures the files it leaves. It reads the footers of packs of data.
package scale

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// settings are the flags.
type settings struct {
	files   []int
	work    string
	cold    bool
	rounds  int
	into    string
	program string
	policy  string
	seed    uint64
	keep    bool
}

func parse(args []string) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("tidemark-bench scale", flag.ExitOnError)
	files := flags.String("files", "300000,1000000", "how many files, one run for each number")
	flags.StringVar(&s.work, "work", "", "where tree, repository and cache go (default: the temporary directory)")
	flags.BoolVar(&s.cold, "cold", false, "drop the page cache before each step (as root)")
	flags.IntVar(&s.rounds, "rounds", 3, "how often walk and unchanged backup take turns")
	flags.StringVar(&s.into, "json", "", "also write all measurements to this file")
	flags.StringVar(&s.program, "tidemark", "", "the program to measure (default: built from this module)")
	flags.StringVar(&s.policy, "policy", "important", "tidemark's I/O policy; important never yields")
	flags.BoolVar(&s.keep, "keep", false, "leave everything there, and print where")
	flags.Uint64Var(&s.seed, "seed", 1, "another seed makes another tree of the same shape")
	_ = flags.Parse(args)
	for _, word := range strings.Split(*files, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return s, fmt.Errorf("-files %s: want numbers of files, as in 300000,1000000", *files)
		}
		s.files = append(s.files, n)
	}
	if flags.NArg() > 0 || s.rounds < 1 {
		return s, errors.New("want at least one round, and no further words")
	}
	return s, nil
}

// Run makes the measurements that the arguments select.
func Run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	work, err := filepath.Abs(cmp.Or(s.work, os.TempDir())) // programs are started elsewhere
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(work, "tidemark-bench-")
	if err != nil {
		return fmt.Errorf("make working directory: %w", err)
	}
	if s.keep {
		fmt.Println("everything stays in", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if s.program == "" {
		s.program = filepath.Join(dir, "program")
		if err := kit.Build(ctx, s.program); err != nil {
			return err
		}
	}
	var all []scale
	for _, n := range s.files {
		one, err := measureScale(ctx, s, filepath.Join(dir, strconv.Itoa(n)), n)
		if err != nil {
			return err
		}
		all = append(all, one)
		fmt.Print(table(one))
		if err := kit.Save(s.into, all); err != nil { // after each: the next one may take hours
			return err
		}
	}
	if len(all) > 1 {
		fmt.Print(curve(all))
	}
	return nil
}

// measureScale runs all measurements of one size.
func measureScale(ctx context.Context, s settings, dir string, files int) (scale, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return scale{}, err
	}
	if !s.keep {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	b := &bench{settings: s, dir: dir, tree: filepath.Join(dir, "tree"), shape: Shape{Files: files, Seed: s.seed}}
	b.walk = b.walkTree
	fmt.Fprintf(os.Stderr, "making %d files\n", files)
	made, err := b.shape.Make(ctx, b.tree)
	if err != nil {
		return scale{}, fmt.Errorf("make tree: %w", err)
	}
	fmt.Fprintf(os.Stderr, "made %d files and %d directories in %.0f s\n", made.Files, made.Dirs, made.Seconds)
	b.result.Tree = made
	err = b.steps(ctx)
	return b.result, err
}
