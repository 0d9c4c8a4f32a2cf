package job

import (
	"cmp"
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

// Invalid is a job with a mistake.
type Invalid struct {
	Name string
	Err  error // names file and line
}

// Load returns the jobs of an option file: its stanzas with a schedule, or the whole file. The error names every job
// that is not valid.
func Load(path string, content []byte, env options.Env, read options.ReadFile) ([]*Job, error) {
	all, invalid, err := LoadValid(path, content, env, read)
	problems := []error{err}
	for _, one := range invalid {
		problems = append(problems, one.Err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return all, nil
}

// LoadFile returns what LoadValid does for a file that others may be writing.
func LoadFile(path string, env options.Env, read options.ReadFile) ([]*Job, []Invalid, error) {
	content, err := read(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the option file: %w", err)
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrUnfinished)
	}
	return LoadValid(path, content, env, read)
}

// LoadValid returns the valid jobs of an option file, and the others. The error is a mistake that concerns all jobs.
func LoadValid(path string, content []byte, env options.Env, read options.ReadFile) (all []*Job, invalid []Invalid,
	err error) {
	stanzas, err := options.Stanzas(path, content)
	if err != nil && len(stanzas) > 0 {
		_, err = options.ParseFile(path, options.OnlyStanza(path, content, ""), "")
	}
	if err != nil {
		return nil, nil, err
	}
	if len(stanzas) == 0 {
		stanzas = []options.Stanza{{Name: Default}}
	}
	for i, s := range stanzas {
		if slices.ContainsFunc(stanzas[:i], func(o options.Stanza) bool { return strings.EqualFold(o.Name, s.Name) }) {
			continue // it is reported with the first one
		}
		one, err := loadStanza(path, content, stanzas, s, env, read)
		if s.Name == "" {
			s.Name = fmt.Sprintf("in line %d", s.First)
		}
		var each []*Job
		if err == nil && one != nil {
			each, err = one.each(env, read)
		}
		if err != nil {
			invalid = append(invalid, Invalid{s.Name, err})
		}
		all = append(all, each...)
	}
	for name, err := range rivals(all) {
		invalid = append(invalid, Invalid{name, err})
	}
	all = slices.DeleteFunc(all, func(j *Job) bool {
		return slices.ContainsFunc(invalid, func(i Invalid) bool { return i.Name == j.Name })
	})
	return all, invalid, nil
}

// loadStanza returns the job of a stanza; nil without an error if it is none.
func loadStanza(path string, content []byte, stanzas []options.Stanza, s options.Stanza, env options.Env,
	read options.ReadFile) (*Job, error) {
	if s.Name == "" {
		return nil, fmt.Errorf("%w: %s:%d: SERVERNAME needs one name", ErrName, path, s.First)
	}
	if s.First > 0 {
		if _, err := options.Stanzas(path, content); err != nil { // others have mistakes
			content = options.OnlyStanza(path, content, s.Name)
		}
	}
	isJob, err := scheduled(path, content, s)
	if err != nil || !isJob {
		return nil, err
	}
	var same []options.Stanza
	for _, other := range stanzas {
		if strings.EqualFold(other.Name, s.Name) {
			same = append(same, other)
		}
	}
	one, err := load(path, content, s, env, read)
	if err != nil && !strings.Contains(err.Error(), path+":") {
		err = fmt.Errorf("%s:%d: %w", path, max(s.First, 1), err)
	}
	if len(same) > 1 {
		err = errors.Join(fmt.Errorf("%w: %s:%d: there are several jobs %q: rename one; upper and lower case are the same",
			ErrName, path, same[1].First, same[1].Name), err)
	}
	return one, err
}

// scheduled reports whether a stanza has a schedule, so that it is a job.
func scheduled(path string, content []byte, s options.Stanza) (bool, error) {
	server := s.Name
	if s.First == 0 {
		server = ""
	}
	lines, err := options.ParseFile(path, content, server)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(lines, func(l options.FileLine) bool { return l.Keyword == scheduleKeyword }), nil
}

// defined returns the stanzas that are jobs. For a file without stanzas, it is one without a place.
func defined(path string, content []byte) (all []options.Stanza, err error) {
	stanzas, err := options.Stanzas(path, content)
	if err != nil {
		return nil, err
	}
	if len(stanzas) == 0 {
		stanzas = []options.Stanza{{Name: Default}}
	}
	for _, s := range stanzas {
		isJob, err := scheduled(path, content, s)
		if err != nil {
			return nil, err
		}
		if isJob {
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

// each returns a job for each repository of a stanza: for REPOSITORY and for the lines of ROTATE, or for that of
// COPYTO. The name of a job is that of the stanza with the label of the disk, with the place in this list, or with
// "copy".
func (j *Job) each(env options.Env, read options.ReadFile) ([]*Job, error) {
	more, copyTo := j.Spec.Job().Rotate, j.Spec.Job().CopyTo
	switch {
	case len(more) > 0 && copyTo != "":
		return nil, j.mistake("copy-to", 0,
			errors.New("COPYTO and ROTATE do not go together: make a job of each disk instead of ROTATE"))
	case copyTo != "":
		copies, err := j.copies(copyTo, env, read)
		if err != nil {
			return nil, err
		}
		return []*Job{j, copies}, nil
	case len(more) == 0:
		return []*Job{j}, nil
	}
	var all []*Job
	for i, text := range append([]string{j.Repository}, more...) {
		at, err := further("ROTATE", text)
		if err != nil {
			return nil, j.mistake("rotate", i-1, err)
		}
		one := *j
		one.Group, one.Repository, one.Name = j.Name, at.String(), fmt.Sprintf("%s@%d", j.Name, i+1)
		if name := j.Name + "@" + at.Disk.Name; at.Disk.By == "LABEL" &&
			CheckName(at.Disk.Name) == nil && !slices.ContainsFunc(all, func(o *Job) bool { return o.Name == name }) {
			one.Name = name
		}
		if slices.ContainsFunc(all, func(o *Job) bool { return o.Repository == one.Repository }) {
			return nil, j.mistake("rotate", i-1, fmt.Errorf("ROTATE %s: the repository is named twice", at))
		}
		all = append(all, &one)
	}
	return all, nil
}

// mistake adds to an error the line that sets the value i of an option. The one before the first is the repository.
func (j *Job) mistake(option string, i int, err error) error {
	if i < 0 {
		option, i = "repo", 0
	}
	if origins := j.Spec.Origins(option); i < len(origins) {
		return &options.Error{Origin: origins[i], Err: err}
	}
	return err
}

// further parses the location of a further repository, from a line with this keyword.
func further(keyword, text string) (location.Location, error) {
	at, err := location.Parse(text)
	if err != nil {
		return at, fmt.Errorf("%s: %w", keyword, err)
	}
	if at.Disk == (location.Disk{}) && !at.OnServer() && !filepath.IsAbs(text) {
		return at, fmt.Errorf("%s %s: write an absolute path, LABEL=name/folder, UUID=id/folder, or "+
			"an address that begins with smb://, s3:// or sftp://", keyword, text)
	}
	return at, nil
}

// copies returns the job that copies the snapshots of j to another repository. It has the same schedule and runs after
// j.
func (j *Job) copies(to string, env options.Env, read options.ReadFile) (*Job, error) {
	at, err := further("COPYTO", to)
	if err != nil {
		return nil, j.mistake("copy-to", 0, err)
	}
	one := *j
	one.Group, one.Name, one.Server, one.Copies = j.Name, j.Name+options.CopySuffix, j.Server+options.CopySuffix, true
	one.Repository = at.String()
	if repositoryOf(&one) == repositoryOf(j) {
		return nil, j.mistake("copy-to", 0, fmt.Errorf("COPYTO %s: that is the repository of the job itself", at))
	}
	if one.Spec, err = resolve(j.File, j.Content, one.Server, env, read); err != nil {
		return nil, err
	}
	if _, err = ParseKeep(one.Spec.Job().Keep); err != nil {
		return nil, j.mistake("copy-keep", 0, fmt.Errorf("COPYKEEPSNAPSHOTS: %w", err))
	}
	return &one, nil
}

// Stanza returns the name of the job in the option file.
func (j *Job) Stanza() string { return cmp.Or(j.Group, j.Name) }

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
	return spec, err
}

// options checks the options of the service.
func (j *Job) options() error {
	o := j.Spec.Job()
	var errs [5]error
	j.Schedule, errs[0] = ParseSchedule(o.Schedule)
	_, errs[1] = ParseKeep(o.Keep)
	_, errs[2] = ParseQuiet(o.QuietHours)
	_, errs[3] = ParseBattery(o.OnBattery)
	for _, at := range j.Spec.RequireMount() {
		if !filepath.IsAbs(at) {
			errs[4] = fmt.Errorf("REQUIREMOUNT %s: write an absolute path", at)
		}
	}
	return errors.Join(append(errs[:], checkNotify(j.Spec.Notify()))...)
}

// places finds the sources and the repository.
func (j *Job) places() error {
	var problems []error
	words := j.Spec.Domain()
	if len(words) == 0 {
		problems = append(problems, fmt.Errorf("%w: it has no sources: add a line such as 'DOMAIN /home'", ErrIncomplete))
	} else if err := j.sources(words); err != nil {
		problems = append(problems, err)
	}
	if r := j.Spec.Repository(); !r.Named {
		problems = append(problems, fmt.Errorf("%w: it has no repository: add a line such as 'REPOSITORY /mnt/disk/backup'",
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
	return err
}

// rules checks the rules that select what is backed up.
func (j *Job) rules(env options.Env, read options.ReadFile) error {
	_, _, err := j.Spec.Rules(read, env)
	return err
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

// Find returns the job of a name, in any case; of a stanza with several repositories, the first.
func Find(jobs []*Job, name string) (*Job, error) {
	var names []string
	for _, j := range jobs {
		if strings.EqualFold(j.Name, name) || strings.EqualFold(j.Group, name) {
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
