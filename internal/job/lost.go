package job

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Lost is a machine whose option file comes back from a snapshot.
type Lost struct {
	Job        string // that made the snapshot; "": made by hand
	Repository string // location of the snapshot, as it is reached now
	Logon      string // file with the password of the server; "": as the option file says
	Exists     func(path string) bool
}

// OptionFile returns the option file of a snapshot for this machine: with the repository where it is now, and without
// keys that are not here, since this machine has its own.
func (l *Lost) OptionFile(path, text string) (*optionfile.File, error) {
	stanza, _, inGroup := strings.Cut(l.Job, "@")
	settings := []options.Setting{{Keyword: "REPOSITORY", Value: l.Repository}}
	if inGroup {
		settings = nil // each has its own
	}
	if l.Logon != "" {
		settings = append(settings, options.Setting{Keyword: "SMBPASSWORDFILE", Value: l.Logon})
	}
	stanzas, err := options.Stanzas(path, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("read the option file of the snapshot: %w", err)
	}
	names, known := []string{""}, ""
	for _, s := range stanzas {
		names = append(names, s.Name)
		if strings.EqualFold(s.Name, stanza) {
			known = s.Name
		}
	}
	f := &optionfile.File{New: []byte(text)}
	for _, name := range names {
		if f, err = l.withoutKeys(path, f.New, name); err != nil {
			return nil, err
		}
	}
	if f, err = optionfile.Edit(path, f.New, known, settings); err != nil {
		return nil, err //nolint:wrapcheck // it says what is wrong
	}
	f.Content = nil
	f.Fresh("setup --from")
	return f, nil
}

// withoutKeys removes the lines of a stanza that name a key which is not here.
func (l *Lost) withoutKeys(path string, text []byte, stanza string) (*optionfile.File, error) {
	lines, err := options.ParseFile(path, text, stanza)
	if err != nil {
		return nil, fmt.Errorf("read the option file of the snapshot: %w", err)
	}
	keys := []string{"PASSWORDFILE", "PASSWORDCOMMAND", "KEYFILE"}
	if l.Logon != "" {
		keys = append(keys, "SMBPASSWORDFILE", "SMBPASSWORDCOMMAND", "SMBCREDENTIALS")
	}
	var away []options.Setting
	for _, line := range lines {
		if slices.Contains(keys, line.Keyword) && len(line.Values) == 1 && l.gone(line.Values[0]) {
			away = append(away, options.Setting{Keyword: line.Keyword, Value: line.Values[0]})
		}
	}
	return optionfile.Remove(path, text, stanza, away) //nolint:wrapcheck // it says what is wrong
}

// gone reports whether a value is the path of something that is not here.
func (l *Lost) gone(path string) bool { return filepath.IsAbs(path) && !l.Exists(path) }

// Missing returns what the jobs of an option file need and this machine does not have, one line each.
func (l *Lost) Missing(content []byte, jobs []*Job, invalid []Invalid) (all []string) {
	say := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, one := range invalid {
		say("job %s cannot run: %s", one.Name, one.Err)
	}
	for _, j := range jobs {
		if j.Repository != l.Repository && !strings.EqualFold(j.Name, l.Job) {
			say("%s: a key of its repository: tidemark setup --from %s", j.Name, quoted(j.Repository))
		}
		for _, source := range j.Sources {
			if l.gone(source) {
				say("%s: the source %s", j.Name, human.Printable(source))
			}
		}
		for _, file := range j.Spec.Files() {
			if !slices.Contains([]string{"cache-dir", "metrics-file", "option-file"}, file.Name) && l.gone(file.Path) {
				say("%s: the file %s of %s", j.Name, human.Printable(file.Path), options.LineKeyword(file.Name))
			}
		}
		hooks := j.Spec.Job().Hooks
		for _, command := range []string{hooks.Before, hooks.After, hooks.Failure, j.Spec.SourceSnapshot().Begin,
			j.Spec.SourceSnapshot().End} {
			if l.gone(command) {
				say("%s: the command %s", j.Name, human.Printable(command))
			}
		}
	}
	for _, line := range options.LeftOut(string(content)) {
		say("line %d: the value of %s, which is not stored since it may be secret", line.Number, line.Keyword)
	}
	return all
}

// Restore returns the command that restores the files of a job to where they were.
func Restore(j *Job, host string) string {
	command := "tidemark restore latest --target / --host " + quoted(host)
	if name := j.Stanza(); j.Server != "" {
		command += " --server-name " + quoted(name)
	}
	return command
}

// quoted returns a path as a word of a shell.
func quoted(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(human.Printable(path), "'", `'\''`) + "'"
}
