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

// Systemd gives a service its secrets in a folder of its own. Elsewhere, the path stays as it is, and opening it fails.
func TestCredentialsOfSystemd(t *testing.T) {
	m := file("PASSWORDFILE $CREDENTIALS_DIRECTORY/repo\n")
	path := m.spec(t).Keys().PasswordFile
	require.Equal(t, "$CREDENTIALS_DIRECTORY/repo", path)
	name, ok := Credential(path)
	require.True(t, ok)
	require.Equal(t, "repo", name)
	m.env = map[string]string{"CREDENTIALS_DIRECTORY": "/run/credentials/tidemark.service"}
	require.Equal(t, "/run/credentials/tidemark.service/repo", m.spec(t).Keys().PasswordFile)
	_, ok = Credential("/etc/repo")
	require.False(t, ok)
}
