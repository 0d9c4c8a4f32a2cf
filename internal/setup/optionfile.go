package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// domain is the keyword of the sources.
const domain = "DOMAIN"

// Settings returns the lines of the option file for answers; given is what the command line sets.
func Settings(a Answers, given []options.Setting) []options.Setting {
	all := []options.Setting{{Keyword: "REPOSITORY", Value: a.Repository}, {Keyword: "POLICY", Value: a.Policy}}
	for _, source := range a.Sources {
		all = append(all, options.Setting{Keyword: domain, Value: source, List: true})
	}
	for _, s := range given {
		if s.Keyword != "REPOSITORY" && s.Keyword != "POLICY" && s.Keyword != domain {
			all = append(all, s)
		}
	}
	return all
}

// Change is a line of the option file that is added, replaced or removed.
type Change struct{ Old, New string }

// File is an option file and what setup makes of it.
type File struct {
	Path    string
	Content []byte // before; nil: it does not exist
	New     []byte // after
	Changes []Change
}

// Edit returns the file with settings in effect. Lines that say something else are replaced where they are; all others
// stay, comments included. New lines are added at the end of the part that is in effect for server.
func Edit(path string, content []byte, server string, settings []options.Setting) (*File, error) {
	f := &File{Path: path, Content: content}
	lines, err := options.ParseFile(path, content, server)
	if err != nil {
		return nil, fmt.Errorf("read the option file: %w", err)
	}
	e := &editor{effective: lines}
	if len(content) > 0 {
		e.text = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	}
	e.at = len(e.text)
	if n := len(lines); n > 0 {
		e.at = lines[n-1].Number
	} else if slices.ContainsFunc(e.text, statement) {
		e.at = 0 // before the first stanza, since the one in effect is empty
	}
	for _, group := range grouped(settings) {
		if err := e.apply(group); err != nil {
			return nil, err
		}
	}
	f.Changes = e.changes
	f.New = e.result()
	return f, nil
}

