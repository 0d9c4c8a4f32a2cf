package options

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/rules"
)

// MaxPortable is the largest text that a backup stores of an option file, in bytes.
const MaxPortable = 64 << 10

// The comments that Portable writes.
const (
	leftOut   = "* fill in: "        // stands for a value that is left out
	here      = "* this repository:" // stands before the place of the repository to which the text is stored
	elsewhere = "* other machine: "  // see Rewrite
	plain     = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:%,[]"
)

// Portable returns the lines of an option file without what may be secret: comments, and each value that is not known
// to be harmless. Mistakes and options without effect are left out, too. isHere reports whether a place is that of the
// repository to which the text is stored.
func Portable(content []byte, isHere func(place string) bool) string {
	words := vocabularyOf(Table())
	var b strings.Builder
	indent := ""
	for raw := range strings.SplitSeq(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		text := strings.TrimSpace(raw)
		if text == "" || text[0] == '*' || text[0] == '#' {
			continue
		}
		l, err := parseLine(text, "", words)
		if err != nil {
			continue
		}
		o := l.option
		switch {
		case l.Keyword == server:
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(portable(l.Keyword, l.Rest, 1))
			indent = "  "
			continue
		case o == nil && !rules.IsStatement(l.Keyword) && l.Keyword != defaultServer:
			continue
		}
		l.Keyword = l.usual()
		line := leftOut + l.Keyword + "\n"
		switch {
		case o == nil:
			line = portable(l.Keyword, l.Rest, 1)
		case o.Kind == Domain && checkDomain(l.Rest) == nil:
			line = portable(l.Keyword, l.Rest, -1)
		case o.Kind != Domain && o.harmless(&l):
			line = portable(l.Keyword, l.Rest, 1)
			if value, _ := l.value(); slices.Contains([]string{"repo", "rotate", "copy-to"}, o.Name) && isHere(value) {
				line = here + "\n" + indent + line
			}
		}
		b.WriteString(indent + line)
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
		quoted, ok := Quote(value)
		if !ok {
			return leftOut + keyword + "\n"
		}
		values[i] = quoted
	}
	return strings.Join(append([]string{keyword}, values...), " ") + "\n"
}

// Quote returns a value as an option file holds it; false if none can.
func Quote(value string) (text string, ok bool) {
	switch {
	case strings.ContainsAny(value, "\n\r"):
		return "", false
	case value != "" && !strings.ContainsAny(value, " \t") && value[0] != '"' && value[0] != '\'':
		return value, true
	case !strings.Contains(value, `"`):
		return `"` + value + `"`, true
	case !strings.Contains(value, `'`):
		return `'` + value + `'`, true
	}
	return "", false
}

// harmless reports whether the value of a line is no secret, and contains none: it is a valid value of few choices, or
// a place, or one of an option that is known for it.
func (o *Option) harmless(l *rawLine) bool {
	value, err := l.value()
	if err != nil || l.Rest == "" && o.Kind != Bool && o.Kind != Count {
		return err == nil
	}
	switch o.Kind {
	case Bool, Int, Size, Duration, Choice, Count, Percent:
		_, err := o.parse(value)
		return err == nil || l.Rest == ""
	case Path:
		return place(value)
	case List:
		return o.Name != "rotate" || place(value)
	case String:
		switch o.Name {
		case "copy-to":
			return place(value)
		case "schedule", "keep", "copy-keep", "on-battery", "ignore-file", "mail-from", "mail-user":
			return true
		case "mail-server", "metrics-group", "metrics-listen":
			return strings.Trim(value, plain) == ""
		}
		return strings.HasSuffix(o.Name, "-command") && filepath.IsAbs(value) &&
			strings.Trim(value, plain) == "" // without arguments
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

// Rewrite returns the text of Portable for another machine. repository returns the new place for each one of the
// repository; a line that away accepts becomes a comment. stanzas are those of the repository, "" for the lines before
// the first.
func Rewrite(text string, repository func(place string) string, away func(keyword, value string) bool) (out string,
	stanzas []string) {
	var b strings.Builder
	stanza, isHere := "", false
	for line := range strings.Lines(text) {
		body := strings.TrimSpace(line)
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if body == here {
			isHere = true
			continue
		}
		keyword, rest, _ := strings.Cut(body, " ")
		value := ""
		if words, err := rules.Words(rest); err == nil && len(words) == 1 {
			value = words[0]
		}
		switch {
		case keyword == server:
			stanza = value
		case isHere:
			if quoted, ok := Quote(repository(value)); ok {
				line = indent + keyword + " " + quoted + "\n"
			}
			stanzas = append(stanzas, stanza)
		case away(keyword, value):
			line = indent + elsewhere + body + "\n"
		}
		isHere = false
		b.WriteString(line)
	}
	return b.String(), stanzas
}
