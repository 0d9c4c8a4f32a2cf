package options

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGrammar(t *testing.T) {
	text := "\xef\xbb\xbf* comment\r\n  # comment\r\nmemory\t 5M \r\nRESOUR \"a b\"\r\n\r\nquiet\nexclude.dir  '/a b' X\n"
	f, err := parseFile("f", []byte(text), Table())
	require.NoError(t, err)
	lines, err := f.lines("", "")
	require.NoError(t, err)
	for i := range lines {
		lines[i].option = nil
	}
	require.Equal(t, []rawLine{
		{"MEMORY", "5M", "f:3", 3, nil},
		{"RESOURCEUTILIZATION", `"a b"`, "f:4", 4, nil},
		{"QUIET", "", "f:6", 6, nil},
		{"EXCLUDE.DIR", "'/a b' X", "f:7", 7, nil},
	}, lines)
	value, err := lines[1].value()
	require.NoError(t, err)
	require.Equal(t, "a b", value)
	_, err = lines[3].value()
	require.ErrorIs(t, err, errSyntax)
	var place *Error
	require.ErrorAs(t, err, &place)
	require.Equal(t, "f:7", place.Origin)
}

func TestShortForms(t *testing.T) {
	v := vocabularyOf(Table())
	for text, want := range map[string]string{"resour": "RESOURCEUTILIZATION", "RESOURCEutil": "RESOURCEUTILIZATION",
		"se": "SERVERNAME", "tcps": "TCPSERVERADDRESS", "TCPServeraddr": "TCPSERVERADDRESS", "quiet": "QUIET"} {
		found := v.find(text)
		require.NotNil(t, found, text)
		require.Equal(t, want, found.full)
	}
	for _, text := range []string{"resou", "s", "memor", "", "resourceutilizationx", "tcp"} {
		require.Nil(t, v.find(text), text)
	}
}

// Every word of IBM's must be reachable in full, and be there once.
func TestForeignWords(t *testing.T) {
	v := vocabularyOf(nil)
	seen := make(map[string]bool)
	for _, word := range strings.Fields(foreign) {
		full := strings.ToUpper(word)
		require.False(t, seen[full], full)
		seen[full] = true
		require.Equal(t, full, v.find(word).full)
	}
	for _, word := range []string{"DOMAIN.IMAGE", "PASSWORD", "TCPSERVERADDRESS", "DISKBUFFSIZE", "ENCRYPTKEY"} {
		require.True(t, seen[word])
		require.NotEmpty(t, hintOf(word))
	}
	require.Empty(t, hintOf("NODENAME"))
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
		file, err := parseFile("f", []byte(text), Table())
		if err != nil {
			require.ErrorContains(t, err, "f:")
		}
		lines, err := file.lines(stanza, "flag")
		if err != nil {
			return
		}
		for _, l := range lines {
			require.Equal(t, strings.ToUpper(l.Keyword), l.Keyword)
			require.True(t, strings.HasPrefix(l.Origin, "f:"))
			if value, err := l.value(); err == nil && l.Rest == "" {
				require.Empty(t, value)
			}
		}
	})
}
