package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// maxLinks is how many symbolic links a path may have, as in Linux.
const maxLinks = 40

// Check returns an error that wraps ErrUnsafe if this is a process of root, and another user can change the command:
// its option file, its program if the line begins with the path of one, or a folder above them.
func (c *Command) Check() error {
	if os.Geteuid() != 0 || c.Line == "" {
		return nil
	}
	if c.OptionFile != "" {
		if err := trusted(c.OptionFile); err != nil {
			return fmt.Errorf("the option file %s has commands for root: %w", human.Printable(c.OptionFile), err)
		}
	}
	if program := programOf(c.Line); program != "" {
		if err := trusted(program); err != nil {
			return fmt.Errorf("the program %s would run as root: %w", human.Printable(program), err)
		}
	}
	return nil
}

// programOf returns the program of a command line if its first word is a path without expansions, otherwise "". A
// relative path begins at /, where the command runs.
func programOf(line string) string {
	for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>()", r) }) {
		word = strings.Trim(word, `"'`)
		name, _, assigns := strings.Cut(word, "=")
		if assigns && !strings.Contains(name, "/") || word == "exec" { // NAME=value before the program
			continue
		}
		if !strings.Contains(word, "/") || strings.ContainsAny(word, "$`*?[\\~") {
			return ""
		}
		return filepath.Join("/", word)
	}
	return ""
}

// trusted returns an error if a user other than root can change the file at path: itself, a folder above it, or a
// symbolic link on the way. The part of the path that does not exist is not examined.
func trusted(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find %s: %w", human.Printable(path), err)
	}
	at, rest := "/", strings.TrimPrefix(path, "/")
	for links := 0; ; {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at who can change it: %w", err)
		}
		if err := onlyRoot(at, info); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			if links++; err != nil || links > maxLinks {
				return fmt.Errorf("follow the symbolic link %s: %w", human.Printable(at), errors.Join(err, syscall.ELOOP))
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			at, rest = "/", strings.TrimPrefix(filepath.Join(target, rest), "/")
			continue
		}
		if rest == "" {
			return nil
		}
		name, more, _ := strings.Cut(rest, "/")
		at, rest = filepath.Join(at, name), more
	}
}

// onlyRoot returns an error if a user other than root can change what is at a path. In a folder with the sticky bit,
// others cannot replace the entries of root.
func onlyRoot(at string, info fs.FileInfo) error {
	quoted := "'" + strings.ReplaceAll(human.Printable(at), "'", `'\''`) + "'"
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
		return fmt.Errorf("%w, since %s belongs to another user: chown -h root %s", ErrUnsafe, quoted, quoted)
	}
	shared := info.IsDir() && info.Mode()&fs.ModeSticky != 0
	if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 && !shared {
		return fmt.Errorf("%w: chmod go-w %s", ErrUnsafe, quoted)
	}
	return nil
}
