package options

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options/dsm"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// MaxPortable is the largest text that a backup stores of an option file, in bytes.
const MaxPortable = 64 << 10

// leftOut begins a line of Portable for a value that is left out.
const leftOut = "* fill in: "

// Portable returns the lines of an option file without what may be secret: comments, and each value that is not known
// to be harmless. Mistakes and options without effect are left out, too.
func Portable(content []byte) string {
	table := Table()
	keywords, words := keywordsOf(table), vocabulary(table)
	var b strings.Builder
	indent := ""
	for raw := range strings.SplitSeq(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		text := strings.TrimSpace(raw)
		if text == "" || text[0] == '*' || text[0] == '#' {
			continue
		}
		l, err := dsm.ParseLine(text, "", words)
		if err != nil {
			continue
		}
		o := keywords[l.Keyword]
		switch {
		case l.Keyword == "SERVERNAME":
			indent = "  "
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(portable(l.Keyword, l.Rest, 1))
			continue
		case o == nil && !rules.IsStatement(l.Keyword) && l.Keyword != "DEFAULTSERVER":
			continue
		case o != nil:
			l.Keyword = strings.ToUpper(o.Keywords()[0])
		}
		b.WriteString(indent)
		switch {
		case o == nil:
			b.WriteString(portable(l.Keyword, l.Rest, 1))
		case o.Type.Kind == Domain && checkDomain(l.Rest) == nil:
			b.WriteString(portable(l.Keyword, l.Rest, -1))
		case o.harmless(&l):
			b.WriteString(portable(l.Keyword, l.Rest, 1))
		default:
			b.WriteString(leftOut + l.Keyword + "\n")
		}
	}
	return b.String()
}

// portable returns a line with the first n of its values, in quotes where they need them; n < 0: with all of them.
func portable(keyword, rest string, n int) string {
	values, err := rules.Words(rest)
	if err != nil {
		return leftOut + keyword + "\n"
	}
	if n >= 0 {
		values = values[:min(n, len(values))]
	}
	for i, value := range values {
		switch {
		case !strings.Contains(value, `"`):
			value = `"` + value + `"`
		case !strings.Contains(value, `'`):
			value = `'` + value + `'`
		default:
			return leftOut + keyword + "\n"
		}
		if strings.ContainsAny(value, " \t'") || len(value) == 2 {
			values[i] = value
		}
	}
	return strings.Join(append([]string{keyword}, values...), " ") + "\n"
}

// harmless reports whether the value of a line is no secret, and contains none: it is a valid value of few choices, or
// a place, or one of an option that is known for it.
func (o *Option) harmless(l *dsm.Line) bool {
	value, err := l.Value()
	if err != nil || l.Rest == "" && o.Type.Kind != Bool && o.Type.Kind != Count {
		return err == nil
	}
	switch o.Type.Kind {
	case Bool, Int, Size, Duration, Choice, Count, Percent:
		_, err := o.Type.parse(value)
		return err == nil || l.Rest == ""
	case Path:
		return place(value)
	case List:
		return o.Name != "rotate" || place(value)
	case String:
		return filepath.IsAbs(value) && !strings.ContainsAny(value, " \t=") || // a command without arguments
			!strings.Contains(value, "://") && slices.Contains([]string{"schedule", "keep", "on-battery", "ignore-file",
				"mail-server", "mail-from", "mail-user", "metrics-group", "metrics-listen"}, o.Name)
	}
	return false
}

// place reports whether a value is a place on a disk or on a share, and not, by mistake, a password. An address with a
// password is none.
func place(value string) bool {
	if _, address, found := strings.Cut(value, "://"); found {
		user, _, _ := strings.Cut(address, "@")
		return !strings.Contains(user, ":") || !strings.Contains(address, "@")
	}
	return filepath.IsAbs(value) || slices.ContainsFunc([]string{"~/", "$" + CredentialsDir + "/", "LABEL=", "UUID="},
		func(prefix string) bool { return strings.HasPrefix(value, prefix) })
}

// LeftOut returns the lines of Portable for values that are left out, without values.
func LeftOut(text string) (all []FileLine) {
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if keyword, found := strings.CutPrefix(strings.TrimSpace(line), leftOut); found {
			all = append(all, FileLine{Number: number, Keyword: keyword})
		}
	}
	return all
}
