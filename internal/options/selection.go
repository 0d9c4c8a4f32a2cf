package options

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// RequireMount returns the paths that have to be mount points.
func (s *Spec) RequireMount() []string { return s.strings("require-mount") }

// ShrinkLimit returns the part of its files or bytes that a source may lose, in percent.
func (s *Spec) ShrinkLimit() float64 { return s.percent("shrink-limit") }

// Checkpoint returns the time to the first partial snapshot of a first backup; 0: none.
func (s *Spec) Checkpoint() time.Duration { return s.duration("checkpoint") }

// ExcludesTimeMachine reports whether a backup leaves out what Time Machine does.
func (s *Spec) ExcludesTimeMachine() bool { return s.bool("exclude-time-machine") }

// Rules compiles the options that select paths for a backup. Files of patterns are read with read, and env replaces
// variables in those of exclude-file. before adds rules that go before these. The error names every bad line.
func (s *Spec) Rules(read ReadFile, env Env, before ...func(*rules.Builder)) (*rules.Set, []Warning, error) {
	c := &compiler{spec: s, read: read, env: env, builder: rules.NewBuilder()}
	for _, add := range before {
		add(c.builder)
	}
	c.statements()
	c.patterns("exclude", "exclude-file", false)
	c.patterns("iexclude", "iexclude-file", true)
	for _, one := range s.settings["exclude-if-present"] {
		c.note(c.builder.ExcludeIfPresent(one.value.(string), one.origin))
	}
	if s.bool("exclude-caches") {
		c.builder.ExcludeCaches(s.get("exclude-caches").origin)
	}
	if limit := s.get("exclude-larger-than"); limit.value != nil {
		c.builder.ExcludeLargerThan(uint64(s.int("exclude-larger-than")), limit.origin)
	}
	if name := s.get("ignore-file"); name.value != "" {
		c.note(c.builder.IgnoreFile(s.string("ignore-file"), name.origin))
	}
	if len(s.domain) > 0 {
		c.builder.OnlySystems(s.domain, s.domainOrigin)
	}
	c.builder.Enter(localfs.Firmlinks(read))
	for _, f := range []struct {
		kind rules.Kind
		name string
		on   bool // value of the option that enables the rule
	}{
		{rules.NoDump, "exclude-nodump", true},
		{rules.TimeMachine, "exclude-time-machine", true},
		{rules.OneSystem, "one-file-system", true},
		{rules.Pseudo, "pseudo-file-systems", false},
		{rules.TopOnly, "subdir", false},
	} {
		if s.bool(f.name) == f.on {
			c.builder.Flag(f.kind, s.get(f.name).origin)
		}
	}
	if err := errors.Join(c.problems...); err != nil {
		return nil, c.warnings, fmt.Errorf("read include and exclude rules: %w", err)
	}
	return c.builder.Compile(), together(c.warnings), nil
}

// together makes one warning of several; those with the same text count once.
func together(warnings []Warning) []Warning {
	if len(warnings) < 2 {
		return warnings
	}
	var texts []string
	origins := map[string][]string{}
	for _, w := range warnings {
		if len(origins[w.Text]) == 0 {
			texts = append(texts, w.Text)
		}
		origins[w.Text] = append(origins[w.Text], w.Origin)
	}
	for i, text := range texts {
		where := origins[text][0]
		if more := len(origins[text]) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		texts[i] = text + " (" + where + ")"
	}
	return []Warning{{Origin: "include and exclude statements", Text: strings.Join(texts, ", ")}}
}

// compiler passes the settings to a builder.
type compiler struct {
	spec     *Spec
	read     ReadFile
	env      Env
	builder  *rules.Builder
	warnings []Warning
	problems []error
}

func (c *compiler) note(err error) {
	if err != nil {
		c.problems = append(c.problems, err)
	}
}

func (c *compiler) warn(origin, text string) {
	c.warnings = append(c.warnings, Warning{Origin: origin, Text: text})
}

// statements adds the statements in their order; those of an INCLEXCL file stand at the position of the file.
func (c *compiler) statements() {
	for _, st := range c.spec.statements {
		if st.Keyword == "INCLEXCL" {
			if content, ok := c.open(st.Rest, st.Origin); ok {
				c.note(c.builder.StatementFile(bytes.NewReader(content), st.Rest, c.warn))
			}
			continue
		}
		remark, err := c.builder.Statement(st.Keyword, st.Rest, st.Origin)
		c.note(err)
		if remark != "" {
			c.warn(st.Origin, remark)
		}
	}
}

// patterns adds the patterns of single, then those of files, as restic does.
func (c *compiler) patterns(single, file string, fold bool) {
	for _, one := range c.spec.settings[single] {
		c.note(c.builder.Exclude(one.value.(string), fold, one.origin))
	}
	for _, one := range c.spec.settings[file] {
		path := one.value.(string)
		if content, ok := c.open(path, one.origin); ok {
			c.note(c.builder.ExcludeFile(bytes.NewReader(content), path, fold, c.env))
		}
	}
}

func (c *compiler) open(path, origin string) ([]byte, bool) {
	content, err := c.read(path)
	if err != nil {
		c.note(&Error{Origin: origin, Err: err})
		return nil, false
	}
	return content, true
}
