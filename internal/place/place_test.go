package place_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// at returns the place that flags name. Its I/O never waits.
func at(t *testing.T, args ...string) *place.Place {
	t.Helper()
	note := func(text string) { t.Log(text) }
	runtime := t.TempDir()
	env := func(name string) (string, bool) { return runtime, name == "XDG_RUNTIME_DIR" }
	p := place.New(place.Config{Env: env, Devices: device.NewFinder(), Note: note, Warn: note, Show: note})
	spec := specified(t, args...)
	g := governor.New(governor.Config{Policy: iopolicy.Important, Open: p.OpenGates, Note: note})
	g.Brief(true)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	p.Use(spec, g)
	return p
}

// specified returns the options of flags.
func specified(t *testing.T, args ...string) *options.Spec {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.Register(flags)
	require.NoError(t, flags.Parse(args))
	none := func(path string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	spec, _, err := options.Resolve(flags, func(string) (string, bool) { return "", false }, none)
	require.NoError(t, err)
	return spec
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
		p, err := at(t, "--repo", location).Location()
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
		_, err := at(t, "--repo", location).Location()
		var name *place.NameError
		require.ErrorAs(t, err, &name, location)
		require.ErrorContains(t, err, want)
		if want != "choose another folder" {
			require.NotContains(t, err.Error(), "geheim")
		}
	}
}

func TestAShareIsRemoteWhateverMediumSays(t *testing.T) {
	p := at(t, "--repo", "smb://me@nas/share", "--medium", "ssd")
	require.True(t, p.Remote())
	require.Equal(t, device.Remote, p.Medium())
	folder := at(t, "--repo", t.TempDir(), "--medium", "ssd")
	require.False(t, folder.Remote())
	require.Equal(t, device.SSD, folder.Medium())
	require.Equal(t, device.Unknown, at(t, "--repo", "smb://nas").Medium(), "no location")
}

// A server gets as many connections as a backup has uploads, and all of them pass its gate.
func TestConnectionsToAServer(t *testing.T) {
	p := at(t, "--repo", "smb://me@nas/share", "--no-cache")
	share := func(p *place.Place) smb.Options { return p.Access(location.Location{}).Share(smb.Target{Host: "nas"}) }
	require.Equal(t, 4, share(p).Parallel.Sessions)
	require.NotNil(t, share(p).Pass)
	require.Equal(t, 7, share(at(t, "--repo", "smb://me@nas/share", "--uploads", "7", "--no-cache")).Parallel.Sessions)
	p.Uploads = 2
	require.Equal(t, 2, share(p).Parallel.Sessions)
	require.Nil(t, at(t, "--no-cache").Logon(), "no share was used")
	require.NotNil(t, p.Logon())
}

// A copy reads from a second repository within the limits of the first.
func TestAPlaceBesideAnother(t *testing.T) {
	p := at(t, "--repo", t.TempDir(), "--limit-upload", "1000000", "--no-cache")
	folder := t.TempDir()
	other := p.Beside(specified(t, "--repo", folder, "--no-cache"))
	named, err := other.Location()
	require.NoError(t, err)
	require.Equal(t, folder, named.Folder)
	first, err := p.Location()
	require.NoError(t, err)
	require.NotNil(t, p.Access(first).Limit)
	require.Same(t, p.Access(first).Limit, other.Access(named).Limit)
	p.Close()
}

// Where this machine has used a repository that is gone, the error says since when.
func TestARepositoryThatIsGone(t *testing.T) {
	dir := t.TempDir()
	folder, cache := filepath.Join(dir, "repo"), filepath.Join(dir, "cache")
	p := at(t, "--repo", folder, "--cache-dir", cache, "--password-file", filepath.Join(dir, "password"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("p"), 0o600))
	_, err := p.Open(t.Context())
	require.ErrorIs(t, err, repo.ErrNoRepository)
	sources := p.Secrets()
	secrets, err := sources.Create(t.Context(), false)
	require.NoError(t, err)
	r, _, err := p.Create(t.Context(), sources, repo.InitOptions{Secrets: secrets.Secrets,
		Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}})
	require.NoError(t, err)
	id := r.ID()
	require.NoError(t, r.Close())
	r, err = p.Open(t.Context())
	require.NoError(t, err)
	require.Equal(t, id, r.ID())
	require.NoError(t, r.Close())
	p.Close()
	require.NoError(t, os.Rename(folder, folder+"2"))
	_, err = p.Open(t.Context())
	require.ErrorIs(t, err, place.ErrGone)
}

func TestARepositoryInMemory(t *testing.T) {
	p := at(t, "--repo", t.TempDir())
	r, err := p.InMemory(t.Context(), repo.InitOptions{Recovery: true})
	require.NoError(t, err)
	require.Empty(t, r.CacheFolder())
	require.NoError(t, r.Close())
}
