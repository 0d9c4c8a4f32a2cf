// Package scale measures tidemark on very many small files: first backup, unchanged backups beside a serial walk of the
// same tree, a backup after a change of one file in a hundred, check, restore of one directory, forget and prune; and
// what all this leaves in the local cache and in the repository, for each object.
//
//	tidemark-bench scale -files 300000,1000000,3000000 -work DIR [-image ext4|none] [-cold] [-rounds 3] [-json FILE]
//	tidemark-bench scale -files 28000000 -grow DIR     # only makes the image, which takes a while
//	tidemark-bench scale -files 28000000 -grown DIR …  # measures with it; it is used up
//
// The tree has the shape of a published run on 27.84 million files in 2.5 million directories: eleven files to a
// directory, most of them empty or a few bytes, a third of the contents duplicates; package grow makes it from a seed.
// By default it lies in a sparse ext4 image with room for as many inodes, which needs root; with -image none in a plain
// folder. Image, repository and cache are made in a folder of their own below -work and removed at the end.
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
	image   string
	cold    bool
	rounds  int
	into    string
	program string
	policy  string
	seed    uint64
	keep    bool
	grow    string // folder: only make images there
	grown   string // folder: take images from there
}

func parse(args []string) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("tidemark-bench scale", flag.ExitOnError)
	files := flags.String("files", "300000,1000000", "how many files, one run for each number")
	flags.StringVar(&s.work, "work", "", "where image, repository and cache go (default: the temporary directory)")
	flags.StringVar(&s.image, "image", "ext4", "ext4: the tree lies in a sparse image with room for it; none: in a folder")
	flags.BoolVar(&s.cold, "cold", false, "drop the page cache before each step (as root)")
	flags.IntVar(&s.rounds, "rounds", 3, "how often walk and unchanged backup take turns")
	flags.StringVar(&s.into, "json", "", "also write all measurements to this file")
	flags.StringVar(&s.program, "tidemark", "", "the program to measure (default: built from this module)")
	flags.StringVar(&s.policy, "policy", "important", "tidemark's I/O policy; important never yields")
	flags.BoolVar(&s.keep, "keep", false, "leave everything there, mounted, and print where")
	flags.StringVar(&s.grow, "grow", "", "only make the images, in this folder, for -grown")
	flags.StringVar(&s.grown, "grown", "",
		"take the images that -grow made from this folder, on the same disk as -work; they are used up")
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
	if s.image != "ext4" && s.image != "none" {
		return s, fmt.Errorf("-image %s: want ext4 or none", s.image)
	}
	if s.image != "ext4" && s.grow+s.grown != "" {
		return s, errors.New("-grow and -grown are about images: they need -image ext4")
	}
	return s, nil
}

// Run makes the measurements that the arguments select.
func Run(ctx context.Context, args []string) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if s.grow != "" {
		return s.growAll(ctx)
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
		defer func() {
			if !errors.Is(err, errMounted) {
				_ = os.RemoveAll(dir)
			}
		}()
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
func measureScale(ctx context.Context, s settings, dir string, files int) (result scale, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return scale{}, err
	}
	t := planted{dir: dir, shape: Shape{Files: files, Seed: s.seed}}
	if !s.keep {
		defer func() {
			if err = errors.Join(err, t.unmount()); !errors.Is(err, errMounted) {
				_ = os.RemoveAll(dir)
			}
		}()
	}
	switch {
	case s.grown != "":
		err = t.take(ctx, s.grown)
	case s.image == "none":
		err = t.plant(ctx)
	default:
		err = t.plantImage(ctx)
	}
	if err != nil {
		return scale{}, err
	}
	b := &bench{settings: s, dir: dir, tree: t.root(), shape: t.shape, result: scale{Tree: t.made}}
	b.walk = b.walkTree
	if err := b.steps(ctx); err != nil {
		return scale{}, err
	}
	return b.result, nil
}
