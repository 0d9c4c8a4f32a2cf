package browse

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// pattern is a glob: '*', '?' and '[...]' within one name, '**' for any number of names. Without a '/' it matches the
// last name of a path; with one, whole names at the end of the path; with a leading '/', the whole path.
type pattern struct {
	parts    []string
	anchored bool // begins at the root
	fold     bool
}

func parsePattern(text string, fold bool) (pattern, error) {
	p := pattern{fold: fold, anchored: strings.HasPrefix(text, "/")}
	if fold {
		text = strings.ToLower(text)
	}
	for part := range strings.SplitSeq(text, "/") {
		if part == "" {
			continue
		}
		if _, err := path.Match(part, ""); err != nil {
			return pattern{}, fmt.Errorf("%q: %w", text, ErrPattern)
		}
		p.parts = append(p.parts, part)
	}
	if len(p.parts) == 0 {
		return pattern{}, fmt.Errorf("%q is empty: %w", text, ErrPattern)
	}
	if !p.anchored && len(p.parts) > 1 {
		p.parts = append([]string{"**"}, p.parts...)
	}
	return p, nil
}

// Matcher returns a function that reports whether a path matches one of the patterns, each as in Query.Patterns.
func Matcher(patterns ...string) (func(at string) bool, error) {
	all := make([]pattern, len(patterns))
	for i, text := range patterns {
		var err error
		if all[i], err = parsePattern(text, false); err != nil {
			return nil, err
		}
	}
	return func(at string) bool {
		return slices.ContainsFunc(all, func(p pattern) bool { return p.match(at, path.Base(at)) })
	}, nil
}

// byName reports whether the pattern depends only on the last name of a path.
func (p *pattern) byName() bool { return len(p.parts) == 1 && !p.anchored }

func (p *pattern) match(at, name string) bool {
	if p.byName() {
		return p.part(p.parts[0], name)
	}
	return p.names(p.parts, strings.Split(strings.TrimPrefix(at, "/"), "/"))
}

// names matches one name after the other. If a part does not match, only the last '**' needs to be retried, so the time
// is at most the product of the two lengths.
func (p *pattern) names(parts, names []string) bool {
	i, j := 0, 0
	star, from := -1, 0
	for j < len(names) {
		switch {
		case i < len(parts) && parts[i] == "**":
			star, from = i, j
			i++
		case i < len(parts) && p.part(parts[i], names[j]):
			i, j = i+1, j+1
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(parts) && parts[i] == "**" {
		i++
	}
	return i == len(parts)
}

func (p *pattern) part(part, name string) bool {
	if p.fold {
		name = strings.ToLower(name)
	}
	ok, err := path.Match(part, name)
	return ok && err == nil
}
