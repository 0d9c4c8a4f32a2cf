package job

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestOptionFileOfALostMachine(t *testing.T) {
	const head = "* Written by 'tidemark setup --from'. 'tidemark options' prints what is in effect.\n"
	here := filepath.Join(t.TempDir(), "pw")
	require.NoError(t, os.WriteFile(here, nil, 0o600))
	for name, c := range map[string]struct {
		lost       Lost
		text, want string
	}{
		"by hand": {
			Lost{Repository: "/mnt/new"}, "REPOSITORY /mnt/old\nPASSWORDFILE /gone/pw\n", "REPOSITORY /mnt/new\n",
		},
		"a job": {
			Lost{Job: "b", Repository: "/mnt/new"},
			"SERVERNAME a\n  REPOSITORY /mnt/a\n  KEYFILE /gone/a\nSERVERNAME B\n  REPOSITORY /mnt/b\n  KEYFILE /gone/b\n",
			"SERVERNAME a\n  REPOSITORY /mnt/a\nSERVERNAME B\n  REPOSITORY /mnt/new\n",
		},
		"one of a group": {
			Lost{Job: "a@Blue", Repository: "/media/x/r"},
			"SERVERNAME a\n  REPOSITORY LABEL=Blue/r\n  ROTATE LABEL=Red/r\n",
			"SERVERNAME a\n  REPOSITORY LABEL=Blue/r\n  ROTATE LABEL=Red/r\n",
		},
		"renamed since": {Lost{Job: "c", Repository: "/x"}, "SERVERNAME a\n  REPOSITORY /a\n",
			"SERVERNAME a\n  REPOSITORY /x\n"},
		"a key that is here": {Lost{Repository: "/x"}, "PASSWORDFILE " + here + "\nREPOSITORY /x\n",
			"PASSWORDFILE " + here + "\nREPOSITORY /x\n"},
		"logon": {
			Lost{Repository: "smb://me@nas/x", Logon: "/new/pw"}, "REPOSITORY smb://me@nas/x\nSMBCREDENTIALS /gone/c\n",
			"REPOSITORY smb://me@nas/x\nSMBPASSWORDFILE /new/pw\n",
		},
	} {
		c.lost.Exists = exists
		f, err := c.lost.OptionFile("/f", c.text)
		require.NoError(t, err, name)
		require.Equal(t, head+c.want, string(f.New), name)
		require.Nil(t, f.Content, name)
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	text := "* fill in: NOTIFYWEBHOOK\nMAILPASSWORDFILE /gone/mail\n" +
		"SERVERNAME here\n SCHEDULE never\n DOMAIN " + dir + "\n REPOSITORY /mnt/new\n BEFORECOMMAND /bin/true\n" +
		"SERVERNAME other\n SCHEDULE never\n DOMAIN '/gone/a b'\n REPOSITORY /mnt/other\n AFTERCOMMAND /gone/thaw\n" +
		" * fill in: HEALTHCHECK\n" +
		"SERVERNAME wrong\n SCHEDULE never\n DOMAIN /\n REPOSITORY /mnt/new\n INCLEXCL /gone/rules\n"
	env := func(string) (string, bool) { return "", false }
	jobs, invalid, err := LoadValid("/f", []byte(text), env, os.ReadFile)
	require.NoError(t, err)
	lost := &Lost{Job: "here", Repository: "/mnt/new", Exists: exists}
	require.Equal(t, []string{
		"job wrong cannot run: " + invalid[0].Err.Error(),
		"here: the file /gone/mail of MAILPASSWORDFILE",
		"other: a key of its repository: tidemark setup --from /mnt/other",
		"other: the source /gone/a b",
		"other: the file /gone/mail of MAILPASSWORDFILE",
		"other: the command /gone/thaw",
		"line 1: the value of NOTIFYWEBHOOK, which is not stored since it may be secret",
		"line 13: the value of HEALTHCHECK, which is not stored since it may be secret",
	}, lost.Missing([]byte(text), jobs, invalid))
	require.ErrorContains(t, invalid[0].Err, "/gone/rules")
	require.Equal(t, "tidemark restore latest --target / --host 'my mac' --server-name other", Restore(jobs[1], "my mac"))
}
