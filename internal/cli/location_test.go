package cli

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// at returns an app with a repository at a location.
func at(t *testing.T, args ...string) *app {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.Register(flags)
	require.NoError(t, flags.Parse(args))
	env := func(string) (string, bool) { return "", false }
	none := func(path string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	spec, _, err := options.Resolve(flags, env, none)
	require.NoError(t, err)
	a := &app{Process: Process{Env: env}, spec: spec}
	a.governor = a.newGovernor()
	return a
}

func TestLocations(t *testing.T) {
	dir := t.TempDir()
	for location, want := range map[string]string{
		dir:                               dir,
		"local:" + dir:                    dir,
		"local:" + dir + ":/x":            dir + ":/x",
		dir + ":/x":                       dir + ":/x",
		"file://" + dir:                   dir,
		"smb://me@NAS/share/a/b/":         "smb://me@NAS/share/a/b",
		"SMB://D;me@nas:1445/share":       "smb://D;me@nas:1445/share",
		"smb://me@nas/my%20share/my%20x":  "smb://me@nas/my%20share/my%20x",
		"smb://[fe80::1]:445/share/place": "smb://[fe80::1]/share/place",
		"s3://bucket/a//b/":               "s3://bucket/a/b",
		"S3://nas.example:7070/bucket":    "s3://nas.example:7070/bucket",
		"s3://localhost/bucket/x":         "s3://localhost/bucket/x",
	} {
		p, err := at(t, "--repo", location).location()
		require.NoError(t, err, location)
		require.Equal(t, want, p.String(), location)
		require.Equal(t, !filepath.IsAbs(want), p.OnServer(), location)
	}
	for location, want := range map[string]string{
		"smb://me:geheim@nas/share":    "--smb-password-file",
		"smb://D;me:ge%40heim@nas/s":   "--smb-password-file",
		"smb://me:12/geheim@nas/share": "--smb-password-file",
		"smb://me@x:12/geheim@nas/s":   "--smb-password-file",
		"smb://me%3Ageheim@nas/share":  "--smb-password-file",
		"smb://me%25geheim@nas/share":  "--smb-password-file",
		"smb://me%geheim@nas/share":    "write smb://",
		"smb://me/geheim@nas/share":    "--smb-password-file",
		"smb:me:geheim@nas/x":          "write it as smb://",
		"CIFS:me:geheim@nas/x":         "write it as smb://",
		"//me:geheim@nas/x":            "write it as smb://",
		`\\me:geheim@nas\x`:            "write it as smb://",
		"me:geheim@smb://nas/x":        "repository ...://...: this version",
		"smb://nas":                    "the name of the share is missing",
		"webdav://me:geheim@nas/x": "repository webdav://...: this version keeps repositories in folders, on SMB " +
			"shares",
		"s3://key:geheim@nas.example/bucket": "AWS_ACCESS_KEY_ID",
		"s3://nas.example":                   "the name of the bucket is missing",
		"s3://Bucket/geheim":                 "lower-case letters",
		"s3:geheim":                          "put ./ before",
		"rest:http://me:geheim@nas:8000/x":   "write it as sftp://user@host/path",
		"Rest:https://nas/geheim":            "write it as sftp://user@host/path",
		"rclone:geheim:x":                    "write a bucket as s3://host/bucket/path",
		"sftp://me:geheim@nas/x":             "leave out the password",
		"sftp:me@nas:/srv/b":                 "write it as 'sftp://me@nas/srv/b', or put ./ before",
		"me@nas.example:b":                   "write it as 'sftp://me@nas.example/~/b'",
		"nas:~/b c":                          "write it as 'sftp://nas/~/b c'",
		"sftp:me:geheim@nas:/x":              "put ./ before the name of a local folder",
		"smb://me@nas/share?p=geheim":        "write smb://",
		"smb://me@nas:geheim/share/x":        "write smb://",
		"smb://me@nas/share/geheim:x/y":      "choose another folder",
	} {
		_, err := at(t, "--repo", location).location()
		require.Equal(t, exitUsage, exitCode(err), location)
		require.ErrorContains(t, err, want)
		if want != "choose another folder" {
			require.NotContains(t, err.Error(), "geheim")
		}
	}
}

func TestAShareIsRemoteWhateverMediumSays(t *testing.T) {
	a := at(t, "--repo", "smb://me@nas/share", "--medium", "ssd")
	p, err := a.location()
	require.NoError(t, err)
	require.True(t, isRemote(p, device.NewFinder()))
	require.Equal(t, device.Remote, mediumOf(p, device.NewFinder(), "ssd"))
	require.Equal(t, device.Remote, a.targetMedium())
	a.uploads = 0
	require.Equal(t, 4, a.sessions())
	require.Equal(t, 7, at(t, "--repo", "smb://me@nas/share", "--uploads", "7").sessions())
	a.uploads = 2
	require.Equal(t, 2, a.sessions())

	folder, err := at(t, "--repo", t.TempDir()).location()
	require.NoError(t, err)
	require.False(t, folder.OnServer())
	require.Equal(t, device.SSD, mediumOf(folder, device.NewFinder(), "ssd"))
}
