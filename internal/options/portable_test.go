package options

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func nowhere(string) bool { return false }

// TestNoSecretIsPortable writes a secret wherever an option file may have one: in comments, in values that are secrets,
// and by mistake beside or instead of any other value.
func TestNoSecretIsPortable(t *testing.T) {
	const secret = "hunter2"
	lines := []string{"* " + secret, "# PASSWORD " + secret, "PASSWORD " + secret, "ENCRYPTKEY " + secret,
		"nonsense " + secret, secret, "SERVERNAME home " + secret, "DEFAULTSERVER home " + secret,
		"EXCLUDE /a/*.o " + secret, "INCLUDE '/a b' " + secret, "DOMAIN /home " + secret, "EXCLUDE '" + secret,
		"REPOSITORY smb://me:" + secret + "@nas/x", "ROTATE smb://me:" + secret + "@nas/x",
		"HEALTHCHECK https://hc.example/" + secret, "MAILSERVER smtp://me:" + secret + "@host",
		"BEFORECOMMAND PASS=" + secret, `BEFORECOMMAND "/bin/dump -p` + secret + `"`, "POSTSCHEDULECMD " + secret,
		"AFTERCOMMAND /opt/hook;echo${IFS}" + secret, "SNAPSHOTCOMMAND /bin/a|" + secret,
		"FAILURECOMMAND /bin/a&&" + secret, "AFTERCOMMAND /bin/env<<<" + secret, "MAILSERVER me:" + secret + "@host:25",
		"METRICSLISTEN me:" + secret + "@host:25", "HEALTHCHECK /" + secret, "NOTIFYWEBHOOK /usr/" + secret}
	for _, o := range Table() {
		for _, keyword := range o.Keywords() {
			lines = append(lines, keyword+" /some/path "+secret, keyword+" yes "+secret, keyword+" 5 * "+secret)
			if o.Kind != List && !strings.HasPrefix(o.Name, "metrics-") && o.Group != GroupJob || o.Kind == Path {
				lines = append(lines, keyword+" "+secret, keyword+" 5"+secret, keyword+` "`+secret+` x"`)
			}
		}
	}
	kept := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "MAILFROM") || strings.HasPrefix(line, "MAILUSER") ||
			strings.HasPrefix(line, "MAILSERVER "+secret) || strings.HasPrefix(line, "MAILSERVER 5") ||
			strings.HasPrefix(line, `MAILSERVER "`) || strings.HasPrefix(line, "IGNOREFILE") {
			kept++ // free text that is no secret
			continue
		}
		require.NotContains(t, Portable([]byte(line+"\n"), nowhere), secret, "%q", line)
	}
	require.Less(t, kept, 40)
	require.Equal(t, "* fill in: HEALTHCHECK\n", Portable([]byte("healthcheck https://hc.example/"+secret), nowhere))
}

// TestPortableSaysTheSame compares what an option file says with what its portable text says.
func TestPortableSaysTheSame(t *testing.T) {
	content := "\ufeff* by ann\r\nRESOURCEUTIL 4\nQUIET\nDEFAULTSERVER nas\n" +
		"SERVERNAME home\n  SCHEDULE \"daily 02:30\"\n  DOMAIN /home '-/home/my tmp'\n  REPOSITORY LABEL=Blue/tidemark\n" +
		"  ROTATE 'UUID=5EFA-01C7/tide mark'\n  EXCLUDE /home/.../*.o\n  INCLUDE '/home/\"x\"/keep.o'\n" +
		"  EXCLUDEPATTERN \"it's\"\n  KEEPSNAPSHOTS 'last 3 daily 7'\n  BEFORECOMMAND /usr/local/bin/freeze\n" +
		"SERVERNAME nas\n\tREPOSITORY smb://me@nas:445/backup/a\n  SMBPASSWORDFILE ~/nas.pw\n  COMPRESSION yes\n" +
		"  IGNOREFILE \"\"\n  MAXIMPACT 5%\n  SHRINKLIMIT 20\n  CHECKPOINT 10m\n  DOMAIN ALL-LOCAL -/proc\n"
	portable := Portable([]byte(content), nowhere)
	require.NotContains(t, portable, "fill in")
	require.NotContains(t, portable, "ann")
	for _, server := range []string{"", "home", "nas"} {
		var said [2]string
		for i, text := range []string{content, portable} {
			require.Equal(t, "nas", specOf(t, text).Server())
			lines, err := ParseFile("/f", []byte(text), server)
			require.NoError(t, err)
			for _, l := range lines {
				said[i] += fmt.Sprintf("%s %q\n", l.Keyword, l.Values)
			}
		}
		require.Equal(t, said[0], said[1], server)
	}
	require.Equal(t, portable, Portable([]byte(portable), nowhere))
}

func specOf(t *testing.T, text string) *Spec {
	t.Helper()
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"TIDEMARK_OPTIONS": "/f", "HOME": "/home/ann"}[name]
		return value, ok
	}
	spec, _, err := Resolve(nil, env, func(path string) ([]byte, error) {
		if path == "/f" {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	})
	require.NoError(t, err)
	return spec
}

func TestLeftOut(t *testing.T) {
	text := Portable([]byte("NOTIFYWEBHOOK https://x/y\nSERVERNAME a\nHEALTHCHECK https://x/y\nSCHEDULE never\n"), nowhere)
	require.Equal(t, []FileLine{{Number: 1, Keyword: "NOTIFYWEBHOOK"}, {Number: 4, Keyword: "HEALTHCHECK"}},
		LeftOut(text), text)
}
