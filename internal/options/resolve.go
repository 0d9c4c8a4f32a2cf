package options

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

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

// resolver collects settings.
type resolver struct {
	env      Env
	read     ReadFile
	system   string // runtime.GOOS
	table    []Option
	spec     *Spec
	warnings []Warning
	problems []error
	ignored  []rawLine // of IBM's client, without effect here
}

// Resolve returns the effective options. flags may be nil, or lack options: these count as not given. The error names
// every mistake, with its origin.
func Resolve(flags *pflag.FlagSet, env Env, read ReadFile) (*Spec, []Warning, error) {
	return resolve(flags, env, read, runtime.GOOS)
}

func resolve(flags *pflag.FlagSet, env Env, read ReadFile, system string) (*Spec, []Warning, error) {
	table := Table()
	r := &resolver{env: env, read: read, system: system, table: table,
		spec: &Spec{table: table, settings: make(map[string][]setting)}}
	r.defaults()
	r.file(flags)
	r.environment(len(given(flags, "option-file"))+len(given(flags, "server-name")) > 0)
	r.flags(flags)
	if name, origin := r.one(flags, "server-name"); strings.HasSuffix(name, CopySuffix) {
		r.turn(r.spec.server, origin)
	}
	r.spec.checkSecrets(&r.problems)
	r.spec.numbers(r.fail)
	r.warnIgnored()
	r.remarks()
	if err := errors.Join(r.problems...); err != nil {
		return nil, r.warnings, fmt.Errorf("read options: %w", err)
	}
	return r.spec, r.warnings, nil
}

// set records a value. Of two values of one option the later one wins: sources are read in the order of their rank.
// Lists grow.
func (r *resolver) set(o *Option, text, origin string, from level) {
	value, err := o.parse(text)
	if err != nil {
		r.fail(origin, fmt.Errorf("%s: %w", o.Name, err))
		return
	}
	if o.Kind == Domain {
		words, _ := rules.Words(text) // parse has checked it
		for _, word := range words {
			r.spec.settings[o.Name] = append(r.spec.settings[o.Name], setting{r.expanded(o, word), origin, from})
		}
		return
	}
	s := setting{value, origin, from}
	if o.multiple() {
		r.spec.settings[o.Name] = append(r.spec.settings[o.Name], s)
	} else {
		r.spec.settings[o.Name] = []setting{s}
	}
	if o.Name == "inclexcl" {
		r.spec.statements = append(r.spec.statements, rawLine{Keyword: "INCLEXCL", Rest: text, Origin: origin})
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
			text = (&Option{}).format(r.system == "darwin")
		}
		if text != "" {
			r.set(o, text, "default", fromDefault)
		}
	}
}

// NoStanza is the name, of a job and for --server-name, of a file without stanzas.
const NoStanza = "default"

// file finds, reads and applies the option file.
func (r *resolver) file(flags *pflag.FlagSet) {
	path, content, err := r.locate(flags)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	name, origin := r.one(flags, "server-name")
	name = strings.TrimSuffix(name, CopySuffix)
	if path == "" {
		if name != "" {
			r.fail(origin, fmt.Errorf("%w: there is no option file to look for %s in", errStanza, name))
		}
		return
	}
	r.spec.file = path
	parsed, err := parseFile(path, content, r.table)
	if err != nil {
		r.problems = append(r.problems, err)
	}
	if len(parsed.stanzas) == 0 && strings.EqualFold(name, NoStanza) {
		name = ""
	}
	lines, err := r.linesOf(path, parsed, name, origin)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	r.spec.server = parsed.stanza(name)
	for _, l := range lines {
		r.apply(l)
	}
}

