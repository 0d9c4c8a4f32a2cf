package human

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/home/ä/日本", "/home/ä/日本"},
		{"a b", "a b"},
		{"a\x1b[2Jb", `a\x1b[2Jb`},
		{"a\nb\tc", `a\x0ab\x09c`},
		{"caf\xe9", `caf\xe9`},
		{`back\slash`, `back\\slash`},
		{"right\u202eleft", `right\u202eleft`},
		{"\u009b2J", `\u009b2J`},
		{"nbsp\u00a0", `nbsp\u00a0`},
		{"\U000e0001", `\U000e0001`},
		{"\ufffd", "\ufffd"},
	} {
		require.Equal(t, c.want, Printable(c.path), "%q", c.path)
	}
	require.Equal(t, `\xff\\`+"\n", EscapeInvalid("\xff\\\n"))
}

// unescape undoes Printable and EscapeInvalid, as a script would.
func unescape(t *testing.T, s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if digits == 0 {
			require.Equal(t, byte('\\'), s[i])
			b.WriteByte('\\')
			continue
		}
		v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
		require.NoError(t, err)
		if digits == 2 {
			b.WriteByte(byte(v))
		} else {
			b.WriteRune(rune(v))
		}
		i += digits
	}
	return b.String()
}

func FuzzEscapes(f *testing.F) {
	for _, s := range []string{"", "/usr/bin", "caf\xe9\\", "\x1b]0;x\x07", "日本\u202e", "\\x41", "\xf0\x9f\x98"} {
		f.Add(s, 20)
	}
	f.Fuzz(func(t *testing.T, path string, width int) {
		shown := Printable(path)
		require.True(t, utf8.ValidString(shown))
		for _, r := range shown {
			require.True(t, unicode.IsPrint(r), "%q", r)
		}
		require.Equal(t, path, unescape(t, shown))
		require.Equal(t, path, unescape(t, EscapeInvalid(path)))
		width = max(1, min(width, 500))
		require.LessOrEqual(t, Columns(CutEnd(shown, width)), width)
		require.LessOrEqual(t, Columns(CutMiddle(shown, width)), width)
	})
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc", CutEnd("abc", 3))
	require.Equal(t, "ab…", CutEnd("abcd", 3))
	require.Equal(t, "日…", CutEnd("日本語", 4)) // the second one would take columns 3 and 4, where the ellipsis goes
	require.Equal(t, "/home/u…nts/report.txt", CutMiddle("/home/user/some/where/documents/report.txt", 22))
	require.Equal(t, "…", CutMiddle("abcdef", 1))
	require.Equal(t, 3, Columns("e\u0301日"))
}

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"open \x1b[31mX: no such file\nnext":      `open \x1b[31mX: no such file` + "\nnext",
		`already \x1b and a\b`:                    `already \x1b and a\b`,
		"bytes \xff\xfe, \u202eleft, tab\tbell\a": `bytes \xff\xfe, \u202eleft, tab\x09bell\x07`,
		"":        "",
		"käse 中文": "käse 中文",
	} {
		require.Equal(t, want, Harmless(text))
		require.Equal(t, want, Harmless(want), "a second time changes nothing")
	}
}

// TestWordsOfAShell: bash gives back what was quoted.
func TestWordsOfAShell(t *testing.T) {
	for _, text := range []string{"", "plain/a.txt", "a b", "it's", "$HOME `id` \"x\" \\", "*", "line\nbreak",
		"\xff\x1b'\\", "käse 中文", "a\u202eb", "~", "a\\'b\n"} {
		word := ShellWord(text)
		hidden := strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) })
		require.False(t, hidden, "it can be shown: %s", word)
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "LC_ALL=C.UTF-8; printf %s "+word).Output()
		require.NoError(t, err, word)
		require.Equal(t, text, string(out), word)
	}
}

func TestWrapBreaksAtWords(t *testing.T) {
	for _, c := range []struct {
		text, want string
		width      int
	}{
		{"one two three", "one two three", 0},
		{"one two three", "one two three", 13},
		{"one two three", "one two\nthree", 12},
		{"one two three", "one\ntwo\nthree", 3},
		{"  in two three\nfour\n", "  in two\n  three\nfour\n", 9},
		{"/a/path/that/is/long to x", "/a/path/that/is/long\nto x", 8},
		{"/a/path/that/is/long", "/a/path/that/is/long", 8},
		{"  /a/path/that/is/long", "  /a/path/that/is/long", 8},
		{"漢字 漢字", "漢字\n漢字", 6},
		{"", "", 5},
		// Commands in quotes stay whole.
		{"use 'tidemark ls' here", "use\n'tidemark ls'\nhere", 14},
		{"use 'tidemark backup /home/ann', or wait", "use\n'tidemark backup /home/ann',\nor wait", 12},
		{"(see 'a b': c) d", "(see\n'a b':\nc) d", 8},
		{"the disk's place and the user's", "the disk's\nplace and\nthe user's", 10},
		{"an 'open quote of no end", "an 'open\nquote of\nno end", 9},
		{"  run 'x y' z", "  run\n  'x y'\n  z", 8},
	} {
		require.Equal(t, c.want, Wrap(c.text, c.width), "%q at %d", c.text, c.width)
	}
}
