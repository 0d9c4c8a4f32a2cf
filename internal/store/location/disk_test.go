package location_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

func TestADiskIsPartOfALocation(t *testing.T) {
	mounted := func(by, name string) (string, bool) {
		return "/media/me/" + name, by == "LABEL" && name == "Blue" || by == "UUID" && name == "5EFA-01C7"
	}
	for text, folder := range map[string]string{
		"LABEL=Blue/backup":        "/media/me/Blue/backup",
		"LABEL=Blue//a/../b/":      "/media/me/Blue/b",
		"LABEL=Blue/../../etc":     "/media/me/Blue/etc",
		"UUID=5EFA-01C7/tide mark": "/media/me/5EFA-01C7/tide mark",
	} {
		at, err := location.Parse(text)
		require.NoError(t, err, text)
		require.False(t, at.OnServer(), text)
		found, err := at.Find(mounted)
		require.NoError(t, err, text)
		require.Equal(t, folder, found.Folder)
		require.Equal(t, at.String(), found.String(), "the name changes with the place")
		again, err := found.Find(mounted)
		require.NoError(t, err)
		require.Equal(t, found, again)
	}
	at, err := location.Parse("LABEL=Red/backup")
	require.NoError(t, err)
	_, err = at.Find(mounted)
	require.ErrorIs(t, err, location.ErrAway)
	require.ErrorContains(t, err, "LABEL=Red/backup")
	for _, text := range []string{"LABEL=/x", "LABEL=Blue", "LABEL=Blue/", "UUID=Blue/x", "UUID=-a/x", "LABEL=../x"} {
		_, err := location.Parse(text)
		require.Error(t, err, text)
	}
	plain, err := location.Parse("label=x/y")
	require.NoError(t, err)
	require.Zero(t, plain.Disk, "only capitals name a disk, as in fstab")
}

func TestOnlyABucketHasAPast(t *testing.T) {
	for _, text := range []string{t.TempDir(), "smb://me@nas/backup", "sftp://nas/backup"} {
		at, err := location.Parse(text)
		require.NoError(t, err)
		_, err = at.Open(t.Context(), location.Access{Before: time.Now()})
		require.ErrorContains(t, err, "only a bucket with versions")
		require.ErrorIs(t, err, store.ErrDenied)
	}
}
