package options

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options/dsm"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Env looks up an environment variable, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// ReadFile returns the content of a file, as os.ReadFile does. A missing file wraps fs.ErrNotExist.
type ReadFile func(path string) ([]byte, error)

// level ranks the sources of a value.
type level uint8

const (
	fromDefault level = iota
	fromFile
	fromEnv
	fromFlag
)

// setting is the value of one option, or one element of a list.
type setting struct {
	value  any
	origin string
	level  level
}

// statement is an include or exclude statement, or an INCLEXCL file, at its place among the others.
type statement struct {
	word, rest, origin string
}

// resolver collects settings.
type resolver struct {
	env      Env
	read     ReadFile
	system   string // runtime.GOOS
	table    []Option
	keywords map[string]*Option
	spec     *Spec
	warnings []Warning
	problems []error
}

// Resolve returns the effective options. flags may be nil, or lack options: these count as not given. The error names
// every mistake that was found, with its place.
func Resolve(flags *pflag.FlagSet, env Env, read ReadFile) (*Spec, []Warning, error) {
	return resolve(flags, env, read, runtime.GOOS)
}

func resolve(flags *pflag.FlagSet, env Env, read ReadFile, system string) (*Spec, []Warning, error) {
	table := Table()
	r := &resolver{env: env, read: read, system: system, table: table,
		spec: &Spec{table: table, settings: make(map[string][]setting)}}
	r.defaults()
	r.file(flags)
	r.environment()
	r.flags(flags)
	r.spec.checkSecrets(&r.problems)
	r.spec.numbers(r.fail)
	r.remarks()
	if err := errors.Join(r.problems...); err != nil {
		return nil, r.warnings, fmt.Errorf("read options: %w", err)
	}
	return r.spec, r.warnings, nil
}

// set records a value. Of two values of one option the one that comes later wins: sources are asked in the order of
// their rank. Lists grow.
func (r *resolver) set(o *Option, text, origin string, from level) {
	value, err := o.Type.parse(text)
	if err != nil {
		r.fail(origin, fmt.Errorf("%s: %w", o.Name, err))
		return
	}
	s := setting{value, origin, from}
	if o.multiple() {
		r.spec.settings[o.Name] = append(r.spec.settings[o.Name], s)
	} else {
		r.spec.settings[o.Name] = []setting{s}
	}
	if o.Name == "inclexcl" {
		r.spec.statements = append(r.spec.statements, statement{"INCLEXCL", text, origin})
	}
}

func (r *resolver) defaults() {
	for i := range r.table {
		o := &r.table[i]
		text := o.Default
		switch o.Name {
		case "repo":
			text = defaultRepository(r.env, r.system)
		case "cache-dir":
			text = defaultCache(r.env, r.system)
		case "exclude-time-machine":
			text = (&Type{}).format(r.system == "darwin")
		}
		if text != "" {
			r.set(o, text, "default", fromDefault)
		}
	}
}

// file finds, reads and applies the option file.
func (r *resolver) file(flags *pflag.FlagSet) {
	path, content, err := r.locate(flags)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	name, origin := r.one(flags, "server-name")
	if path == "" {
		if name != "" {
			r.fail(origin, fmt.Errorf("%w: there is no option file to look for %s in", dsm.ErrStanza, name))
		}
		return
	}
	r.spec.file = path
	var own []string
	r.keywords = make(map[string]*Option)
	for i := range r.table {
		for _, word := range r.table[i].Keywords() {
			own = append(own, word)
			r.keywords[strings.ToUpper(word)] = &r.table[i]
		}
	}
	parsed, err := dsm.Parse(path, content, dsm.NewVocabulary(own))
	if err != nil {
		r.problems = append(r.problems, err)
	}
	lines, err := parsed.Lines(name, origin)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	for _, l := range lines {
		r.apply(l)
	}
}

