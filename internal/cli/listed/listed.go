// Package listed reads files that list paths, in the three forms that other programs have too. It refuses to know what becomes
// of the paths.
package listed

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// Files name files that list what to back up.
type Files struct{ patterns, verbatim, raw []string }

// Register adds the options that name them.
func (l *Files) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&l.patterns, "files-from", nil,
		"read paths from a file, one per line: globs are expanded, # begins a comment; - is standard input")
	flags.StringArrayVar(&l.verbatim, "files-from-verbatim", nil, "the same, with each line a path as it is")
	flags.StringArrayVar(&l.raw, "files-from-raw", nil, "the same, with paths that end with a NUL byte, as from find -print0")
}

// Given reports whether there is one.
func (l *Files) Given() bool { return len(l.patterns)+len(l.verbatim)+len(l.raw) > 0 }

// Paths adds what the lists name to the arguments. A pattern that is none is a filepath.ErrBadPattern.
func (l *Files) Paths(stdin io.Reader, args []string) ([]string, error) {
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
