package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// maxLinks is how many symbolic links a path may have, as in Linux.
const maxLinks = 40

// Check returns an error that wraps ErrUnsafe if this is a process of root, and another user can change the
// command: its option files, a path in its line, or a folder above them. A path is whatever may be one: a
// program, a script for a shell, a value of an option. Paths that are relative to a folder the line does not name
// are refused. What runuser, su and sudo run is up to them.
func (c *Command) Check() error {
	if os.Geteuid() != 0 || c.Line == "" {
		return nil
	}
	for _, file := range c.Files {
		if file == "" {
			continue
		}
		if err := trusted(file); err != nil {
			return fmt.Errorf("the option file %s has commands for root: %w", human.Printable(file), err)
		}
	}
	for _, path := range pathsOf(c.Line) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%w: root would run a command with the relative path %s: name it from / on", ErrUnsafe,
				human.Printable(path))
		}
		if err := trusted(path); err != nil {
			return fmt.Errorf("root would run a command with %s: %w, or let its owner run it: runuser -u USER -- COMMAND",
				human.Printable(path), err)
		}
	}
	return nil
}

// separators are what ends a word of a shell, without white space.
const separators = ";&|<>()`{}\n"

// simpleCommands splits a line into simple commands, and these into words without quotes.
func simpleCommands(line string) (all [][]string) {
	var words []string
	var word strings.Builder
	begun, quote := false, rune(0)
	end := func(command bool) {
		if begun {
			words = append(words, word.String())
		}
		if command && words != nil {
			all, words = append(all, words), nil
		}
		begun = false
		word.Reset()
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			escaped, begun = false, true
			word.WriteRune(r)
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case strings.ContainsRune(separators, r):
			end(true)
		case unicode.IsSpace(r):
			end(false)
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end(true)
	return all
}

// pathsOf returns the paths in a command line. One relative to /, where commands run, is made absolute unless it says
// that it is relative, or a program or script is.
func pathsOf(line string) (paths []string) {
	moved := false // by cd
	for _, words := range simpleCommands(line) {
		script := true // the next word that is no option is a program, or the script of an interpreter
		for _, word := range words {
			name, value, assigns := strings.Cut(word, "=")
			if assigns && !strings.Contains(name, "/") {
				paths = append(paths, pathsIn(value, moved, false)...)
				continue
			}
			if strings.HasPrefix(word, "-") {
				continue
			}
			if script && slices.Contains(others(), filepath.Base(word)) {
				paths = append(paths, pathsIn(word, moved, true)...)
				break
			}
			paths = append(paths, pathsIn(word, moved, script)...)
			moved = moved || script && word == "cd"
			script = script && slices.Contains(interpreters(), strings.TrimRight(filepath.Base(word), "0123456789."))
		}
	}
	return paths
}

// others run a command as another user.
func others() []string { return []string{"runuser", "su", "sudo"} }

// interpreters run the script or the program that is their first argument. The empty name is the command ".".
func interpreters() []string {
	return []string{"", "source", "sh", "bash", "dash", "ash", "ksh", "zsh", "python", "perl", "ruby", "node", "php",
		"exec", "command", "env", "nice", "ionice", "nohup", "setsid"}
}

// pathsIn returns the paths in a word.
func pathsIn(word string, moved, script bool) (paths []string) {
	if strings.ContainsAny(word, " \t"+separators) { // a line for another shell, or a path with a space
		paths = pathsOf(word)
		if filepath.IsAbs(word) {
			paths = append(paths, word)
		}
		return paths
	}
	if strings.Contains(word, "://") {
		return nil
	}
	pieces := strings.Split(word, ":")
	if len(pieces) == 2 && pieces[0] != "" && !strings.Contains(pieces[0], "/") { // on another machine
		return nil
	}
	for _, piece := range pieces {
		if at := strings.IndexAny(piece, "$*?["); at >= 0 { // as far as it is known
			piece = piece[:strings.LastIndex(piece[:at], "/")+1]
		}
		relative := strings.HasPrefix(piece, "./") || strings.HasPrefix(piece, "../")
		switch {
		case filepath.IsAbs(piece):
			paths = append(paths, filepath.Clean(piece))
		case relative, script && strings.Contains(piece, "/"), moved && strings.Contains(piece, "/"):
			paths = append(paths, piece)
		case strings.Contains(piece, "/"):
			paths = append(paths, filepath.Join("/", piece))
		}
	}
	return paths
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
// others cannot replace the entries of root. What is written to a device or a socket does not change it.
func onlyRoot(at string, info fs.FileInfo) error {
	quoted := "'" + strings.ReplaceAll(human.Printable(at), "'", `'\''`) + "'"
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
		return fmt.Errorf("%w, since %s belongs to another user: chown -h root %s", ErrUnsafe, quoted, quoted)
	}
	shared := info.IsDir() && info.Mode()&fs.ModeSticky != 0 || info.Mode()&(fs.ModeDevice|fs.ModeSocket) != 0
	if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 && !shared {
		return fmt.Errorf("%w: chmod go-w %s", ErrUnsafe, quoted)
	}
	return nil
}
