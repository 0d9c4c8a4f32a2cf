package options

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestANamedStanzaHasItsOwnRepository: a variable that a shell exports for other commands does not send the jobs of a
// file, or the stanza that a command names, to another repository. A flag does, and a variable gives one where the file
// has none.
func TestANamedStanzaHasItsOwnRepository(t *testing.T) {
	const with, without = "SERVERNAME home\nREPOSITORY /right\n", "SERVERNAME home\nMAXIMPACT 5\n"
	env := map[string]string{"TIDEMARK_REPOSITORY": "/variable", "TIDEMARK_OPTIONS": "/file"}
	for _, c := range []struct {
		file, want string
		args       []string
	}{
		{with, "/right", []string{"--option-file", "/file", "--server-name", "home"}},
		{with, "/right", []string{"--server-name", "home"}},
		{with, "/flag", []string{"--server-name", "home", "--repo", "/flag"}},
		{without, "/variable", []string{"--server-name", "home"}},
		{"REPOSITORY /right\n", "/variable", nil},
		{"REPOSITORY /right\n", "/right", []string{"--option-file", "/file"}},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		Register(flags, GroupRepository)
		require.NoError(t, flags.Parse(c.args))
		spec, _, err := Resolve(flags, func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			func(string) ([]byte, error) { return []byte(c.file), nil })
		require.NoError(t, err)
		require.Equal(t, c.want, spec.Repository().Location, "%q %q", c.file, c.args)
	}
}
