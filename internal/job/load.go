package job

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// scheduleKeyword is the keyword of the line that makes a stanza a job.
const scheduleKeyword = "SCHEDULE"

// Load returns the jobs of an option file: its stanzas with a schedule, or the whole file. The error names every job
// that is not valid.
func Load(path string, content []byte, env options.Env, read options.ReadFile) ([]*Job, error) {
	stanzas, err := defined(path, content)
	if err != nil {
		return nil, err
	}
	var all []*Job
	var problems []error
	seen := map[string]bool{}
	for _, s := range stanzas {
		folded := strings.ToLower(s.Name)
		if seen[folded] {
			problems = append(problems, fmt.Errorf("%w: %s:%d: there are several jobs %q: rename one; upper and lower case "+
				"are the same",
				ErrName, path, s.First, s.Name))
			continue
		}
		seen[folded] = true
		one, err := load(path, content, s, env, read)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, one)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return all, rivals(all)
}

// defined returns the stanzas that are jobs. For a file without stanzas, it is one without a place.
func defined(path string, content []byte) (all []options.Stanza, err error) {
	stanzas, err := options.Stanzas(path, content)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file and the line
	}
	if len(stanzas) == 0 {
		stanzas = []options.Stanza{{}}
	}
	for _, s := range stanzas {
		lines, err := options.ParseFile(path, content, s.Name)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the file and the line
		}
		if slices.ContainsFunc(lines, func(l options.FileLine) bool { return l.Keyword == scheduleKeyword }) {
			if s.First == 0 {
				s.Name = Default
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// load returns the job of a stanza.
func load(path string, content []byte, s options.Stanza, env options.Env, read options.ReadFile) (*Job, error) {
	if err := CheckName(s.Name); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", path, max(s.First, 1), err)
	}
	j := &Job{Name: s.Name, File: path, Content: content}
	if s.First > 0 {
		j.Server = s.Name
	}
	var err error
	if j.Spec, err = resolve(path, content, j.Server, env, read); err != nil {
		return nil, fmt.Errorf("job %s: %w", s.Name, err)
	}
	if err := errors.Join(j.options(), j.places(), j.rules(env, read)); err != nil {
		return nil, fmt.Errorf("job %s: %w", s.Name, err)
	}
	return j, nil
}

// resolve returns the options that a command with --option-file and --server-name gets.
func resolve(path string, content []byte, server string, env options.Env, read options.ReadFile) (*options.Spec,
	error) {
	flags := pflag.NewFlagSet("job", pflag.ContinueOnError)
	options.Register(flags, options.GroupRepository)
	err := flags.Set("option-file", path)
	if err == nil && server != "" {
		err = flags.Set("server-name", server)
	}
	if err != nil {
		return nil, fmt.Errorf("read options: %w", err)
	}
	spec, _, err := options.Resolve(flags, env, func(name string) ([]byte, error) {
		if name == path {
			return content, nil
		}
		return read(name)
	})
	return spec, err //nolint:wrapcheck // it names each mistake with its origin
}

// options checks the options of the service.
func (j *Job) options() error {
	o := j.Spec.Job()
	var errs [4]error
	j.Schedule, errs[0] = ParseSchedule(o.Schedule)
	_, errs[1] = ParseKeep(o.Keep)
	_, errs[2] = ParseQuiet(o.QuietHours)
	_, errs[3] = ParseBattery(o.OnBattery)
	return errors.Join(append(errs[:], checkNotify(j.Spec.Notify()))...)
}

// places finds the sources and the repository.
func (j *Job) places() error {
	var problems []error
	words := j.Spec.Domain()
	if len(words) == 0 {
		problems = append(problems, fmt.Errorf("%w: it has no sources: add a line such as DOMAIN /home", ErrIncomplete))
	} else if err := j.sources(words); err != nil {
		problems = append(problems, err)
	}
	if r := j.Spec.Repository(); !r.Named {
		problems = append(problems, fmt.Errorf("%w: it has no repository: add a line such as REPOSITORY /mnt/disk/backup",
			ErrIncomplete))
	} else if at, err := location.Parse(r.Location); err != nil {
		problems = append(problems, err)
	} else {
		j.Repository = at.String()
	}
	return errors.Join(problems...)
}

// sources finds the folders that DOMAIN names.
func (j *Job) sources(words []string) error {
	var mounts []localfs.Mount
	if slices.ContainsFunc(words, func(word string) bool { return !filepath.IsAbs(word) }) { // ALL-LOCAL, or all but some
		var err error
		if mounts, err = localfs.Mounts(); err != nil {
			return fmt.Errorf("find the file systems of DOMAIN: %w", err)
		}
	}
	_, sources, err := j.Spec.ForDomain(mounts)
	j.Sources = sources
	return err //nolint:wrapcheck // it names its origin
}

// rules checks the rules that select what is backed up.
func (j *Job) rules(env options.Env, read options.ReadFile) error {
	_, _, err := j.Spec.Rules(read, env)
	return err //nolint:wrapcheck // it names each mistake with its origin
}

// CheckName refuses a name that is not safe in paths, addresses and units of a service manager.
func CheckName(name string) error {
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
	if name == "" || bad >= 0 || name[0] == '-' || name[0] == '.' || len(name) > 64 {
		return fmt.Errorf("%w %q: write up to 64 letters, digits, - _ and . such as home; - and . do not begin one",
			ErrName, name)
	}
	return nil
}

// Find returns the job of a name, in any case.
func Find(jobs []*Job, name string) (*Job, error) {
	var names []string
	for _, j := range jobs {
		if strings.EqualFold(j.Name, name) {
			return j, nil
		}
		names = append(names, j.Name)
	}
	return nil, missing(name, names)
}

func missing(name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: %q; there is none yet: 'tidemark job add' makes one", ErrNoJob, name)
	}
	return fmt.Errorf("%w: %q; there are %s", ErrNoJob, name, strings.Join(names, ", "))
}
