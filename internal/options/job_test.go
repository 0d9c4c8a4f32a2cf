package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheStanzaInEffectIsKnown(t *testing.T) {
	const two = "SERVERNAME Mail\nSCHEDULE daily\nSERVERNAME disk\nSCHEDULE weekly\n"
	for name, c := range map[string]struct {
		text, want string
		args       []string
	}{
		"no stanza":  {"SCHEDULE daily\n", "", nil},
		"the first":  {two, "Mail", nil},
		"by default": {"DEFAULTSERVER disk\n" + two, "disk", nil},
		"by a flag":  {"DEFAULTSERVER disk\n" + two, "Mail", []string{"--server-name", "mail"}},
	} {
		m := file(c.text)
		m.args = c.args
		require.Equal(t, c.want, m.spec(t).Server(), name)
	}
	require.Empty(t, machine{}.spec(t).Server(), "no file")
}

func TestTheFileOfAnOptionIsKnown(t *testing.T) {
	m := machine{args: []string{"--option-file", "/etc/a:b/dsm.opt"}, files: map[string]string{
		"/etc/a:b/dsm.opt": "SERVERNAME two\nAFTERCOMMAND x\n",
		"/etc/a:b/dsm.sys": "SERVERNAME two\nBEFORECOMMAND y\nREADERS 3\n",
	}}
	m.env = map[string]string{"TIDEMARK_READERS": "4"}
	spec := m.spec(t)
	require.Equal(t, "two", spec.Server())
	require.Equal(t, "/etc/a:b/dsm.opt", spec.FileOf("after-command"))
	require.Equal(t, "/etc/a:b/dsm.sys", spec.FileOf("before-command"))
	require.Empty(t, spec.FileOf("failure-command"))
	require.Empty(t, spec.FileOf("hook-timeout"), "the default")
	require.Empty(t, spec.FileOf("readers"), "the environment")
}

// What IBM's client runs around a scheduled backup runs around each backup here. A command that it does not wait for is
// started first, and neither replaces the other.
func TestCommandsOfTheSchedulerAreHooks(t *testing.T) {
	m := machine{args: []string{"--option-file", "/etc/dsm.opt"}, files: map[string]string{
		"/etc/dsm.opt": "SERVERNAME two\nPOSTNSCHED \"mail x\"\n",
		"/etc/dsm.sys": "SERVERNAME two\nPRESchedulecmd '/bin/dump -a'\nPRENSchedulecmd /bin/note\nPOSTSCHEDULECMD x\n",
	}}
	hooks := m.spec(t).Job().Hooks
	require.Equal(t, "(\n/bin/note\n) >/dev/null 2>&1 &\n/bin/dump -a", hooks.Before)
	require.Equal(t, "(\nmail x\n) >/dev/null 2>&1 &\nx", hooks.After)
	require.Equal(t, []string{"/etc/dsm.sys", "/etc/dsm.sys"}, hooks.BeforeFiles)
	require.Equal(t, []string{"/etc/dsm.sys", "/etc/dsm.opt"}, hooks.AfterFiles)
	none := file("PRESCHEDULECMD \"\"\n").spec(t).Job().Hooks
	require.Empty(t, none.Before+none.After, "an empty command is none")
	only := file("PRENSCHEDULECMD x\n").spec(t).Job().Hooks
	require.Equal(t, "(\nx\n) >/dev/null 2>&1 &\n", only.Before)
}
