package cli

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// patternFlags choose what is restored. They are not the options of the same names, which are about backups.
type patternFlags struct{ include, exclude patternLists }

// patternLists are the patterns of one of the two, with and without regard to case, given singly and in files.
type patternLists struct{ exact, folded, exactFiles, foldedFiles []string }

func (p *patternFlags) register(flags *pflag.FlagSet) {
	for name, lists := range map[string]*patternLists{"include": &p.include, "exclude": &p.exclude} {
		what := map[string]string{"include": "restore only", "exclude": "do not restore"}[name] + " what matches the pattern"
		flags.StringArrayVarP(&lists.exact, name, name[:1], nil, what)
		flags.StringArrayVar(&lists.folded, "i"+name, nil, what+", in upper or lower case")
		flags.StringArrayVar(&lists.exactFiles, name+"-file", nil, "read patterns of --"+name+" from a file")
		flags.StringArrayVar(&lists.foldedFiles, "i"+name+"-file", nil, "read patterns of --i"+name+" from a file")
	}
}

// compile returns what decides about a path: nil takes everything.
func (p *patternFlags) compile(env options.Env) (func(string, tree.Type) (take, enter bool), error) {
	include, err := p.include.compile("include", env)
	if err != nil {
		return nil, err
	}
	exclude, err := p.exclude.compile("exclude", env)
	if err != nil {
		return nil, err
	}
	switch {
	case include != nil && exclude != nil:
		return nil, usagef("--include and --exclude exclude each other: choose one")
	case include != nil:
		within := p.include.reach()
		return func(at string, typ tree.Type) (bool, bool) {
			take := matches(include, at, typ)
			return take, take || within(at)
		}, nil
	case exclude != nil:
		return func(at string, typ tree.Type) (bool, bool) {
			take := !matches(exclude, at, typ)
			return take, take
		}, nil
	}
	return nil, nil
}

// compile makes a set of rules whose excludes are the patterns; nil if there are none.
func (l *patternLists) compile(name string, env options.Env) (*rules.Set, error) {
	if len(l.exact)+len(l.folded)+len(l.exactFiles)+len(l.foldedFiles) == 0 {
		return nil, nil
	}
	b := rules.NewBuilder()
	for _, given := range []struct {
		flag            string
		fold            bool
		patterns, files []string
	}{{name, false, l.exact, l.exactFiles}, {"i" + name, true, l.folded, l.foldedFiles}} {
		for _, text := range given.patterns {
			if err := b.Exclude(text, given.fold, "--"+given.flag); err != nil {
				return nil, &usageError{err}
			}
		}
		for _, file := range given.files {
			if err := addFile(b, file, given.fold, env); err != nil {
				return nil, err
			}
		}
	}
	return b.Compile(), nil
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

// reach returns what tells whether something below a directory may match. It looks at the plain names that an anchored
// pattern begins with; for any other pattern the answer is yes.
func (l *patternLists) reach() func(dir string) bool {
	if len(l.folded)+len(l.exactFiles)+len(l.foldedFiles) > 0 {
		return func(string) bool { return true }
	}
	var stems []string
	for _, text := range l.exact {
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
