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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/when"
)

// filterFlags registers the flags that select snapshots.
func filterFlags(flags *pflag.FlagSet, f *repo.Filter) {
	flags.StringArrayVarP(&f.Hosts, "host", "H", nil, "only snapshots of this host; repeatable")
	flags.Var(tagLists(&f.Tags), "tag", "only snapshots with all tags of the list a,b; '' selects those without tags; "+
		"repeatable")
	flags.StringArrayVar(&f.Paths, "path", nil, "only snapshots of this absolute path; repeatable")
}

// exactFlag registers --exact-paths.
func exactFlag(flags *pflag.FlagSet, f *repo.Filter) {
	flags.BoolVar(&f.Exact, "exact-paths", false, "with --path: leave out snapshots that have other paths, too")
	help.Rare(flags, "exact-paths")
}

// checkExact refuses --exact-paths without paths.
func checkExact(f *repo.Filter) error {
	if f.Exact && len(f.Paths) == 0 {
		return usagef("--exact-paths needs --path: name the paths")
	}
	return nil
}

// tagLists is a flag that adds a list of tags at each use. An empty tag is allowed only alone, where it stands for
// "no tags".
func tagLists(to *[][]string) pflag.Value {
	return options.Flag(to, "list", func(text string) ([][]string, error) {
		tags := strings.Split(text, ",")
		if text != "" && slices.Contains(tags, "") {
			return nil, errors.New("the list contains an empty tag: write a,b, or '' alone for snapshots without tags")
		}
		return append(*to, tags), nil
	}, func([][]string) string { return "" })
}

// tagList is a flag that takes a tag, or a list of them with commas, and is repeatable; an empty text adds none. Unlike
// pflag's slices it reads no quotes and ends at no newline: a tag is what was typed.
func tagList(to *[]string) pflag.Value {
	return options.Flag(to, "strings", func(text string) ([]string, error) {
		if text == "" {
			return *to, nil
		}
		return append(*to, strings.Split(text, ",")...), nil
	}, func(all []string) string { return strings.Join(all, ",") })
}

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

// pastFlag registers --as-of, with which a command reads the repository as it was. What was stored or removed from then
// on does not count. A day stands for its end.
func (a *app) pastFlag(c *cobra.Command) {
	c.Flags().Var(options.Flag(&a.before, "time", func(text string) (time.Time, error) {
		span, err := when.Parse(text, time.Now())
		return span.To, err
	}, func(time.Time) string { return "" }), "as-of", "read the repository as it was at this time, in a bucket that "+
		"keeps versions, whatever was removed or overwritten since: a day (its end), a moment, or \"3 days ago\"")
	help.Topic(c.Flags(), options.TopicWhere, "as-of")
	help.Rare(c.Flags(), "as-of")
}
