package dsm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Line is one "KEYWORD value" of an option file.
type Line struct {
	Keyword string // whole, in upper case
	Rest    string // the rest of the line, as written
	Origin  string // "file:line"
	Number  int    // of the line, from 1
}

// File is a parsed option file: its keywords are verified, its values are not parsed yet.
type File struct {
	path     string
	global   []Line
	stanzas  []Stanza
	fallback *Line // DEFAULTSERVER, if present
}

// Stanza is the part of a file for one server name.
type Stanza struct {
	Name        string
	First, Last int // numbers of its SERVERNAME line and of its last line that is no comment, from 1
	lines       []Line
}

// Stanzas returns the stanzas in their order.
func (f *File) Stanzas() []Stanza { return f.stanzas }

// Parse reads an option file; path is for origins. The error lists every bad line, in all stanzas.
func Parse(path string, content []byte, words *Vocabulary) (*File, error) {
	f := &File{path: path}
	current := &f.global
	var problems []error
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")) // the byte order mark some editors write
	number := 0
	for raw := range strings.SplitSeq(string(content), "\n") {
		number++
		text := strings.TrimSpace(raw)
		if text == "" || text[0] == '*' || text[0] == '#' {
			continue
		}
		l, err := ParseLine(text, fmt.Sprintf("%s:%d", path, number), words)
		l.Number = number
		switch {
		case err != nil:
		case l.Keyword == server:
			var name string
			if name, err = l.Value(); err == nil && name == "" {
				err = l.fail(fmt.Errorf("%w: SERVERNAME needs a name", ErrSyntax))
			}
			f.stanzas = append(f.stanzas, Stanza{Name: name, First: number})
			current = &f.stanzas[len(f.stanzas)-1].lines
		case l.Keyword == defaultServer:
			f.fallback = &l
		default:
			*current = append(*current, l)
		}
		if err != nil {
			problems = append(problems, err)
		}
		if n := len(f.stanzas); n > 0 {
			f.stanzas[n-1].Last = number
		}
	}
	return f, errors.Join(problems...)
}

// ParseLine reads a line that is no comment, without the blanks around it.
func ParseLine(text, origin string, words *Vocabulary) (Line, error) {
	l := Line{Keyword: text, Origin: origin}
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		l.Keyword, l.Rest = text[:i], strings.TrimSpace(text[i:])
	}
	if rules.IsStatement(l.Keyword) {
		l.Keyword = strings.ToUpper(l.Keyword)
		return l, nil
	}
	full, known := words.Find(strings.TrimSuffix(l.Keyword, ":")) // sysctl writes "name: value"
	if !known {
		return l, l.fail(unknown(l.Keyword, words))
	}
	l.Keyword = full
	return l, nil
}

func unknown(word string, words *Vocabulary) error {
	if strings.Contains(word, "=") {
		return fmt.Errorf("%w %q: write the keyword, a blank and the value", ErrUnknown, word)
	}
	if near := words.closest(word); near != "" {
		return fmt.Errorf("%w %q: did you mean %s?", ErrUnknown, word, near)
	}
	return fmt.Errorf("%w %q: \"tidemark options\" lists those there are", ErrUnknown, word)
}

// Value returns the rest of the line as one value, "" when there is none. Quotes around it are removed; a value with
// blanks needs them.
func (l *Line) Value() (string, error) {
	words, err := l.Values()
	if err != nil {
		return "", err
	}
	if len(words) > 1 {
		return "", l.fail(fmt.Errorf("%w: one value expected after %s, found %d; put quotes around a value with blanks",
			ErrSyntax, l.Keyword, len(words)))
	}
	return strings.Join(words, ""), nil
}

// Values returns the rest of the line as values with blanks between them, without their quotes.
func (l *Line) Values() ([]string, error) {
	words, err := rules.Words(l.Rest)
	if err != nil {
		return nil, l.fail(fmt.Errorf("%w: %s has no closing quote", ErrSyntax, l.Rest))
	}
	return words, nil
}

// Server returns the name of the first stanza; "" if there is none.
func (f *File) Server() string {
	if len(f.stanzas) == 0 {
		return ""
	}
	return f.stanzas[0].Name
}

// Stanza returns the name of the stanza that Lines uses for name, as the file writes it; "" if there is none.
func (f *File) Stanza(name string) string {
	if name == "" && f.fallback != nil {
		name, _ = f.fallback.Value() // Lines reports the error
	}
	if name == "" {
		return f.Server()
	}
	for _, s := range f.stanzas {
		if strings.EqualFold(s.Name, name) {
			return s.Name
		}
	}
	return name
}

func (l *Line) fail(err error) error { return &Error{l.Origin, err} }

// Lines returns the effective lines: those before the first stanza, then those of the stanza called name, or else of
// the one that DEFAULTSERVER names, or of the first. origin is the source of name, for the error.
func (f *File) Lines(name, origin string) ([]Line, error) {
	if name == "" && f.fallback != nil {
		var err error
		if name, err = f.fallback.Value(); err != nil {
			return nil, err
		}
		origin = f.fallback.Origin
	}
	if name == "" && len(f.stanzas) > 0 {
		name = f.stanzas[0].Name
	}
	lines := f.global[:len(f.global):len(f.global)]
	if name == "" {
		return lines, nil
	}
	var names []string
	for _, s := range f.stanzas {
		if strings.EqualFold(s.Name, name) {
			return append(lines, s.lines...), nil
		}
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil, &Error{origin, fmt.Errorf("%w: %s has no SERVERNAME line, so no %q", ErrStanza, f.path, name)}
	}
	return nil, &Error{origin, fmt.Errorf("%w: %s has no SERVERNAME %s, only %s", ErrStanza, f.path, name,
		strings.Join(names, ", "))}
}
