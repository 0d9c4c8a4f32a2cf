package options

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/rules"
)

// rawLine is one "KEYWORD value" of an option file.
type rawLine struct {
	Keyword string  // whole, in upper case
	Rest    string  // the rest of the line, as written
	Origin  string  // "file:line"
	Number  int     // of the line, from 1
	option  *Option // that it sets; nil: none
}

// parsedFile is an option file in the format of IBM's client (dsm.sys, dsm.opt): its keywords are verified, its values
// are not parsed yet.
type parsedFile struct {
	path     string
	global   []rawLine
	stanzas  []Stanza
	fallback *rawLine // DEFAULTSERVER, if present
}

// Stanza is the part of a file for one server name.
type Stanza struct {
	Name        string
	First, Last int // numbers of its SERVERNAME line and of its last line that is no comment, from 1
	lines       []rawLine
}

// parseFile reads an option file; path is for origins. The error lists every bad line, in all stanzas.
func parseFile(path string, content []byte, table []Option) (*parsedFile, error) {
	f, words := &parsedFile{path: path}, vocabularyOf(table)
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
		l, err := parseLine(text, fmt.Sprintf("%s:%d", path, number), words)
		l.Number = number
		switch {
		case err != nil:
		case l.Keyword == server:
			var name string
			if name, err = l.value(); err == nil && name == "" {
				err = l.fail(fmt.Errorf("%w: SERVERNAME needs a name", errSyntax))
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

// parseLine reads a line that is no comment, without the blanks around it.
func parseLine(text, origin string, words vocabulary) (rawLine, error) {
	l := rawLine{Keyword: text, Origin: origin}
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		l.Keyword, l.Rest = text[:i], strings.TrimSpace(text[i:])
	}
	if rules.IsStatement(l.Keyword) {
		l.Keyword = strings.ToUpper(l.Keyword)
		return l, nil
	}
	known := words.find(strings.TrimSuffix(l.Keyword, ":")) // sysctl writes "name: value"
	if known == nil {
		return l, l.fail(unknown(l.Keyword, words))
	}
	l.Keyword, l.option = known.full, known.option
	return l, nil
}

func unknown(word string, words vocabulary) error {
	if strings.Contains(word, "=") {
		return fmt.Errorf("unknown option %q: write the keyword, a blank and the value", word)
	}
	if near := words.closest(word); near != "" {
		return fmt.Errorf("unknown option %q: did you mean %s?", word, near)
	}
	return fmt.Errorf("unknown option %q: \"tidemark options\" lists those there are", word)
}

// value returns the rest of the line as one value, "" when there is none. Quotes around it are removed; a value with
// blanks needs them.
func (l *rawLine) value() (string, error) {
	words, err := l.values()
	if err != nil {
		return "", err
	}
	if len(words) > 1 {
		return "", l.fail(fmt.Errorf("%w: one value expected after %s, found %d; put quotes around a value with blanks",
			errSyntax, l.Keyword, len(words)))
	}
	return strings.Join(words, ""), nil
}

// values returns the rest of the line as values with blanks between them, without their quotes.
func (l *rawLine) values() ([]string, error) {
	words, err := rules.Words(l.Rest)
	if err != nil {
		return nil, l.fail(fmt.Errorf("%w: %s has no closing quote", errSyntax, l.Rest))
	}
	return words, nil
}

// first returns the name of the first stanza; "" if there is none.
func (f *parsedFile) first() string {
	if len(f.stanzas) == 0 {
		return ""
	}
	return f.stanzas[0].Name
}

// stanza returns the name of the stanza that lines uses for name, as the file writes it; "" if there is none.
func (f *parsedFile) stanza(name string) string {
	if name == "" && f.fallback != nil {
		name, _ = f.fallback.value() // lines reports the error
	}
	if name == "" {
		return f.first()
	}
	for _, s := range f.stanzas {
		if strings.EqualFold(s.Name, name) {
			return s.Name
		}
	}
	return name
}

// usual returns the keyword, of an option the first of its synonyms.
func (l *rawLine) usual() string {
	if l.option == nil {
		return l.Keyword
	}
	return strings.ToUpper(l.option.Keywords()[0])
}

func (l *rawLine) fail(err error) error { return &Error{l.Origin, err} }

// lines returns the effective lines: those before the first stanza, then those of the stanza called name, or else of
// the one that DEFAULTSERVER names, or of the first. origin is the source of name, for the error.
func (f *parsedFile) lines(name, origin string) ([]rawLine, error) {
	if name == "" && f.fallback != nil {
		if _, err := f.fallback.value(); err != nil {
			return nil, err
		}
		origin = f.fallback.Origin
	}
	name = f.stanza(name)
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
		return nil, &Error{origin, fmt.Errorf("%w: %s has no SERVERNAME line, so no %q", errStanza, f.path, name)}
	}
	return nil, &Error{origin, fmt.Errorf("%w: %s has no SERVERNAME %s, only %s", errStanza, f.path, name,
		strings.Join(names, ", "))}
}