// Remove returns the file without the lines in effect that say exactly one of settings. All others stay.
func Remove(path string, content []byte, server string, settings []options.Setting) (*File, error) {
	lines, err := options.ParseFile(path, content, server)
	if err != nil {
		return nil, fmt.Errorf("read the option file: %w", err)
	}
	e := &editor{text: strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")}
	e.at = len(e.text)
	for _, l := range lines {
		if slices.ContainsFunc(settings, func(s options.Setting) bool {
			return s.Keyword == l.Keyword && slices.Equal(l.Values, []string{s.Value})
		}) {
			e.remove(l.Number)
		}
	}
	return &File{Path: path, Content: content, New: e.result(), Changes: e.changes}, nil
}

// statement reports whether a line is neither blank nor a comment.
func statement(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '*' && line[0] != '#'
}

// grouped returns the sources as one group, and each other setting alone.
func grouped(settings []options.Setting) (all [][]options.Setting) {
	for _, s := range settings {
		i := slices.IndexFunc(all, func(g []options.Setting) bool { return s.Keyword == domain && g[0].Keyword == domain })
		if i >= 0 {
			all[i] = append(all[i], s)
		} else {
			all = append(all, []options.Setting{s})
		}
	}
	return all
}

// editor changes the lines of an option file.
type editor struct {
	text      []string
	effective []options.FileLine
	at        int // number of the line after which lines are added
	added     []string
	removed   map[int]bool
	changes   []Change
}

// apply puts a group of settings into effect, which is one line.
func (e *editor) apply(group []options.Setting) error {
	keyword := group[0].Keyword
	values := make([]string, len(group))
	line := keyword
	for i, s := range group {
		values[i] = s.Value
		text, err := quote(s.Value)
		if err != nil {
			return fmt.Errorf("%w: %s", err, keyword)
		}
		line += " " + text
	}
	var same []options.FileLine
	for _, l := range e.effective {
		if l.Keyword == keyword {
			same = append(same, l)
		}
	}
	switch {
	case keyword == domain:
		var now []string
		for _, l := range same {
			now = append(now, l.Values...)
		}
		if slices.Equal(now, values) {
			return nil
		}
	case group[0].List: // each line counts
		if !slices.ContainsFunc(same, func(l options.FileLine) bool { return slices.Equal(l.Values, values) }) {
			e.add(line)
		}
		return nil
	case len(same) > 0: // the last line counts
		same = same[len(same)-1:]
		if slices.Equal(same[0].Values, values) {
			return nil
		}
	}
	if len(same) == 0 {
		e.add(line)
		return nil
	}
	e.replace(same[0].Number, line)
	for _, l := range same[1:] {
		e.remove(l.Number)
	}
	return nil
}

func (e *editor) add(line string) {
	if !slices.Contains(e.added, line) {
		e.added = append(e.added, line)
		e.changes = append(e.changes, Change{New: line})
	}
}

func (e *editor) replace(number int, line string) {
	e.changes = append(e.changes, Change{Old: e.text[number-1], New: line})
	e.text[number-1] = line
}

func (e *editor) remove(number int) {
	if e.removed == nil {
		e.removed = map[int]bool{}
	}
	e.removed[number] = true
	e.changes = append(e.changes, Change{Old: e.text[number-1]})
}

// result returns the new text.
func (e *editor) result() []byte {
	var out []string
	for i, line := range e.text {
		if i == e.at {
			out = append(out, e.added...)
		}
		if !e.removed[i+1] {
			out = append(out, line)
		}
	}
	if e.at >= len(e.text) {
		out = append(out, e.added...)
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

// quote returns a value as an option file holds it.
func quote(value string) (string, error) {
	switch {
	case strings.ContainsAny(value, "\n\r"):
		return "", ErrQuotes
	case value != "" && !strings.ContainsAny(value, " \t") && value[0] != '"' && value[0] != '\'':
		return value, nil
	case !strings.Contains(value, `"`):
		return `"` + value + `"`, nil
	case !strings.Contains(value, `'`):
		return `'` + value + `'`, nil
	}
	return "", ErrQuotes
}

// Sources returns the folders that the DOMAIN lines of an option file name.
func Sources(lines []options.FileLine) (all []string) {
	for _, l := range lines {
		for _, value := range l.Values {
			if l.Keyword == domain && filepath.IsAbs(value) && !slices.Contains(all, value) {
				all = append(all, value)
			}
		}
	}
	return all
}

// Text shows the changes: a line with "-" was in the file, a line with "+" will be.
func (f *File) Text() string {
	var b strings.Builder
	for _, c := range f.Changes {
		if c.Old != "" {
			b.WriteString("   - " + c.Old + "\n")
		}
		if c.New != "" {
			b.WriteString("   + " + c.New + "\n")
		}
	}
	return b.String()
}

// Fresh makes the file one that does not exist yet, with the same new content.
func (f *File) Fresh() {
	if len(f.Content) == 0 {
		f.New = append([]byte(header), f.New...)
	}
	f.Content = nil
}

// header begins a new option file.
const header = "* Written by 'tidemark setup'. 'tidemark options' prints what is in effect.\n"

// Save writes the file, and keeps a copy of the one that was there. It returns the path of the copy, "" for none.
func (f *File) Save() (backup string, err error) {
	path := f.Path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link to the file stays
	}
	mode := fs.FileMode(0o600)
	was, err := ReadRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", fmt.Errorf("write the option file: %w", err)
		}
	case err != nil:
		return "", fmt.Errorf("write the option file: %w", err)
	case !bytes.Equal(was, f.Content):
		return "", ErrChanged
	default:
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
		if backup, err = keep(path, was, mode); err != nil {
			return "", fmt.Errorf("keep a copy of the option file: %w", err)
		}
	}
	if err := replace(path, f.New, mode); err != nil {
		return backup, fmt.Errorf("write the option file: %w", err)
	}
	return backup, nil
}

// WriteSecret writes a line to a file that only this user can read, and replaces one that is there.
func WriteSecret(path, line string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = replace(path, []byte(line+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a password: %w", err)
	}
	return nil
}

// keep writes a copy beside the file, under a name that is free.
func keep(path string, content []byte, mode fs.FileMode) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d", path, n)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return name, finish(f, content)
	}
}

// replace writes a file under another name, flushes it, and renames it.
func replace(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tidemark-*.tmp")
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(mode), finish(f, content))
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func finish(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
