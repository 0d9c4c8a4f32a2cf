package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
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
		return found, "", fmt.Errorf("snapshot %s: %w", ref, err)
	}
	return found, sub, nil
}

// parseTime reads a time as a user writes it, in local time unless it says otherwise.
func parseTime(text string) (time.Time, error) {
	if text == "now" {
		return time.Now(), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC3339Nano} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("time %q: write it as 2006-01-02 15:04:05, 2006-01-02, or 2006-01-02T15:04:05+01:00", text)
}

// listFlags name files that list what to back up.
type listFlags struct{ patterns, verbatim, raw []string }

func (l *listFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&l.patterns, "files-from", nil,
		"read paths from a file, one per line: globs are expanded, # begins a comment; - is standard input")
	flags.StringArrayVar(&l.verbatim, "files-from-verbatim", nil, "the same, with each line a path as it is")
	flags.StringArrayVar(&l.raw, "files-from-raw", nil, "the same, with paths that end with a NUL byte, as from find -print0")
}

func (l *listFlags) given() bool { return len(l.patterns)+len(l.verbatim)+len(l.raw) > 0 }

// paths adds what the lists name to the arguments.
func (l *listFlags) paths(stdin io.Reader, args []string) ([]string, error) {
	all := args
	for _, name := range l.patterns {
		lines, err := readList(stdin, name, "\n")
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			found, err := filepath.Glob(line)
			if err != nil {
				return nil, usagef("%s: pattern %q: %w", name, line, err)
			}
			if len(found) == 0 {
				found = []string{line} // told as missing, like an argument
			}
			all = append(all, found...)
		}
	}
	for _, name := range l.verbatim {
		lines, err := readList(stdin, name, "\n")
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	for _, name := range l.raw {
		names, err := readList(stdin, name, "\x00")
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

// readList reads what a file lists, without empty parts.
func readList(stdin io.Reader, name, separator string) ([]string, error) {
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(stdin)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read list of paths: %w", err)
	}
	var parts []string
	for part := range bytes.SplitSeq(content, []byte(separator)) {
		if len(part) > 0 {
			parts = append(parts, string(part))
		}
	}
	return parts, nil
}

// join appends a path inside a snapshot to another.
func join(base, sub string) string {
	if sub == "" {
		return base
	}
	return path.Join("/", base, sub)
}
