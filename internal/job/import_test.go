package job

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
)

const ibm = `SErvername  tsm1
   TCPServeraddress   tsm.example
   NODename           node1
   DOMAIN  /home /srv
   EXCLUDE /home/.../*.o
   EXCLUDE.DIR "/srv/tmp"
SERVERNAME two
   domain /etc
`

func TestImportOptions(t *testing.T) {
	found, err := ImportOptions("/dsm.sys", []byte(ibm), "", noFile)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "tsm1", found[0].Name)
	require.Equal(t, []string{"DOMAIN  /home /srv", "EXCLUDE /home/.../*.o", `EXCLUDE.DIR "/srv/tmp"`}, found[0].Lines)
	require.Equal(t, []string{"TCPSERVERADDRESS has no meaning here: name the place of the repository with REPOSITORY",
		"NODENAME has no meaning here"}, found[0].Notes)

	f, err := editor("* mine\n").Import(found, []options.FileLine{set("REPOSITORY", "/r")})
	require.NoError(t, err)
	jobs, err := opens(string(f.New))
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.Equal(t, []string{"/home", "/srv"}, jobs[0].Sources)
	require.Equal(t, "never", jobs[1].Schedule.String())
	require.Contains(t, found[1].Notes[0], "it has no schedule")
	_, err = editor("").Import(found, nil)
	require.ErrorIs(t, err, ErrIncomplete)

	read := func(path string) ([]byte, error) {
		if path == "/a/dsm.sys" {
			return []byte(ibm), nil
		}
		return nil, fs.ErrNotExist
	}
	found, err = ImportOptions("/a/dsm.opt", []byte("SERVERNAME two\nEXCLUDE /etc/x\n"), "etc", read)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "etc", found[0].Name)
	require.Equal(t, []string{"domain /etc", "EXCLUDE /etc/x"}, found[0].Lines)

	opt := func(text string) options.ReadFile {
		return func(path string) ([]byte, error) {
			require.Equal(t, "/a/dsm.opt", path)
			return []byte(text), nil
		}
	}
	for text, want := range map[string]int{"SERVERNAME two\nSUBDIR yes\n": 1, "SUBDIR yes\n": 0,
		"* mine\nSERVERNAME TSM1\nSUBDIR yes\n": 0} {
		found, err = ImportOptions("/a/dsm.sys", []byte(ibm), "", opt(text))
		require.NoError(t, err)
		require.Contains(t, found[want].Lines, "SUBDIR yes", text)
		require.NotContains(t, found[1-want].Lines, "SUBDIR yes", text)
	}
	found, err = ImportOptions("/a/dsm.sys", []byte(ibm), "", opt("SERVERNAME three\nSUBDIR no\n"))
	require.NoError(t, err)
	require.Contains(t, found[0].Notes, "/a/dsm.opt names the server three, and is not used")
	_, err = ImportOptions("/a/dsm.sys", []byte(ibm), "", opt("FROBNICATE 1\n"))
	require.ErrorContains(t, err, "/a/dsm.opt:1")

	_, err = ImportOptions("/x.opt", []byte("DOMAIN /a\n"), "", noFile)
	require.ErrorContains(t, err, "--name")
}

const skipPlist = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
	<key>AutoBackup</key><true/>
	<key>Destinations</key><array><dict><key>DestinationID</key><string>1</string></dict></array>
	<key>SkipPaths</key><array><string>/Users/ann/Downloads</string><string>/Users/ann/a&amp;b [1]</string>
		<string>~ann/x</string></array>
</dict></plist>`

const destinationPlist = `<plist version="1.0"><dict><key>Destinations</key><array>
	<dict><key>Kind</key><string>Local</string><key>MountPoint</key><string>/Volumes/TM</string>
		<key>Name</key><string>TM</string></dict>
	<dict><key>Kind</key><string>Network</string><key>Name</key><string>nas</string>
		<key>URL</key><string>smb://nas/tm</string></dict>
</array></dict></plist>`

func TestImportTimeMachine(t *testing.T) {
	found, err := ImportTimeMachine("mac", []byte(skipPlist), []byte(destinationPlist))
	require.NoError(t, err)
	require.Equal(t, []string{`EXCLUDEPATTERN "/Users/ann/Downloads"`, `EXCLUDEPATTERN "/Users/ann/a&b \[1]"`},
		found.Lines[3:])
	require.Equal(t, []string{"Time Machine backs up to TM at /Volumes/TM; the job uses --repo",
		"Time Machine backs up to nas at smb://nas/tm; the job uses --repo"}, found.Notes)
	f, err := editor("").Import([]*Imported{found}, []options.FileLine{set("REPOSITORY", "/r")})
	require.NoError(t, err)
	jobs, err := opens(string(f.New))
	require.NoError(t, err)
	require.Equal(t, []string{"/Applications", "/Library", "/Users"}, jobs[0].Sources)
	require.Equal(t, "hourly", jobs[0].Schedule.String())
	require.Contains(t, string(f.New), `EXCLUDEPATTERN "/Users/ann/a&b \[1]"`)
	for _, broken := range []string{"", "bplist00", "<plist>", "<plist></plist>"} {
		_, err := ImportTimeMachine("mac", []byte(broken), []byte(destinationPlist))
		require.ErrorContains(t, err, "settings of Time Machine", broken)
	}
}
