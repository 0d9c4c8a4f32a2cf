package rules

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Statement adds one include or exclude statement of TSM: keyword and the rest of its line. Two parts have no effect
// here and yield a remark, which is empty otherwise: a statement that does not concern backup (archive, compression,
// ...), and words that TSM allows after the pattern (a management class).
func (b *Builder) Statement(keyword, rest, origin string) (remark string, err error) {
	keyword = strings.ToUpper(keyword)
	kind, include, err := statementKind(keyword)
	if errors.Is(err, errNoMeaning) {
		return keyword + " " + err.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", origin, keyword, err)
	}
	words, err := Words(rest)
	if err != nil {
		return "", fmt.Errorf("%s: %w", origin, err)
	}
	if len(words) == 0 {
		return "", fmt.Errorf("%s: %w: %s needs a pattern", origin, ErrPattern, keyword)
	}
	p, err := parseStatement(words[0], kind)
	if err != nil {
		return "", fmt.Errorf("%s: %w", origin, err)
	}
	p.anchored = true
	b.set.trie.insert(p, b.add(kind, include, keyword+" "+words[0], origin))
	if len(words) > 1 {
		remark = fmt.Sprintf("%q after the pattern has no meaning here", strings.Join(words[1:], " "))
	}
	return remark, nil
}

// statementKind lists all spellings (upper case) of the statements that concern a backup, and those that concern other
// things.
func statementKind(keyword string) (kind Kind, include bool, err error) {
	switch keyword {
	case "INCLUDE", "INCLUDE.BACKUP", "INCLUDE.FILE", "INCLUDE.FILE.BACKUP":
		return Statement, true, nil
	case "EXCLUDE", "EXCLUDE.BACKUP", "EXCLUDE.FILE", "EXCLUDE.FILE.BACKUP":
		return Statement, false, nil
	case "EXCLUDE.DIR":
		return Directory, false, nil
	case "EXCLUDE.FS":
		return FileSystem, false, nil
	case "INCLUDE.ARCHIVE", "EXCLUDE.ARCHIVE", "INCLUDE.COMPRESSION", "EXCLUDE.COMPRESSION", "INCLUDE.ENCRYPT",
		"EXCLUDE.ENCRYPT", "INCLUDE.DEDUP", "EXCLUDE.DEDUP", "INCLUDE.FS", "INCLUDE.FS.NAS", "EXCLUDE.FS.NAS",
		"INCLUDE.IMAGE", "EXCLUDE.IMAGE", "INCLUDE.SNAPSHOT", "EXCLUDE.SPACEMGMT", "EXCLUDE.FILE.SPACEMGMT",
		"INCLUDE.SPACEMGMT", "EXCLUDE.ATTRIBUTE.SYMLINK", "INCLUDE.ATTRIBUTE.SYMLINK", "INCLUDE.VM", "EXCLUDE.VM",
		"INCLUDE.VMDISK", "EXCLUDE.VMDISK", "INCLUDE.VMTSMVSS", "INCLUDE.SYSTEMSTATE", "EXCLUDE.SYSTEMOBJECT",
		"INCLUDE.VMRESETCBT", "INCLUDE.VMSNAPSHOTATTEMPTS", "INCLUDE.VMLOCALSNAPSHOT":
		return 0, false, errNoMeaning
	}
	return 0, false, ErrUnknown
}

// IsStatement reports whether the keyword is an include or exclude statement, with or without an effect here.
func IsStatement(keyword string) bool {
	_, _, err := statementKind(strings.ToUpper(keyword))
	return !errors.Is(err, ErrUnknown)
}

// StatementFile adds the statements of an INCLEXCL file, in the order of its lines. Lines that start with '*' or '#'
// are comments. note gets the remarks. The error names every bad line.
func (b *Builder) StatementFile(r io.Reader, name string, note func(origin, remark string)) error {
	return eachLine(r, name, func(line, origin string) error {
		if line[0] == '*' || line[0] == '#' {
			return nil
		}
		keyword, rest := cutWord(line)
		remark, err := b.Statement(keyword, rest, origin)
		if remark != "" {
			note(origin, remark)
		}
		return err
	})
}

// parseStatement reads the path pattern of a statement.
func parseStatement(text string, kind Kind) (pattern, error) {
	body := text
	if strings.HasPrefix(body, "{") { // TSM's braces around the file space only group
		if space, rest, ok := strings.Cut(body[1:], "}"); ok {
			body = space + rest
		}
	}
	if !strings.HasPrefix(body, "/") {
		return pattern{}, fmt.Errorf("%w: %q must start with '/' (any directory: /.../%s)", ErrPattern, text, body)
	}
	if kind == Statement && strings.HasSuffix(body, "/") {
		return pattern{}, fmt.Errorf("%w: %q names a directory: write %s* for the files in it, or use EXCLUDE.DIR",
			ErrPattern, text, body)
	}
	return parsePattern(splitPath(body), "...", tsmSyntax())
}

// Words splits at blanks. Single or double quotes hold blanks together and are removed; there is no escape.
func Words(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return words, nil
		}
		if quote := line[0]; quote == '"' || quote == '\'' {
			word, rest, ok := strings.Cut(line[1:], string(quote))
			if !ok {
				return nil, fmt.Errorf("%w: %s has no closing quote", ErrPattern, line)
			}
			words, line = append(words, word), rest
			continue
		}
		var word string
		word, line = cutWord(line)
		words = append(words, word)
	}
}

func cutWord(line string) (word, rest string) {
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimSpace(line[i:])
	}
	return line, ""
}
