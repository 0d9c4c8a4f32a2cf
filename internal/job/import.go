package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Imported is a job of another program's configuration.
type Imported struct {
	Name  string
	Lines []string // of its stanza
	Notes []string // what has no meaning here
}

// lists reports whether a line has one of the keywords.
func (i *Imported) lists(keyword string) bool {
	return slices.ContainsFunc(i.Lines, func(line string) bool { return keywordOf(line) == keyword })
}

// ImportOptions returns the stanzas of an option file of IBM's client as jobs. For a dsm.opt, the lines of its server
// in the dsm.sys beside it come first. For a dsm.sys, the lines of the dsm.opt beside it follow those of the server
// that it names. A file without stanzas is one job, called name.
func ImportOptions(path string, content []byte, name string, read options.ReadFile) ([]*Imported, error) {
	stanzas, err := options.Stanzas(path, content)
	if err != nil {
		return nil, err
	}
	var before, after []part
	server := ""
	switch strings.ToLower(filepath.Base(path)) {
	case "dsm.opt":
		before, err = beside(path, "dsm.sys", read)
	case "dsm.sys":
		if after, err = beside(path, "dsm.opt", read); err == nil && len(after) > 0 {
			server, err = options.ServerOf(after[0].path, after[0].content, path, content)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(stanzas) == 0 {
		stanzas = []options.Stanza{{}}
	}
	var all []*Imported
	for _, s := range stanzas {
		one := &Imported{Name: s.Name}
		if name != "" && len(stanzas) == 1 || one.Name == "" {
			one.Name = name
		}
		if one.Name == "" {
			return nil, fmt.Errorf("%w: %s has no SERVERNAME line: name the job with --name", ErrName, path)
		}
		for _, p := range before {
			if err := one.take(p, s.Name); err != nil {
				return nil, err
			}
		}
		if err := one.take(part{path, content}, s.Name); err != nil {
			return nil, err
		}
		for _, p := range after {
			if !strings.EqualFold(server, s.Name) {
				break
			}
			if err := one.take(p, ""); err != nil {
				return nil, err
			}
			one.Notes = append(one.Notes, "it has the lines of "+p.path+" too")
			after = nil
		}
		all = append(all, one)
	}
	for _, p := range after {
		all[0].Notes = append(all[0].Notes, p.path+" names the server "+server+", and is not used")
	}
	return all, nil
}

// part is an option file.
type part struct {
	path    string
	content []byte
}

// beside returns the file of that name beside another; none if it is missing.
func beside(path, name string, read options.ReadFile) ([]part, error) {
	p := part{path: filepath.Join(filepath.Dir(path), name)}
	var err error
	p.content, err = read(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return []part{p}, err
}

// take adds the lines of a file that are in effect for a server.
func (i *Imported) take(p part, server string) error {
	lines, err := options.ParseFile(p.path, p.content, server)
	if err != nil {
		return err
	}
	text := strings.Split(string(p.content), "\n")
	for _, l := range lines {
		line := strings.TrimSpace(text[l.Number-1])
		_, option, hint := options.Keyword(l.Keyword)
		switch {
		case option != "" || rules.IsStatement(l.Keyword):
			i.Lines = append(i.Lines, line)
		case hint != "":
			i.Notes = append(i.Notes, fmt.Sprintf("%s has no meaning here: %s", l.Keyword, hint))
		default:
			i.Notes = append(i.Notes, l.Keyword+" has no meaning here")
		}
	}
	return nil
}

// Import adds the jobs to the content of the option file. settings apply to each of them. A job without a schedule gets
// SCHEDULE never.
func (e *Editor) Import(jobs []*Imported, settings []options.FileLine) (*optionfile.File, error) {
	next := *e
	all := &optionfile.File{Path: e.Path, Content: e.Content, New: e.Content}
	given := func(s options.FileLine) bool { return s.Keyword == scheduleKeyword }
	for _, one := range jobs {
		lines := settings
		if !slices.ContainsFunc(settings, given) && !one.lists(scheduleKeyword) {
			lines = append(slices.Clip(settings), options.FileLine{Keyword: scheduleKeyword, Values: []string{"never"}})
			one.Notes = append(one.Notes, "it has no schedule and gets SCHEDULE never; 'tidemark job edit "+one.Name+
				" --schedule' sets one")
		}
		f, err := next.add(one.Name, one.Lines, lines)
		if err != nil {
			return nil, err
		}
		next.Content, all.New, all.Changes = f.New, f.New, append(all.Changes, f.Changes...)
	}
	return all, nil
}
