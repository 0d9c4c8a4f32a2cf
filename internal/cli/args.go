package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/when"
)

// filterFlags select snapshots.
type filterFlags struct {
	hosts, paths []string
	tags         tagLists
}

func (f *filterFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.hosts, "host", "H", nil, "only snapshots of this host; repeatable")
	flags.Var(&f.tags, "tag", "only snapshots with all tags of the list a,b; '' selects those without tags; "+
		"repeatable")
	flags.StringArrayVar(&f.paths, "path", nil, "only snapshots of this absolute path; repeatable")
}

func (f *filterFlags) filter() repo.Filter {
	filter := repo.Filter{Hosts: f.hosts, Paths: f.paths}
	for _, list := range f.tags {
		filter.Tags = append(filter.Tags, strings.Split(list, ","))
	}
	return filter
}

// tagLists are lists of tags in the order in which they were given.
type tagLists []string

// Set appends a list. An empty tag is allowed only alone, where it stands for "no tags".
func (t *tagLists) Set(list string) error {
	if list != "" && slices.Contains(strings.Split(list, ","), "") {
		return errors.New("the list contains an empty tag: write a,b, or '' alone for snapshots without tags")
	}
	*t = append(*t, list)
	return nil
}

func (t *tagLists) String() string { return strings.Join(*t, " ") }

// Type implements pflag.Value.
func (t *tagLists) Type() string { return "list" }

// find returns the snapshot of an argument SNAPSHOT[:/sub/path], and the path. If unreadable snapshots may be the one
// that is meant, a warning names them.
func find(ctx context.Context, r *repo.Repository, argument string, f repo.Filter) (repo.Listed, string, error) {
	ref, sub, found := strings.Cut(argument, ":/")
	if found {
		sub = "/" + sub
	} else if _, err := when.Parse(ref, time.Now()); err != nil { // a time has colons of its own
		ref, sub, _ = strings.Cut(argument, ":")
	}
	l, err := r.FindSnapshot(ctx, ref, f)
	return l, sub, err
}

// withAbsolute adds to the error of a path that a snapshot lacks which one a relative path may mean.
func withAbsolute(err error, typed string) error {
	if !errors.Is(err, browse.ErrNotFound) && !errors.Is(err, restore.ErrNoPath) || typed == "" || path.IsAbs(typed) {
		return err
	}
	at, unknown := filepath.Abs(typed)
	if unknown != nil {
		return err
	}
	return fmt.Errorf("%w; a path in a snapshot begins with a slash: did you mean %s?", err, human.ShellWord(at))
}

// checkParallel checks the value of --parallel; 0 means the default of the command.
func checkParallel(n int) error {
	const most = 256 // each takes some megabytes of memory
	if n < 0 || n > most {
		return usagef("--parallel %d: write a number from 1 to %d", n, most)
	}
	return nil
}

// parseTime reads a time as a user writes it, in local time unless it contains a zone.
func parseTime(text string) (time.Time, error) {
	span, err := when.Parse(text, time.Now())
	if err != nil {
		return time.Time{}, &usageError{err}
	}
	return span.At, nil
}

// join appends a path inside a snapshot to another.
func join(base, sub string) string {
	if sub == "" {
		return base
	}
	return path.Join("/", base, sub)
}