// apply applies one line of the effective part of the file.
func (r *resolver) apply(l rawLine) {
	if rules.IsStatement(l.Keyword) {
		r.spec.statements = append(r.spec.statements, l)
		return
	}
	o := l.option
	switch {
	case o != nil:
	case l.Keyword == "DATEFORMAT", l.Keyword == "REPLACE":
		if r.spec.client == nil {
			r.spec.client = map[string]string{}
		}
		r.spec.client[l.Keyword] = l.Rest
		return
	case !leavesOut(l):
		r.ignored = append(r.ignored, l)
		return
	default:
		return
	}
	if o.Kind == Domain && l.Rest != "" {
		r.set(o, l.Rest, l.Origin, fromFile)
		return
	}
	text, err := l.value()
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	if l.Rest == "" {
		switch o.Kind {
		case Bool: // IBM's switches stand alone: QUIET
			text = "yes"
		case Count:
			text = "1"
		default:
			r.fail(l.Origin, fmt.Errorf("%w: %s needs a value", errSyntax, l.Keyword))
			return
		}
	}
	r.set(o, r.expanded(o, text), l.Origin, fromFile)
}

func (r *resolver) fail(origin string, err error) {
	r.problems = append(r.problems, &Error{Origin: origin, Err: err})
}

// expanded replaces "~" at the beginning of a path, or of an element of a list.
func (r *resolver) expanded(o *Option, text string) string {
	if kind := o.Kind; kind == Path || kind == List || kind == Domain {
		return r.home(text)
	}
	return text
}

// home replaces a leading "~/", and in a service of systemd $CREDENTIALS_DIRECTORY. A shell does so on a command line,
// but not in --repo=~/x and not in a variable.
func (r *resolver) home(path string) string {
	if rest, ok := strings.CutPrefix(path+"/", "~/"); ok {
		if home, ok := r.env("HOME"); ok && home != "" {
			return filepath.Join(home, rest)
		}
	}
	if dir, ok := r.env(CredentialsDir); ok && filepath.IsAbs(dir) {
		if name, ok := Credential(path); ok {
			return filepath.Join(dir, name)
		}
	}
	return path
}

// CredentialsDir is the variable in which systemd passes the folder of its secrets to a service.
const CredentialsDir = "CREDENTIALS_DIRECTORY"

// Credential returns the name in a path such as $CREDENTIALS_DIRECTORY/name, which only the service can open.
func Credential(path string) (name string, ok bool) {
	return strings.CutPrefix(path, "$"+CredentialsDir+"/")
}

