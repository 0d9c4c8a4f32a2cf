package job

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// Lost is a machine whose option file comes back from a repository, on another machine.
type Lost struct {
	Repository string // location, as it is reached now
	Logon      string // file with the password of the server; "": as the option file says
	Home       string // of the user; "": none
	Exists     func(path string) bool
	Leads      func(place string) bool // reports whether a disk by its name leads to Repository
	HasKey     func(place string) bool // reports whether this machine is known to have a key of another repository
}

// OptionFile returns the option file of a snapshot for this machine: with the repository where it is now, and without
// keys that are not here, since this machine has its own.
func (l *Lost) OptionFile(path, text string) (*optionfile.File, error) {
	keys := []string{"PASSWORDFILE", "PASSWORDCOMMAND", "KEYFILE"}
	if l.Logon != "" {
		keys = append(keys, "SMBPASSWORDFILE", "SMBPASSWORDCOMMAND", "SMBCREDENTIALS")
	}
	content, stanzas := options.Rewrite(text, func(place string) string {
		if named(place) && l.Leads(place) {
			return place // it stays right wherever the disk is mounted
		}
		return l.Repository
	}, func(keyword, value string) bool { return slices.Contains(keys, keyword) && l.gone(value) })
	var settings []options.FileLine
	if l.Logon != "" {
		settings = append(settings, options.FileLine{Keyword: "SMBPASSWORDFILE", Values: []string{l.Logon}})
	}
	isPlace := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "REPOSITORY ") }
	if !slices.ContainsFunc(strings.Split(content, "\n"), isPlace) { // it was given in another way
		settings = append(settings, options.FileLine{Keyword: "REPOSITORY", Values: []string{l.Repository}})
		stanzas = append(stanzas, "")
	}
	f := &optionfile.File{New: []byte(content)}
	for _, stanza := range stanzas {
		var err error
		if f, err = optionfile.Edit(path, f.New, stanza, settings); err != nil {
			return nil, err
		}
	}
	f.Path, f.Content = path, nil
	f.Fresh("setup --from")
	return f, nil
}

// named reports whether a place names a disk.
func named(place string) bool {
	at, err := location.Parse(place)
	return err == nil && at.Disk != location.Disk{}
}

// gone reports whether a value is the path of something that is not here.
func (l *Lost) gone(path string) bool {
	if _, service := options.Credential(path); service {
		return true
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(l.Home, rest)
	}
	return filepath.IsAbs(path) && !l.Exists(path)
}

// In reports whether a job backs up to the repository.
func (l *Lost) In(j *Job) bool {
	return j.Repository == l.Repository || named(j.Repository) && l.Leads(j.Repository)
}

// Moved returns which jobs of an option file that was there should back up to the repository, by the text that it has
// of the lost machine, and name another place that is not here.
func (l *Lost) Moved(text string, jobs []*Job) (all []string) {
	same := func(place string) string { return place }
	_, stanzas := options.Rewrite(text, same, func(string, string) bool { return false })
	for _, j := range jobs {
		if !l.In(j) && l.gone(j.Repository) &&
			slices.ContainsFunc(stanzas, func(name string) bool { return strings.EqualFold(name, j.Stanza()) }) {
			all = append(all, fmt.Sprintf("%s: the place of its repository: tidemark job edit %s --repo %s", j.Name,
				j.Stanza(), human.ShellWord(l.Repository)))
		}
	}
	if len(all) == 0 && !slices.ContainsFunc(jobs, l.In) {
		all = append(all, "a job that backs up to "+human.Printable(l.Repository))
	}
	return all
}

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
		if !l.In(j) && !l.HasKey(j.Repository) {
			say("%s: a key of its repository: tidemark setup --from %s", j.Name, human.ShellWord(j.Repository))
		}
		for _, source := range j.Sources {
			if l.gone(source) {
				say("%s: the source %s", j.Stanza(), human.Printable(source))
			}
		}
		for name, path := range j.Spec.Files() {
			if !slices.Contains([]string{"cache-dir", "metrics-file", "option-file"}, name) && l.gone(path) {
				say("%s: the file %s of %s", j.Stanza(), human.Printable(path), options.LineKeyword(name))
			}
		}
		hooks := j.Spec.Job().Hooks
		for _, command := range []string{hooks.Before, hooks.After, hooks.Failure, hooks.BeginSource, hooks.EndSource} {
			if l.gone(command) {
				say("%s: the command %s", j.Stanza(), human.Printable(command))
			}
		}
	}
	for _, line := range options.LeftOut(string(content)) {
		say("line %d: the value of %s, which is not stored since it may be secret", line.Number, line.Keyword)
	}
	return all
}

// Restore returns the command that restores a snapshot to where its files were. Its options are those of a job in the
// repository, if there is one.
func (l *Lost) Restore(id string, jobs []*Job) string {
	command := "tidemark restore " + id + " --target /"
	at := slices.IndexFunc(jobs, l.In)
	if at >= 0 && jobs[at].Server != "" {
		command += " --server-name " + human.ShellWord(jobs[at].Stanza())
	}
	if at < 0 || jobs[at].Spec.Repository().Location != jobs[at].Repository {
		command += " --repo " + human.ShellWord(l.Repository)
	}
	return command
}
