package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

// Editor changes the jobs of an option file. Its results are checked, and not written yet.
type Editor struct {
	Path    string
	Content []byte
	Env     options.Env
	Read    options.ReadFile
}

// Add adds a job. In a file without stanzas, the lines that are there become the job Default, so that they do not apply
// to both.
func (e *Editor) Add(name string, settings []options.FileLine) (*optionfile.File, error) {
	return e.add(name, nil, settings)
}

// add adds a job with lines, and with settings in effect.
func (e *Editor) add(name string, lines []string, settings []options.FileLine) (*optionfile.File, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	content, err := e.divided()
	if err != nil {
		return nil, err
	}
	if _, err := stanza(e.Path, content, name); err == nil {
		return nil, fmt.Errorf("%w: the option file has SERVERNAME %s: change it with 'tidemark job edit %[2]s', "+
			"or choose another name", ErrExists, name)
	}
	content = optionfile.WithStanza(content, name, lines...)
	added, err := stanza(e.Path, content, name)
	if err != nil {
		return nil, err
	}
	f, err := optionfile.EditStanza(e.Path, content, added, settings, nil)
	if err != nil {
		return nil, err
	}
	var changes []optionfile.Change
	for _, line := range append([]string{"SERVERNAME " + name}, lines...) {
		changes = append(changes, optionfile.Change{New: line})
	}
	f.Changes = append(changes, f.Changes...)
	return e.checked(f, name)
}

// divided returns the content, with a stanza for the job of a file without stanzas.
func (e *Editor) divided() ([]byte, error) {
	jobs, err := defined(e.Path, e.Content)
	if err != nil {
		return nil, err
	}
	if len(jobs) != 1 || jobs[0].First > 0 {
		return e.Content, nil
	}
	lines, err := options.ParseFile(e.Path, e.Content, "")
	if err != nil {
		return nil, err
	}
	text := strings.Split(string(e.Content), "\n")
	text = slices.Insert(text, lines[0].Number-1, "SERVERNAME "+Default)
	return []byte(strings.Join(text, "\n")), nil
}

// Change changes the lines of a job: it removes those of the keywords in unset, and puts settings into effect.
func (e *Editor) Change(name string, settings []options.FileLine, unset []string) (*optionfile.File, error) {
	s, err := stanza(e.Path, e.Content, name)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, word := range unset {
		keyword := options.LineKeyword(word)
		if keyword == "" {
			return nil, fmt.Errorf("%w: --unset %q: it is no keyword; 'tidemark job show %s' lists the options",
				options.ErrValue, word, name)
		}
		words = append(words, keyword)
	}
	f, err := optionfile.EditStanza(e.Path, e.Content, s, settings, words)
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		removed := func(c optionfile.Change) bool { return c.Old != "" && keywordOf(c.Old) == word }
		if !slices.ContainsFunc(f.Changes, removed) {
			return nil, fmt.Errorf("%w: --unset %s: the job has no such line of its own", options.ErrValue, word)
		}
	}
	return e.checked(f, name)
}

// keywordOf returns the keyword of a line.
func keywordOf(line string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	word, _, _ = strings.Cut(word, "\t")
	return options.LineKeyword(word)
}

// Remove removes a job. The one of a file without stanzas loses its schedule only.
func (e *Editor) Remove(name string) (*optionfile.File, error) {
	s, err := stanza(e.Path, e.Content, name)
	if err != nil {
		return nil, err
	}
	if s.First == 0 {
		f, err := optionfile.EditStanza(e.Path, e.Content, s, nil, []string{scheduleKeyword})
		if err != nil {
			return nil, err
		}
		f.Removed = name
		return f, nil
	}
	f := optionfile.RemoveStanza(e.Path, e.Content, s)
	f.Removed = s.Name
	if _, err := options.ParseFile(e.Path, f.New, ""); err != nil {
		return nil, fmt.Errorf("the line DEFAULTSERVER names the job %s: change or remove that line first: %w",
			s.Name, err)
	}
	return f, nil
}

// checked returns the file if a job in it is valid, also beside the other ones.
func (e *Editor) checked(f *optionfile.File, name string) (*optionfile.File, error) {
	f.Content = e.Content
	jobs, err := defined(e.Path, f.New)
	if err != nil {
		return nil, err
	}
	var valid []*Job
	found := false
	for _, s := range jobs {
		one, err := load(e.Path, f.New, s, e.Env, e.Read)
		named := strings.EqualFold(s.Name, name)
		if named && err != nil {
			return nil, err
		}
		found = found || named
		if err == nil {
			valid = append(valid, one)
		}
	}
	if found {
		for _, err := range rivals(valid) {
			return nil, err
		}
		return f, nil
	}
	return nil, fmt.Errorf("%w: job %s has no schedule: add --schedule, such as --schedule 'daily 02:30' or "+
		"--schedule never", ErrIncomplete, name)
}

// stanza returns the stanza of a name; for Default in a file without stanzas, the whole file.
func stanza(path string, content []byte, name string) (options.Stanza, error) {
	stanzas, err := options.Stanzas(path, content)
	if err != nil {
		return options.Stanza{}, err
	}
	var names []string
	var found []options.Stanza
	for _, s := range stanzas {
		if strings.EqualFold(s.Name, name) {
			found = append(found, s)
		}
		names = append(names, s.Name)
	}
	if len(found) > 1 {
		return options.Stanza{}, fmt.Errorf("%w: %s has several stanzas %s, in lines %d and %d: rename one",
			ErrName, path, name,
			found[0].First, found[1].First)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	jobs, err := defined(path, content)
	if err == nil && len(jobs) == 1 && jobs[0].First == 0 && strings.EqualFold(name, Default) {
		lines, err := options.ParseFile(path, content, "")
		return options.Stanza{Last: lines[len(lines)-1].Number}, err
	}
	return options.Stanza{}, missing(name, names)
}
