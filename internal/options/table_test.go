package options

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/rules"
)

func TestTableIsConsistent(t *testing.T) {
	seen := make(map[string]string)
	claim := func(what, name string) {
		require.Empty(t, seen[what], "%s belongs to %s and %s", what, seen[what], name)
		seen[what] = name
	}
	for _, o := range Table() {
		claim("--"+o.Name, o.Name)
		if o.Short != "" {
			claim("-"+o.Short, o.Name)
		}
		if o.Env() != "" {
			claim(o.Env(), o.Name)
		}
		for _, word := range o.Keywords() {
			claim(strings.ToUpper(word), o.Name)
			require.False(t, rules.IsStatement(word), word)
		}
		require.NotEmpty(t, o.Group, o.Name)
		require.NotEmpty(t, o.Help, o.Name)
		require.False(t, strings.HasSuffix(o.Help, "."), o.Name)
		if o.Default != "" {
			value, err := o.parse(o.Default)
			require.NoError(t, err, o.Name)
			require.Equal(t, o.Default, o.format(value), "the default of %s as it is listed", o.Name)
		}
	}
	for _, name := range []string{"TIDEMARK_REPOSITORY", "TIDEMARK_PASSWORD", "TIDEMARK_PASSWORD_FILE", "TIDEMARK_OPTIONS",
		"TIDEMARK_PASSWORD_COMMAND", "TIDEMARK_KEY_FILE", "TIDEMARK_CACHE_DIR"} {
		require.Contains(t, seen, name)
	}
}

// Every keyword is found by its whole and its shortest form, in any case.
func TestKeywordsCanBeShortened(t *testing.T) {
	var own []string
	for _, o := range Table() {
		own = append(own, o.Keywords()...)
	}
	words := vocabularyOf(Table())
	for _, word := range own {
		short := strings.TrimRight(word, "abcdefghijklmnopqrstuvwxyz")
		for _, form := range []string{word, short, strings.ToLower(word), strings.ToLower(short)} {
			found := words.find(form)
			require.NotNil(t, found, form)
			require.Equal(t, strings.ToUpper(word), found.full, form)
		}
	}
}

// The table of the documented dial has one column for readers, compressors and uploads, and one for producers and
// scanners.
func TestDialAsDocumented(t *testing.T) {
	for value, r := range dialRows() {
		if value > 0 {
			w := WorkersFor(value, 64, Media{})
			consumers := max(r.consumers, 1)
			require.Equal(t, Workers{r.producers, consumers, consumers, consumers}, w)
		}
	}
}
