package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// filterFlags choose snapshots.
type filterFlags struct {
	hosts, paths []string
	tags         tagLists
}

func (f *filterFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.hosts, "host", "H", nil, "only snapshots of this machine; may be given several times")
	flags.Var(&f.tags, "tag", "only snapshots with all tags of the list a,b, or with '' those that have none; may be given "+
		"several times")
	flags.StringArrayVar(&f.paths, "path", nil, "only snapshots of this absolute path; may be given several times")
}

func (f *filterFlags) filter() repo.Filter {
	filter := repo.Filter{Hosts: f.hosts, Paths: f.paths}
	for _, list := range f.tags {
		filter.Tags = append(filter.Tags, strings.Split(list, ","))
	}
	return filter
}

// tagLists are lists of tags, as they are given one after the other.
type tagLists []string

// Set takes a list. Its only empty tag can be that which stands for none.
func (t *tagLists) Set(list string) error {
	if list != "" && slices.Contains(strings.Split(list, ","), "") {
		return errors.New("a tag in it is empty: write a,b, or '' alone for snapshots without tags")
	}
	*t = append(*t, list)
	return nil
}

func (t *tagLists) String() string { return strings.Join(*t, " ") }

// Type names it in the help.
func (t *tagLists) Type() string { return "list" }

// find returns the snapshot of an argument SNAPSHOT[:/sub/path], and the path.
func find(ctx context.Context, r *repo.Repository, argument string, f repo.Filter) (repo.Listed, string, error) {
	ref, sub, _ := strings.Cut(argument, ":")
	found, err := r.FindSnapshot(ctx, ref, f)
	if err != nil {
		return found, "", err
	}
	return found, sub, nil
}

// findCertain is find for what is written over other files or taken for the newest state: if a snapshot cannot be read, it may
// be the latest, and whether an older one will do is for the user to say.
func findCertain(ctx context.Context, r *repo.Repository, argument string, f repo.Filter) (repo.Listed, string, error) {
	found, sub, err := find(ctx, r, argument, f)
	if err != nil || len(found.Unread) == 0 {
		return found, sub, err
	}
	names := make([]string, len(found.Unread))
	for i, id := range found.Unread {
		names[i] = id.Short()
	}
	older, at := found.ID.Short(), time.Unix(found.Snapshot.Time.Sec, 0).Format(time.DateTime)
	return found, "", fmt.Errorf("it is not certain which snapshot is the latest, and nothing was written: %s cannot be read and may be "+
		"newer than %s of %s. To take %[2]s, name it instead of latest; to be rid of what cannot be read, tidemark forget %[4]s",
		strings.Join(names, ", "), older, at, strings.Join(names, " "))
}

// together reads how many things are looked at together: 0 leaves it to the verb.
func together(n int) error {
	const most = 256 // each takes some megabytes of memory
	if n < 0 || n > most {
		return usagef("--parallel %d: write a number from 1 to %d", n, most)
	}
	return nil
}

// parseTime reads a time as a user writes it, in local time unless it says otherwise.
func parseTime(text string) (time.Time, error) {
	if text == "now" {
		return time.Now(), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC3339Nano} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil && !at.IsZero() { // which means none
			return at, nil
		}
	}
	return time.Time{}, usagef("time %q: write it as 2006-01-02 15:04:05, 2006-01-02, or 2006-01-02T15:04:05+01:00", text)
}

// join appends a path inside a snapshot to another.
func join(base, sub string) string {
	if sub == "" {
		return base
	}
	return path.Join("/", base, sub)
}
