package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
)

// pathLists are files that list the paths to back up.
type pathLists struct{ patterns, verbatim, raw []string }

// register adds the flags.
func (l *pathLists) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&l.patterns, "files-from", nil,
		"read paths from a file, one per line; globs are expanded, # starts a comment, - is standard input")
	flags.StringArrayVar(&l.verbatim, "files-from-verbatim", nil, "the same, but each line is taken literally")
	flags.StringArrayVar(&l.raw, "files-from-raw", nil,
		"the same, but paths are taken literally and end with a NUL byte, as from find -print0")
	help.Rare(flags, "files-from-verbatim", "files-from-raw")
}

// given reports whether a list was named.
func (l *pathLists) given() bool { return len(l.patterns)+len(l.verbatim)+len(l.raw) > 0 }

// read appends the listed paths to args. A malformed pattern is a filepath.ErrBadPattern.
func (l *pathLists) read(stdin io.Reader, args []string) ([]string, error) {
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
				return nil, fmt.Errorf("%s: pattern %q: %w", name, line, err)
			}
			if len(found) == 0 {
				found = []string{line} // reported as missing, like an argument
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

// readList returns the entries of a list that are not empty.
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