// locate reads the effective option file: the named one, which must exist, or the first in the default paths. Without a
// file the path is empty.
func (r *resolver) locate(flags *pflag.FlagSet) (path string, content []byte, err error) {
	if named, origin := r.one(flags, "option-file"); named != "" {
		named = r.home(named)
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

// one returns the value of an option that no file can set: from the command line, otherwise from the environment.
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

// environment applies the variables that are set and not empty. A list has one element per line. The repository of a
// file or stanza that the command line names is nearer than a variable, which would send all jobs to one place.
func (r *resolver) environment(named bool) {
	for i := range r.table {
		o := &r.table[i]
		name := o.Env()
		if name == "" {
			continue
		}
		text, ok := r.env(name)
		if !ok || text == "" || named && o.Name == "repo" && r.spec.FileOf("repo") != "" {
			continue
		}
		if !o.multiple() {
			r.set(o, r.expanded(o, text), name, fromEnv)
			continue
		}
		for element := range strings.SplitSeq(text, "\n") {
			if element = strings.TrimSpace(element); element != "" {
				r.set(o, r.expanded(o, element), name, fromEnv)
			}
		}
	}
}

func (r *resolver) flags(flags *pflag.FlagSet) {
	for i := range r.table {
		for _, text := range given(flags, r.table[i].Name) {
			if r.table[i].Kind == Path { // patterns keep the form the shell passed
				text = r.home(text)
			}
			r.set(&r.table[i], text, "--"+r.table[i].Name, fromFlag)
		}
	}
}

// warnIgnored reports the options of IBM's client without effect here, in one warning for each file.
func (r *resolver) warnIgnored() {
	for len(r.ignored) > 0 {
		path := fileOf(r.ignored[0].Origin)
		var here, others []rawLine
		for _, l := range r.ignored {
			if fileOf(l.Origin) == path {
				here = append(here, l)
			} else {
				others = append(others, l)
			}
		}
		r.warnings = append(r.warnings, ignoredIn(path, here))
		r.ignored = others
	}
}

// fileOf returns the file of an origin "file:line".
func fileOf(origin string) string { return origin[:max(0, strings.LastIndexByte(origin, ':'))] }

// ignoredIn returns the warning of lines without effect of one file, those with the same hint together.
func ignoredIn(path string, lines []rawLine) Warning {
	if len(lines) == 1 {
		w := Warning{Origin: lines[0].Origin, Text: lines[0].Keyword + " has no meaning here and is ignored", Once: true}
		if hint := hintOf(lines[0].Keyword); hint != "" {
			w.Text += ": " + hint
		}
		return w
	}
	var hints []string
	words := map[string][]string{} // by hint
	for _, l := range lines {
		hint := hintOf(l.Keyword)
		if len(words[hint]) == 0 {
			hints = append(hints, hint)
		}
		words[hint] = append(words[hint], fmt.Sprintf("%s (line %d)", l.Keyword, l.Number))
	}
	slices.Sort(hints) // those without a hint first
	var parts []string
	for _, hint := range hints {
		part := strings.Join(words[hint], ", ")
		if hint != "" {
			part += ": " + hint
		}
		parts = append(parts, part)
	}
	return Warning{Origin: path, Once: true, Text: fmt.Sprintf("%d options have no meaning here and are ignored: %s",
		len(lines), strings.Join(parts, "; "))}
}

// remarks warns of values that are valid but do less than they say, or more than a user may expect.
func (r *resolver) remarks() {
	for _, remark := range []struct{ name, value, text string }{
		{"deduplication", "no", "DEDUPLICATION NO has no effect: equal data is always stored once"},
		{"memory-efficient-backup", "no", "MEMORYEFFICIENTBACKUP NO has no effect: memory is always a budget, see MEMORY"},
		{"subdir", "no", "SUBDIR NO: what lies in directories below a source is not backed up"},
	} {
		s := r.spec.get(remark.name)
		if s.value != nil && (&Option{}).format(s.value) == remark.value {
			r.warnings = append(r.warnings, Warning{Origin: s.origin, Text: remark.text})
		}
	}
}

// linesOf returns the effective lines of an option file. As in IBM's client, the server that a dsm.opt names is a
// stanza of the dsm.sys beside it, whose lines come first.
func (r *resolver) linesOf(path string, f *parsedFile, name, origin string) ([]rawLine, error) {
	beside := filepath.Join(filepath.Dir(path), "dsm.sys")
	if !strings.EqualFold(filepath.Base(path), "dsm.opt") {
		return f.lines(name, origin)
	}
	content, err := r.read(beside)
	if err != nil {
		return f.lines(name, origin) // it may be missing
	}
	system, err := parseFile(beside, content, r.table)
	if err != nil {
		return nil, err
	}
	server := name
	if server == "" {
		server, origin = f.first(), path
	}
	first, err := system.lines(server, origin)
	if errors.Is(err, errStanza) {
		if name == "" { // the file stands alone
			r.warnings = append(r.warnings, Warning{Origin: beside,
				Text: fmt.Sprintf("it has no SERVERNAME %s and is not used", server)})
		}
		alone, failed := f.lines(name, origin)
		if errors.Is(failed, errStanza) { // the stanzas to choose from are those of dsm.sys
			return nil, err
		}
		return alone, failed
	}
	if err != nil {
		return nil, err
	}
	own, err := f.lines(name, origin)
	if errors.Is(err, errStanza) {
		own, err = f.lines("", origin)
	}
	return slices.Concat(first, own), err
}
