package cli

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// patternLists are the patterns of --include or --exclude, single ones and files of them: with case, and without it.
type patternLists [2]struct{ patterns, files []string }

func (l *patternLists) register(flags *pflag.FlagSet, name, what string) {
	flags.StringArrayVarP(&l[0].patterns, name, name[:1], nil, what)
	flags.StringArrayVar(&l[1].patterns, "i"+name, nil, what+", ignoring case")
	flags.StringArrayVar(&l[0].files, name+"-file", nil, "read patterns of --"+name+" from a file")
	flags.StringArrayVar(&l[1].files, "i"+name+"-file", nil, "read patterns of --i"+name+" from a file")
	help.Rare(flags, "i"+name, name+"-file", "i"+name+"-file")
}

// selection decides which objects are restored. Its methods are safe for concurrent use.
type selection struct {
	take     func(at string, typ tree.Type) (take, enter bool)
	patterns []*singlePattern
}

// singlePattern is a pattern of --include, --exclude or their variants without case, not one from a file.
type singlePattern struct {
	flag, text string
	set        *rules.Set // of this pattern only
	matched    atomic.Bool
}

// Take reports whether an object is restored, and whether the restore enters it.
func (s *selection) Take(at string, typ tree.Type) (take, enter bool) {
	for _, p := range s.patterns {
		if !p.matched.Load() && matches(p.set, at, typ) {
			p.matched.Store(true)
		}
	}
	return s.take(at, typ)
}

// selection returns what the patterns select; nil is everything.
func (f *restoreFlags) selection(env options.Env) (*selection, error) {
	if f.dsmc.take != nil {
		return &selection{take: f.dsmc.take}, nil
	}
	include, included, err := f.include.compile("include", env)
	if err != nil {
		return nil, err
	}
	exclude, excluded, err := f.exclude.compile("exclude", env)
	if err != nil {
		return nil, err
	}
	switch {
	case include != nil && exclude != nil:
		return nil, usagef("--include and --exclude exclude each other: choose one")
	case include != nil:
		within := f.include.reach()
		return &selection{patterns: included, take: func(at string, typ tree.Type) (bool, bool) {
			take := matches(include, at, typ)
			return take, take || within(at)
		}}, nil
	case exclude != nil:
		return &selection{patterns: excluded, take: func(at string, typ tree.Type) (bool, bool) {
			take := !matches(exclude, at, typ)
			return take, take
		}}, nil
	}
	return nil, nil
}

// compile returns rules that exclude what the patterns match, nil without patterns, and each pattern that is not from
// a file in a set of its own.
func (l *patternLists) compile(name string, env options.Env) (*rules.Set, []*singlePattern, error) {
	b, none := rules.NewBuilder(), true
	var single []*singlePattern
	for i, given := range l {
		flag, fold := [2]string{"--", "--i"}[i]+name, i == 1
		none = none && len(given.patterns)+len(given.files) == 0
		for _, text := range given.patterns {
			if err := b.Exclude(text, fold, flag); err != nil {
				return nil, nil, &usageError{err}
			}
			own := rules.NewBuilder()
			_ = own.Exclude(text, fold, flag) // b has taken it
			single = append(single, &singlePattern{flag: flag, text: text, set: own.Compile()})
		}
		for _, file := range given.files {
			if err := addFile(b, file, fold, env); err != nil {
				return nil, nil, err
			}
		}
	}
	if none {
		return nil, nil, nil
	}
	return b.Compile(), single, nil
}

func addFile(b *rules.Builder, file string, fold bool, env options.Env) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read patterns: %w", err)
	}
	defer f.Close()
	if err := b.ExcludeFile(f, file, fold, env); err != nil {
		return &usageError{err}
	}
	return nil
}

func matches(set *rules.Set, at string, typ tree.Type) bool {
	return set.Explain(rules.Query{Path: at, Type: typ}).Verdict == rules.Exclude
}

// reach returns a function that reports whether an object below a directory may match. It compares the directory with
// the names before the first wildcard of each anchored pattern; with a pattern of another kind the answer is always
// yes.
func (l *patternLists) reach() func(dir string) bool {
	if len(l[1].patterns)+len(l[0].files)+len(l[1].files) > 0 {
		return func(string) bool { return true }
	}
	var stems []string
	for _, text := range l[0].patterns {
		stem := ""
		for name := range strings.SplitSeq(strings.TrimPrefix(path.Clean(text), "/"), "/") {
			if strings.ContainsAny(name, `*?[\`) {
				break
			}
			stem += "/" + name
		}
		if !strings.HasPrefix(text, "/") || stem == "" {
			return func(string) bool { return true }
		}
		stems = append(stems, stem)
	}
	return func(dir string) bool {
		for _, stem := range stems {
			if strings.HasPrefix(stem+"/", dir+"/") || strings.HasPrefix(dir+"/", stem+"/") {
				return true
			}
		}
		return false
	}
}
