package human

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns path as it may be shown on a terminal: control characters and everything else that does not print,
// bytes that are not UTF-8, and the backslash become backslash escapes. A file name can therefore neither move the
// cursor nor pass for another one, and the original bytes can be read off: \xNN is a byte, \uNNNN and \UNNNNNNNN are
// characters, \\ is a backslash.
func Printable(path string) string {
	return escape(path, func(r rune) bool { return !unicode.IsPrint(r) })
}

// ShellWord returns a text as a word of a shell. One with bytes that Printable escapes needs bash or zsh.
func ShellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:@="
	switch shown := Printable(text); {
	case text != "" && strings.Trim(text, plain) == "":
		return text
	case shown != text:
		return "$'" + strings.ReplaceAll(shown, "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Device names a device with its medium, "vda (ssd)", the same everywhere. An empty name is that of a device that could
// not be found out.
func Device(name, medium string) string {
	if name == "" {
		name = "unknown device"
	}
	switch medium {
	case "":
		return Printable(name)
	case "unknown":
		medium = "medium unknown"
	}
	return Printable(name) + " (" + Printable(medium) + ")"
}

// Harmless returns text of several lines without control sequences for a terminal. Text that Printable escaped stays as
// it is.
func Harmless(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == '\n' || r == '\\' {
			b.WriteRune(r)
		} else {
			b.WriteString(Printable(text[:n]))
		}
		text = text[n:]
	}
	return b.String()
}

// EscapeInvalid returns path with every byte that is not UTF-8 as \xNN and every backslash doubled: valid UTF-8 from
// which the bytes can be read off.
func EscapeInvalid(path string) string {
	return escape(path, func(rune) bool { return false })
}

// escape writes backslashes, bytes that are not UTF-8 and the characters for which hide says so as escapes.
func escape(path string, hide func(rune) bool) string {
	var b strings.Builder
	for len(path) > 0 {
		r, n := utf8.DecodeRuneInString(path)
		switch {
		case r == utf8.RuneError && n == 1, n == 1 && hide(r):
			fmt.Fprintf(&b, `\x%02x`, path[0])
		case r == '\\':
			b.WriteString(`\\`)
		case hide(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case hide(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		path = path[n:]
	}
	return b.String()
}

// columns returns how many columns of a terminal r takes, r being one that prints. Wide characters of East Asian
// scripts and emoji take two, combining marks none; that is exact enough to keep a line from wrapping.
func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r < 0x1100:
		return 1
	case r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd, r >= 0x2600 && r <= 0x27bf:
		return 2
	}
	return 1
}

// Columns returns how many columns of a terminal s takes.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// CutEnd shortens s to at most width columns; an ellipsis stands for what was cut off.
func CutEnd(s string, width int) string {
	if Columns(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		n += columns(r)
		if n > width-1 {
			return s[:i] + ellipsis(width)
		}
	}
	return s
}

// CutMiddle shortens s like CutEnd, but takes out of the middle: of a path, both ends say most.
func CutMiddle(s string, width int) string {
	if Columns(s) <= width {
		return s
	}
	head := (width - 1) / 3
	tail := width - 1 - head
	start := len(s)
	for n := 0; start > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:start])
		if n += columns(r); n > tail {
			break
		}
		start -= size
	}
	return CutEnd(s, head+1) + s[start:]
}

// Wrap breaks the lines of a text at blanks, so that none has more than width columns unless a word has more. What
// belongs to a line is indented as that is. Text in single quotes, such as a command, counts as one word, so that it
// can be copied whole. width 0 leaves lines as they are.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\n")
		indent := body[:len(body)-len(strings.TrimLeft(body, " "))]
		for Columns(body) > width {
			at := lastBreak(body, len(indent), width)
			if at < 0 {
				break
			}
			b.WriteString(body[:at] + "\n")
			body = indent + body[at+1:]
		}
		b.WriteString(body + line[len(strings.TrimRight(line, "\n")):])
	}
	return b.String()
}

// lastBreak returns the last blank of a line between words, behind its indentation, with at most width columns before
// it; otherwise the first one; -1: there is none.
func lastBreak(line string, indent, width int) int {
	found, columnsBefore, quoteEnd := -1, 0, 0
	for i, r := range line {
		switch {
		case i < quoteEnd:
		case r == '\'':
			quoteEnd = endOfQuote(line, i)
		case r == ' ' && i > indent && (columnsBefore <= width || found < 0):
			found = i
		}
		columnsBefore += columns(r)
	}
	return found
}

// endOfQuote returns where the text in quotes that begins at i ends; i: an apostrophe, or nothing ends it.
func endOfQuote(line string, i int) int {
	if i > 0 && !strings.ContainsRune(" (", rune(line[i-1])) {
		return i
	}
	for end := i + 1; end < len(line); end++ {
		if line[end] == '\'' && (end+1 == len(line) || strings.ContainsRune(" ,.:;)", rune(line[end+1]))) {
			return end
		}
	}
	return i
}

func ellipsis(width int) string {
	if width < 1 {
		return ""
	}
	return "…"
}
