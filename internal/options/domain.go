package options

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// AllLocal is the word of DOMAIN for all file systems of this machine, as in IBM's client.
const AllLocal = "ALL-LOCAL"

// Domain returns the words of DOMAIN: paths, ALL-LOCAL, and either with a "-" before it to leave it out.
func (s *Spec) Domain() (words []string) {
	for _, one := range s.settings["domain"] {
		words = append(words, one.value.(string))
	}
	return words
}

// FoundBy returns the words of DOMAIN if they mean what is mounted; nil: they name all sources.
func (s *Spec) FoundBy() []string {
	words := s.Domain()
	if slices.ContainsFunc(words, path.IsAbs) &&
		!slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, AllLocal) }) {
		return nil
	}
	return words
}

// With returns the options with another value of one.
func (s *Spec) With(name string, value any) *Spec {
	other := s.clone()
	other.settings[name] = []setting{{value: value, origin: "default"}}
	return other
}

// WithDefault returns the options with a value of one that is not set.
func (s *Spec) WithDefault(name string, value any) *Spec {
	if s.get(name).level > fromDefault {
		return s
	}
	return s.With(name, value)
}

// clone returns a copy with its own settings and statements.
func (s *Spec) clone() *Spec {
	other := *s
	other.settings = maps.Clone(s.settings)
	other.statements = slices.Clip(other.statements)
	return &other
}

// ForDomain returns the sources that DOMAIN names, and the options for their backup: each file system is backed up
// without those mounted below it, unless they belong to the domain too. A domain of exclusions only is ALL-LOCAL
// without them. An exclusion applies to all below it.
func (s *Spec) ForDomain(mounts []localfs.Mount) (*Spec, []string, error) {
	other, settings := s.clone(), s.settings["domain"]
	if len(settings) == 0 {
		return s, nil, nil
	}
	var chosen, excluded []string
	all := true
	for _, one := range settings {
		word := one.value.(string)
		if out, ok := strings.CutPrefix(word, "-"); ok {
			for _, at := range places(out, mounts) {
				excluded = append(excluded, at)
				other.statements = append(other.statements,
					rawLine{Keyword: "EXCLUDE.FS", Rest: quotePattern(at), Origin: one.origin})
			}
			continue
		}
		all = false
		chosen = append(chosen, places(word, mounts)...)
	}
	if all {
		chosen = places(AllLocal, mounts)
	}
	chosen = slices.DeleteFunc(chosen, func(at string) bool {
		return slices.ContainsFunc(excluded, func(out string) bool { return at == out || below(at, out) })
	})
	slices.Sort(chosen)
	chosen = slices.Compact(chosen)
	if len(chosen) == 0 {
		return nil, nil, &Error{Origin: settings[0].origin,
			Err: fmt.Errorf("no file system is left to back up: DOMAIN %s", strings.Join(s.Domain(), " "))}
	}
	other.domain, other.domainOrigin = slices.Concat(chosen, between(chosen, mounts)), settings[0].origin
	return other, chosen, nil
}

// between returns the mounts between a file system of the domain and one below it, which has to be entered for that.
func between(chosen []string, mounts []localfs.Mount) (all []string) {
	for _, m := range mounts {
		above := slices.ContainsFunc(chosen, func(at string) bool { return below(at, m.Path) })
		if above && !slices.Contains(chosen, m.Path) {
			all = append(all, m.Path)
		}
	}
	return all
}

// leavesOut reports whether a line of DOMAIN.IMAGE only names what image backups leave out, which is all here.
func leavesOut(l rawLine) bool {
	words, err := rules.Words(l.Rest)
	return l.Keyword == "DOMAIN.IMAGE" && err == nil && len(words) > 0 &&
		!slices.ContainsFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") })
}

// below reports whether a clean path lies below another.
func below(at, above string) bool {
	return at != above && strings.HasPrefix(at, strings.TrimSuffix(above, "/")+"/")
}

// places returns the paths that a word without "-" stands for.
func places(word string, mounts []localfs.Mount) (all []string) {
	if !strings.EqualFold(word, AllLocal) {
		return []string{path.Clean(word)}
	}
	for _, m := range mounts {
		if m.Local {
			all = append(all, m.Path)
		}
	}
	return all
}

// quotePattern returns a statement's pattern that matches a path only.
func quotePattern(at string) string {
	var b strings.Builder
	for _, r := range at {
		switch r {
		case '*', '?', '[':
			b.WriteString("[" + string(r) + "]")
		default:
			b.WriteRune(r)
		}
	}
	return `"` + strings.ReplaceAll(b.String(), `"`, "?") + `"` // a statement has no way to quote a quotation mark
}

// checkDomain returns why the words of DOMAIN are malformed.
func checkDomain(text string) error {
	words, err := rules.Words(text)
	if err != nil || len(words) == 0 {
		return fmt.Errorf("%w: DOMAIN %q: write paths with blanks between them", ErrValue, text)
	}
	for _, word := range words {
		err = errors.Join(err, checkDomainWord(word))
	}
	return err
}

func checkDomainWord(word string) error {
	at := strings.TrimPrefix(word, "-")
	switch upper := strings.ToUpper(at); {
	case strings.HasPrefix(at, "/"), strings.HasPrefix(word, "~/"), upper == AllLocal:
		return nil
	case slices.Contains([]string{"ALL-NFS", "ALL-LOFS", "ALL-AUTO-NFS", "ALL-AUTO-LOFS"}, upper):
		return fmt.Errorf("%w: DOMAIN %s: file systems of other machines are backed up by their paths only: name each",
			ErrValue, word)
	}
	return fmt.Errorf("%w: DOMAIN %q: write the path of a file system, a path with a - before it to leave it out, or %s",
		ErrValue, word, AllLocal)
}
