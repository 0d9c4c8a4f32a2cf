// Package optionfile changes option files: lines are added, replaced and removed, and all others stay as they are.
package optionfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// domain is the keyword of the sources.
const domain = "DOMAIN"

// Change is a line of the option file that is added, replaced or removed.
type Change struct {
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// File is an option file and what it becomes.
type File struct {
	Path    string   `json:"path"`    // absolute
	Content []byte   `json:"-"`       // before; nil: it does not exist
	New     []byte   `json:"-"`       // after
	Changes []Change `json:"changes"` // list with (o) `old`, (o) `new`
	Removed string   `json:"-"`       // name of a stanza that was removed
}

// Edit returns the file with settings in effect. Lines that say something else are replaced where they are; all others
// stay, comments included. New lines are added at the end of the part that is in effect for server.
func Edit(path string, content []byte, server string, settings []options.FileLine) (*File, error) {
	lines, err := options.ParseFile(path, content, server)
	if err != nil {
		return nil, fmt.Errorf("read the option file: %w", err)
	}
	e := newEditor(content)
	e.effective, e.at = lines, len(e.text)
	if n := len(lines); n > 0 {
		e.at = lines[n-1].Number
	} else if slices.ContainsFunc(e.text, statement) {
		e.at = 0 // before the first stanza, since the one in effect is empty
	}
	return e.file(path, content, settings)
}

// EditStanza returns the file without the lines of a stanza whose keywords are in unset, and with settings in it. The
// lines of others, and those before the first stanza, stay.
func EditStanza(path string, content []byte, stanza options.Stanza, settings []options.FileLine,
	unset []string) (*File, error) {
	lines, err := options.ParseFile(path, content, stanza.Name)
	if err != nil {
		return nil, fmt.Errorf("read the option file: %w", err)
	}
	e := newEditor(content)
	e.at = stanza.Last
	for _, l := range lines {
		switch {
		case l.Number < stanza.First || l.Number > stanza.Last:
		case slices.Contains(unset, l.Keyword):
			e.remove(l.Number)
		default:
			e.effective = append(e.effective, l)
		}
	}
	return e.file(path, content, settings)
}

// RemoveStanza returns the file without a stanza. The comments and blank lines after its last statement stay.
func RemoveStanza(path string, content []byte, stanza options.Stanza) *File {
	e := newEditor(content)
	for number := max(stanza.First, 1); number <= stanza.Last; number++ {
		e.remove(number)
	}
	return &File{Path: path, Content: content, Changes: e.changes, New: e.result()}
}

// WithStanza returns the content with a stanza at the end, after a blank line.
func WithStanza(content []byte, name string, lines ...string) []byte {
	text := strings.TrimRight(string(content), "\n")
	if text != "" {
		text += "\n\n"
	}
	return []byte(text + strings.Join(append([]string{"SERVERNAME " + name}, lines...), "\n") + "\n")
}

func newEditor(content []byte) *editor {
	e := &editor{}
	if len(content) > 0 {
		e.text = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	}
	return e
}

// file returns the file with settings.
func (e *editor) file(path string, content []byte, settings []options.FileLine) (*File, error) {
	for _, s := range settings {
		if err := e.apply(s); err != nil {
			return nil, err
		}
	}
	return &File{Path: path, Content: content, Changes: e.changes, New: e.result()}, nil
}

// statement reports whether a line is neither blank nor a comment.
func statement(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '*' && line[0] != '#'
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

// apply puts a setting into effect.
func (e *editor) apply(s options.FileLine) error {
	line := s.Keyword
	for _, value := range s.Values {
		text, ok := options.Quote(value)
		if !ok {
			return fmt.Errorf("an option file cannot hold a value with a line end or with both kinds of quotes: %s", s.Keyword)
		}
		line += " " + text
	}
	var same []options.FileLine
	for _, l := range e.effective {
		if l.Keyword == s.Keyword {
			same = append(same, l)
		}
	}
	switch {
	case s.Keyword == domain:
		var now []string
		for _, l := range same {
			now = append(now, l.Values...)
		}
		if slices.Equal(now, s.Values) {
			return nil
		}
	case s.List: // each line counts
		if !slices.ContainsFunc(same, func(l options.FileLine) bool { return slices.Equal(l.Values, s.Values) }) {
			e.add(line)
		}
		return nil
	case len(same) > 0: // the last line counts
		same = same[len(same)-1:]
		if slices.Equal(same[0].Values, s.Values) {
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

// replace keeps the blanks at the beginning of the line.
func (e *editor) replace(number int, line string) {
	old := e.text[number-1]
	line = old[:len(old)-len(strings.TrimLeft(old, " \t"))] + line
	e.changes = append(e.changes, Change{Old: old, New: line})
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