// apply takes one line of the part of the file that counts.
func (r *resolver) apply(l dsm.Line) {
	if rules.IsStatement(l.Keyword) {
		r.spec.statements = append(r.spec.statements, statement{l.Keyword, l.Rest, l.Origin})
		return
	}
	o := r.keywords[l.Keyword]
	if o == nil {
		text := l.Keyword + " has no meaning here and is ignored"
		if better := dsm.Hint(l.Keyword); better != "" {
			text += ": " + better
		}
		r.warnings = append(r.warnings, Warning{l.Origin, text})
		return
	}
	text, err := l.Value()
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	if l.Rest == "" {
		switch o.Type.Kind {
		case Bool: // IBM's switches stand alone: QUIET
			text = "yes"
		case Count:
			text = "1"
		default:
			r.fail(l.Origin, fmt.Errorf("%w: %s needs a value", dsm.ErrSyntax, l.Keyword))
			return
		}
	}
	if kind := o.Type.Kind; kind == Path || kind == List {
		text = r.home(text)
	}
	r.set(o, text, l.Origin, fromFile)
}

func (r *resolver) fail(origin string, err error) {
	r.problems = append(r.problems, &Error{Origin: origin, Err: err})
}

// home replaces a leading "~/", as a shell would have done on a command line.
func (r *resolver) home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, ok := r.env("HOME"); ok && home != "" {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// locate reads the option file that counts: the one that is named, which must be there, or the first there is in the
// usual places. No file at all is an empty path.
func (r *resolver) locate(flags *pflag.FlagSet) (path string, content []byte, err error) {
	if named, origin := r.one(flags, "option-file"); named != "" {
		content, err := r.read(named)
		if err != nil {
			return "", nil, &Error{Origin: origin, Err: fmt.Errorf("read option file: %w", err)}
		}
		return named, content, nil
	}
	for _, candidate := range fileLocations(r.env) {
		content, err := r.read(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("read option file: %w", err)
		}
		return candidate, content, nil
	}
	return "", nil, nil
}

// one returns what the command line or else the environment says about an option that no file can set.
func (r *resolver) one(flags *pflag.FlagSet, name string) (value, origin string) {
	if values := given(flags, name); len(values) > 0 {
		return values[len(values)-1], "--" + name
	}
	for i := range r.table {
		if r.table[i].Name == name {
			value, _ := r.env(r.table[i].Env())
			return value, r.table[i].Env()
		}
	}
	return "", ""
}

// environment applies the variables that are set and not empty. One that holds a list has an element per line.
func (r *resolver) environment() {
	for i := range r.table {
		o := &r.table[i]
		name := o.Env()
		if name == "" {
			continue
		}
		text, ok := r.env(name)
		if !ok || text == "" {
			continue
		}
		if !o.multiple() {
			r.set(o, text, name, fromEnv)
			continue
		}
		for element := range strings.SplitSeq(text, "\n") {
			if element = strings.TrimSpace(element); element != "" {
				r.set(o, element, name, fromEnv)
			}
		}
	}
}

func (r *resolver) flags(flags *pflag.FlagSet) {
	for i := range r.table {
		for _, text := range given(flags, r.table[i].Name) {
			r.set(&r.table[i], text, "--"+r.table[i].Name, fromFlag)
		}
	}
}

// remarks warns of values that are understood and do less than they say, or more than one may think.
func (r *resolver) remarks() {
	for _, remark := range []struct{ name, value, text string }{
		{"deduplication", "no", "DEDUPLICATION NO has no effect: equal data is always stored once"},
		{"memory-efficient-backup", "no", "MEMORYEFFICIENTBACKUP NO has no effect: memory is always a budget, see MEMORY"},
		{"subdir", "no", "SUBDIR NO: what lies in directories below a source is not backed up"},
	} {
		s := r.spec.get(remark.name)
		if r.spec.text(remark.name) == remark.value {
			r.warnings = append(r.warnings, Warning{s.origin, remark.text})
		}
	}
}
