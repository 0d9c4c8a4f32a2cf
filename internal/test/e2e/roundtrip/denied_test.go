package roundtrip

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestWithoutPermission backs up what this user may see only in part: each object that cannot be read is a failure and
// is kept without content; everything else is kept as ever.
func TestWithoutPermission(t *testing.T) {
	if kit.AsNobody(t) {
		return
	}
	testkit.NoLeaks(t)
	src := filepath.Join(testkit.TempDir(t), "src")
	testkit.Write(t, src, testkit.Dir{
		"good": testkit.File{Data: []byte("good")},
		"closed": testkit.With{Of: testkit.File{Data: []byte("x")}, Mode: testkit.ModeNone,
			Xattrs: map[string]string{"user.a": "b"}},
		"big closed": testkit.File{Data: testkit.Noise(1, 400_000), Mode: 0o200},
		"dir":        testkit.With{Of: testkit.Dir{"hidden": testkit.File{Data: []byte("x")}}, Mode: testkit.ModeNone},
		"no search":  testkit.With{Of: testkit.Dir{"known by name": testkit.File{Data: []byte("x")}}, Mode: 0o400},
		"no list":    testkit.With{Of: testkit.Dir{"there": testkit.File{Data: []byte("x")}}, Mode: 0o100},
		"fine":       testkit.Dir{"f": testkit.File{Data: []byte("fine")}},
	})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	for run := range 2 { // what failed is tried again, and fails again
		made, totals, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		require.True(t, made.Failed)
		require.False(t, made.ID.IsZero(), "there is a snapshot")
		require.Len(t, e.Failures(), 5, "%q", e.Failures())
		require.EqualValues(t, 5, totals.Objects.Failed)
		want := report.ComparedOf[uint64]{New: 2}
		if run > 0 {
			want = report.ComparedOf[uint64]{Unmodified: 2}
		}
		require.Equal(t, want, totals.Files, "a file that failed counts once")
		got := e.Objects(made.Snapshot.Tree, src)
		for name, mode := range map[string]uint32{"closed": 0, "big closed": 0o200, "dir": 0, "no list": 0o100} {
			require.Equal(t, tree.Unreadable, got[name].Outcome, name)
			require.Equal(t, mode, got[name].Mode, name)
			require.EqualValues(t, os.Geteuid(), got[name].UID, name)
			require.Empty(t, got[name].Content, name)
		}
		require.Equal(t, uint64(400_000), got["big closed"].Size, "the metadata is kept")
		require.Equal(t, tree.Unreadable, got["no search"].Outcome, "its entries could not be looked at")
		require.Equal(t, "good", got["good"].Data)
		require.Equal(t, "fine", got["fine/f"].Data)
		require.Equal(t, tree.Static, got["fine"].Outcome)
	}
	e.RequireSound()

	dst := filepath.Join(testkit.TempDir(t), "out")
	_, err := e.Restore(src, kit.Target(dst))
	require.NoError(t, err)
	require.Len(t, e.Failures(), 5, "what has no content is reported: %q", e.Failures())
	require.NoFileExists(t, filepath.Join(dst, "closed"), "no empty file in place of one that could not be read")
	require.FileExists(t, filepath.Join(dst, "good"))
	require.DirExists(t, filepath.Join(dst, "dir"))

	require.NoError(t, os.Chmod(filepath.Join(src, "closed"), 0o600))
	for _, dir := range []string{"dir", "no search", "no list"} {
		require.NoError(t, os.Chmod(filepath.Join(src, dir), 0o700))
	}
	require.NoError(t, os.Chmod(filepath.Join(src, "big closed"), 0o600))
	kit.Settle()
	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	e.RequireRestored(src)
}

// TestSourceBelowADirectoryThatCannotBeListed: to reach a source, the directories above need to let us through, no
// more.
func TestSourceBelowADirectoryThatCannotBeListed(t *testing.T) {
	if kit.AsNobody(t) {
		return
	}
	dir := testkit.TempDir(t)
	kit.Written(t, dir, map[string]string{"home/mine/f": "mine", "home/hidden": "x"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "home"), 0o300))
	kit.Settle()
	src := filepath.Join(dir, "home/mine")
	e := kit.NewEngine(t, nil)
	made, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	got := e.Objects(made.Snapshot.Tree, dir)
	require.Equal(t, "mine", got["home/mine/f"].Data)
	require.Equal(t, uint32(0o300), got["home"].Mode)
	require.NotContains(t, got, "home/hidden")
}

// TestFileOfAnotherUser backs up, as the user nobody, a file that belongs to root.
func TestFileOfAnotherUser(t *testing.T) {
	const place = "TIDEMARK_ENGINE_TEST_PLACE"
	dir := os.Getenv(place)
	if os.Geteuid() == 0 {
		dir = testkit.RamDir(t)
		kit.Written(t, dir, map[string]string{"src/open": "open", "src/secret": kit.Secret})
		require.NoError(t, os.Chmod(filepath.Join(dir, "src/secret"), 0o600))
		t.Setenv(place, dir)
		require.True(t, kit.AsNobody(t))
		return
	}
	if dir == "" {
		t.Skip("needs root, to make a file of another user")
	}
	e := kit.NewEngine(t, nil)
	src := filepath.Join(dir, "src")
	made, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Len(t, e.Failures(), 1)
	got := e.Objects(made.Snapshot.Tree, src)
	require.Equal(t, "open", got["open"].Data)
	require.Equal(t, tree.Unreadable, got["secret"].Outcome)
	require.Zero(t, got["secret"].UID)
	kit.RequireNoSecret(t, got)
}
