package job

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func lostMachine(repository string) *Lost {
	return &Lost{
		Repository: repository, Home: "/home/ann", Exists: exists,
		Leads:  func(place string) bool { return place == "LABEL=Blue/r" },
		HasKey: func(place string) bool { return place == "/mnt/known" },
	}
}

func TestOptionFileOfALostMachine(t *testing.T) {
	const head = "* Written by 'tidemark setup --from'. 'tidemark options' prints what is in effect.\n"
	file := filepath.Join(t.TempDir(), "pw")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	logon := lostMachine("smb://me@nas/x")
	logon.Logon = "/new/pw"
	for name, c := range map[string]struct {
		lost             *Lost
		here, text, want string
	}{
		"no stanza": {
			lostMachine("/mnt/new disk"), "/mnt/old", "REPOSITORY /mnt/old\nPASSWORDFILE ~/pw\nMEMORY 96M\n",
			"REPOSITORY \"/mnt/new disk\"\n* other machine: PASSWORDFILE ~/pw\nMEMORY 96M\n",
		},
		"only the jobs of the repository": {
			lostMachine("/mnt/new"), "/mnt/b",
			"SERVERNAME a\n  REPOSITORY /mnt/a\n  KEYFILE /gone/a\nSERVERNAME B\n  REPOSITORY /mnt/b\n" +
				"SERVERNAME c\n  ROTATE /mnt/b\n  PASSWORDCOMMAND /gone/c\n",
			"SERVERNAME a\n  REPOSITORY /mnt/a\n  * other machine: KEYFILE /gone/a\n\nSERVERNAME B\n  REPOSITORY /mnt/new\n\n" +
				"SERVERNAME c\n  ROTATE /mnt/new\n  * other machine: PASSWORDCOMMAND /gone/c\n",
		},
		"a disk by its name": {
			lostMachine("/media/x/r"), "LABEL=Blue/r", "REPOSITORY LABEL=Blue/r\nROTATE LABEL=Red/r\n",
			"REPOSITORY LABEL=Blue/r\nROTATE LABEL=Red/r\n",
		},
		"a copy of the repository": {
			lostMachine("/media/x/r"), "LABEL=Red/r", "REPOSITORY LABEL=Red/r\n", "REPOSITORY /media/x/r\n",
		},
		"a repository by the environment": {
			lostMachine("/x"), "/other", "SERVERNAME a\n  MEMORY 96M\n", "SERVERNAME a\n  MEMORY 96M\nREPOSITORY /x\n",
		},
		"a repository to copy from": {
			lostMachine("/x"), "/other", "FROMREPOSITORY /z\n", "FROMREPOSITORY /z\nREPOSITORY /x\n",
		},
		"another repository": {lostMachine("/x"), "/other", "REPOSITORY /y\n", "REPOSITORY /y\n"},
		"a key that is here": {
			lostMachine("/x"), "/x", "PASSWORDFILE " + file + "\nREPOSITORY /x\n", "PASSWORDFILE " + file + "\nREPOSITORY /x\n",
		},
		"logon": {
			logon, "smb://me@nas/x", "REPOSITORY smb://me@nas/x\nSMBCREDENTIALS /gone/c\n",
			"REPOSITORY smb://me@nas/x\nSMBPASSWORDFILE /new/pw\n* other machine: SMBCREDENTIALS /gone/c\n",
		},
	} {
		text := options.Portable([]byte(c.text), func(place string) bool { return place == c.here })
		f, err := c.lost.OptionFile("/f", text)
		require.NoError(t, err, name)
		require.Equal(t, head+c.want, string(f.New), name)
		require.Nil(t, f.Content, name)
	}
}

func TestMoved(t *testing.T) {
	text := "SERVERNAME a\n SCHEDULE never\n DOMAIN /\n REPOSITORY /gone/a\n" +
		"SERVERNAME b\n SCHEDULE never\n DOMAIN /\n REPOSITORY /gone/b\n"
	env := func(string) (string, bool) { return "", false }
	jobs, _, err := LoadValid("/f", []byte(text), env, os.ReadFile)
	require.NoError(t, err)
	stored := options.Portable([]byte(text), func(place string) bool { return place == "/gone/b" })
	lost := lostMachine("/new/b")
	require.Equal(t, []string{"b: the place of its repository: tidemark job edit b --repo /new/b"},
		lost.Moved(stored, jobs))
	require.Equal(t, []string{"a job that backs up to /new/b"}, lost.Moved("", jobs))
	jobs[1].Repository = "/new/b"
	require.Empty(t, lost.Moved(stored, jobs))
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	text := "* fill in: NOTIFYWEBHOOK\nMAILPASSWORDFILE /gone/mail\n" +
		"SERVERNAME here\n SCHEDULE never\n DOMAIN " + dir + "\n REPOSITORY /mnt/new\n BEFORECOMMAND /bin/true\n" +
		"SERVERNAME other\n SCHEDULE never\n DOMAIN '/gone/a b'\n REPOSITORY /mnt/other\n AFTERCOMMAND /gone/thaw\n" +
		" * fill in: HEALTHCHECK\n" +
		"SERVERNAME known\n SCHEDULE never\n DOMAIN /\n REPOSITORY /mnt/known\n" +
		"SERVERNAME turns\n SCHEDULE never\n DOMAIN /\n REPOSITORY LABEL=Red/r\n ROTATE LABEL=Blue/r\n" +
		"SERVERNAME wrong\n SCHEDULE never\n DOMAIN /\n REPOSITORY /mnt/new\n JITTER often\n"
	env := func(string) (string, bool) { return "", false }
	jobs, invalid, err := LoadValid("/f", []byte(text), env, os.ReadFile)
	require.NoError(t, err)
	lost := lostMachine("/mnt/new")
	lost.Leads = func(string) bool { return false }
	require.Equal(t, []string{
		"job wrong cannot run: " + invalid[0].Err.Error(),
		"here: the file /gone/mail of MAILPASSWORDFILE",
		"other: a key of its repository: tidemark setup --from /mnt/other",
		"other: the source /gone/a b",
		"other: the file /gone/mail of MAILPASSWORDFILE",
		"other: the command /gone/thaw",
		"known: the file /gone/mail of MAILPASSWORDFILE",
		"turns@Red: a key of its repository: tidemark setup --from LABEL=Red/r",
		"turns: the file /gone/mail of MAILPASSWORDFILE",
		"turns@Blue: a key of its repository: tidemark setup --from LABEL=Blue/r",
		"line 1: the value of NOTIFYWEBHOOK, which is not stored since it may be secret",
		"line 13: the value of HEALTHCHECK, which is not stored since it may be secret",
	}, lost.Missing([]byte(text), jobs, invalid))

	require.Equal(t, "tidemark restore 1a2b --target / --server-name here", lost.Restore("1a2b", jobs))
	blue := lostMachine("/media/x/r")
	require.Equal(t, "tidemark restore 1a2b --target / --server-name turns --repo /media/x/r", blue.Restore("1a2b", jobs))
	lost.Repository = "/my disk"
	require.Equal(t, "tidemark restore 1a2b --target / --repo '/my disk'", lost.Restore("1a2b", jobs))
}
