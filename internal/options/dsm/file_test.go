package dsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func vocabulary() *Vocabulary {
	return NewVocabulary([]string{"RESOURceutilization", "MEMORY", "QUIET"})
}

func TestGrammar(t *testing.T) {
	text := "\xef\xbb\xbf* comment\r\n  # comment\r\nmemory\t 5M \r\nRESOUR \"a b\"\r\n\r\nquiet\nexclude.dir  '/a b' X\n"
	f, err := Parse("f", []byte(text), vocabulary())
	require.NoError(t, err)
	lines, err := f.Lines("", "")
	require.NoError(t, err)
	require.Equal(t, []Line{
		{"MEMORY", "5M", "f:3", 3},
		{"RESOURCEUTILIZATION", `"a b"`, "f:4", 4},
		{"QUIET", "", "f:6", 6},
		{"EXCLUDE.DIR", "'/a b' X", "f:7", 7},
	}, lines)
	value, err := lines[1].Value()
	require.NoError(t, err)
	require.Equal(t, "a b", value)
	_, err = lines[3].Value()
	require.ErrorIs(t, err, ErrSyntax)
	var place *Error
	require.ErrorAs(t, err, &place)
	require.Equal(t, "f:7", place.Origin)
}

func TestShortForms(t *testing.T) {
	v := vocabulary()
	for text, want := range map[string]string{"resour": "RESOURCEUTILIZATION", "RESOURCEutil": "RESOURCEUTILIZATION",
		"se": "SERVERNAME", "tcps": "TCPSERVERADDRESS", "TCPServeraddr": "TCPSERVERADDRESS", "quiet": "QUIET"} {
		full, ok := v.Find(text)
		require.True(t, ok, text)
		require.Equal(t, want, full)
	}
	for _, text := range []string{"resou", "s", "memor", "", "resourceutilizationx", "tcp"} {
		_, ok := v.Find(text)
		require.False(t, ok, text)
	}
}

// Every word of IBM's must be reachable in full, and be there once.
func TestForeignWords(t *testing.T) {
	v := NewVocabulary(nil)
	seen := make(map[string]bool)
	for _, word := range strings.Fields(foreign) {
		full := strings.ToUpper(word)
		require.False(t, seen[full], full)
		seen[full] = true
		got, ok := v.Find(word)
		require.True(t, ok)
		require.Equal(t, full, got)
	}
	for _, word := range []string{"DOMAIN.IMAGE", "PASSWORD", "TCPSERVERADDRESS", "DISKBUFFSIZE", "ENCRYPTKEY"} {
		require.True(t, seen[word])
		require.NotEmpty(t, Hint(word))
	}
	require.Empty(t, Hint("NODENAME"))
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "xbc", 1},
		{"kitten", "sitting", 3}} {
		require.Equal(t, c.want, editDistance(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.want, editDistance(c.b, c.a))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("SERVERNAME a\nMEMORY 'x y'\n* c\nEXCLUDE /x\nDEFAULTSERVER a", "a")
	f.Add("DEFAULTSERVER \"\nSERVERNAME ''\nMEM 1\nX=1\n", "")
	f.Add("\xef\xbb\xbf#\r\n\x00 \xff", "b")
	f.Fuzz(func(t *testing.T, text, stanza string) {
		file, err := Parse("f", []byte(text), vocabulary())
		if err != nil {
			require.ErrorContains(t, err, "f:")
		}
		lines, err := file.Lines(stanza, "flag")
		if err != nil {
			return
		}
		for _, l := range lines {
			require.Equal(t, strings.ToUpper(l.Keyword), l.Keyword)
			require.True(t, strings.HasPrefix(l.Origin, "f:"))
			if value, err := l.Value(); err == nil && l.Rest == "" {
				require.Empty(t, value)
			}
		}
	})
}
