package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// "~" is the home directory wherever a path is given: a shell leaves it alone in --repo=~/x and in a variable.
func TestHomeDirectory(t *testing.T) {
	for _, m := range []machine{
		{args: []string{"--repo=~/x"}}, {env: map[string]string{"TIDEMARK_REPOSITORY": "~/x"}}, file("REPOSITORY ~/x\n"),
	} {
		require.Equal(t, "/home/me/x", m.spec(t).Repository().Location)
	}
	require.Equal(t, "/home/me", machine{args: []string{"--repo=~"}}.spec(t).Repository().Location)
	for _, same := range []string{"~x", "./~", "a/~/b", "smb://me@nas/~/x"} {
		require.Equal(t, same, machine{args: []string{"--repo", same}}.spec(t).Repository().Location)
	}
	m := machine{env: map[string]string{"TIDEMARK_PASSWORD_FILE": "~/pass"}}
	require.Equal(t, "/home/me/pass", m.spec(t).Keys().PasswordFile)
}
