package view_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

type noBlobs struct{}

func (noBlobs) LoadBlob(context.Context, format.ID) ([]byte, error) {
	return nil, errors.New("there are no blobs")
}

// listing is what a repository lists, and how often it was asked.
type listing struct {
	snapshots []repo.Listed
	err       error
	asked     int
	now       time.Time
}

func (l *listing) list(context.Context) ([]repo.Listed, error) {
	l.asked++
	return l.snapshots, l.err
}

func (l *listing) add(host string, second int, partial bool, tags ...string) {
	l.snapshots = append(l.snapshots, repo.Listed{ID: format.ID{byte(len(l.snapshots) + 1)},
		Snapshot: &snapshot.Snapshot{Host: host, Tags: tags, Partial: partial,
			Time: tree.TimeOf(time.Date(2026, 11, 28, 5, 49, second, 0, time.Local))}})
}

func names(t *testing.T, root view.Entry, path ...string) (found []string) {
	t.Helper()
	require.NoError(t, at(t, root, path...).Folder.List(t.Context(), 0, func(e view.Entry) bool {
		name := e.Node.Name
		if e.Node.Target != "" {
			name += " -> " + e.Node.Target
		}
		found = append(found, name)
		return true
	}))
	return found
}

func at(t *testing.T, e view.Entry, path ...string) view.Entry {
	t.Helper()
	for _, name := range path {
		below, err := e.Folder.Find(t.Context(), name)
		require.NoError(t, err, name)
		e = below
	}
	return e
}

func TestNamesOfSnapshots(t *testing.T) {
	l := &listing{now: time.Unix(1e9, 0)}
	l.add("mac", 1, false)
	l.add("a/b", 2, false, "..", "week")
	l.add("mac", 2, false)
	l.add("new", 3, true)
	root := view.NewRepository(noBlobs{}.LoadBlob, l.list, func() time.Time { return l.now }).Root()
	require.Equal(t, []string{"hosts", "latest -> snapshots/2026-11-28_05-49-02_03000000", "snapshots", "tags"},
		names(t, root))
	require.Equal(t, []string{"2026-11-28_05-49-01", "2026-11-28_05-49-02", "2026-11-28_05-49-02_03000000",
		"2026-11-28_05-49-03"}, names(t, root, "snapshots"))
	require.Equal(t, []string{"a_b", "mac", "new"}, names(t, root, "hosts"))
	require.Equal(t, []string{"2026-11-28_05-49-03 -> ../../snapshots/2026-11-28_05-49-03",
		"latest -> ../../snapshots/2026-11-28_05-49-03"}, names(t, root, "hosts", "new"), "there is only a partial one")
	require.Equal(t, []string{"_", "week"}, names(t, root, "tags"))
}

// TestListingIsAskedForWhenSomethingLooks: at most once in view.Fresh, and not at all while nothing looks.
func TestListingIsAskedForWhenSomethingLooks(t *testing.T) {
	l := &listing{now: time.Unix(1e9, 0)}
	l.add("mac", 1, false)
	l.add("mac", 2, false)
	root := view.NewRepository(noBlobs{}.LoadBlob, l.list, func() time.Time { return l.now }).Root()
	require.Zero(t, l.asked)
	first := at(t, root, "snapshots", "2026-11-28_05-49-01")
	at(t, root, "hosts", "mac")
	require.Equal(t, 1, l.asked)
	l.snapshots = l.snapshots[1:]
	l.add("mac", 3, false)
	require.Len(t, names(t, root, "snapshots"), 2)
	require.Equal(t, 1, l.asked, "the listing is fresh")

	l.now = l.now.Add(view.Fresh + time.Second)
	require.Equal(t, []string{"2026-11-28_05-49-02", "2026-11-28_05-49-03"}, names(t, root, "snapshots"))
	require.Equal(t, 2, l.asked)
	_, err := at(t, root, "snapshots").Folder.Find(t.Context(), first.Node.Name)
	require.ErrorIs(t, err, view.ErrAbsent)
	_, err = at(t, root, "snapshots").Folder.Entry(t.Context(), first.Number)
	require.ErrorIs(t, err, view.ErrAbsent)

	l.now, l.err = l.now.Add(time.Hour), errors.New("the target is away")
	kept := at(t, root, "snapshots", "2026-11-28_05-49-02")
	require.Equal(t, 3, l.asked)
	require.NotEqual(t, first.Number, kept.Number)

	l.now, l.err = l.now.Add(time.Hour), nil
	l.add("mac", 1, false) // of other content, but its name was in use
	l.snapshots[2].ID = first.Node.Subtree
	again := at(t, root, "snapshots", first.Node.Name)
	require.Equal(t, first.Number, again.Number)
	require.NotEqual(t, first.Inode, again.Inode)
}

// TestALinkThatMovesIsAnotherObject: a caller may keep the target of a number, as the kernel does.
func TestALinkThatMovesIsAnotherObject(t *testing.T) {
	l := &listing{now: time.Unix(1e9, 0)}
	l.add("mac", 1, false)
	root := view.NewRepository(noBlobs{}.LoadBlob, l.list, func() time.Time { return l.now }).Root()
	first := at(t, root, "latest")
	l.now = l.now.Add(time.Hour)
	same := at(t, root, "latest")
	require.Equal(t, []uint64{first.Number, first.Inode}, []uint64{same.Number, same.Inode})
	l.add("mac", 2, false)
	l.now = l.now.Add(time.Hour)
	second := at(t, root, "latest")
	require.NotEqual(t, first.Node.Target, second.Node.Target)
	require.NotEqual(t, first.Number, second.Number)
	require.NotEqual(t, first.Inode, second.Inode)
	old, err := root.Folder.Entry(t.Context(), first.Number)
	require.NoError(t, err, "a program may be about to read it")
	require.Equal(t, first.Node.Target, old.Node.Target)
	require.Equal(t, []string{"hosts", "snapshots", "tags", "latest -> " + second.Node.Target}, names(t, root))
	l.snapshots = nil
	l.now = l.now.Add(time.Hour)
	require.Equal(t, []string{"hosts", "snapshots", "tags"}, names(t, root))
	_, err = root.Folder.Find(t.Context(), "latest")
	require.ErrorIs(t, err, view.ErrAbsent)
}

func TestFirstListingFails(t *testing.T) {
	l := &listing{now: time.Unix(1e9, 0), err: errors.New("the target is away")}
	root := view.NewRepository(noBlobs{}.LoadBlob, l.list, func() time.Time { return l.now }).Root()
	_, err := root.Folder.Find(t.Context(), "latest")
	require.ErrorIs(t, err, l.err)
	l.err = nil
	require.Equal(t, []string{"hosts", "snapshots", "tags"}, names(t, root))
}

// counting delivers blobs that hold their own ID, and counts.
type counting struct{ loaded map[format.ID]int }

func (c *counting) LoadBlob(_ context.Context, id format.ID) ([]byte, error) {
	c.loaded[id]++
	if id.IsZero() {
		return nil, errors.New("it is damaged")
	}
	return id[:], nil
}

func TestRecentBlobsAreLoadedOnce(t *testing.T) {
	from := &counting{map[format.ID]int{}}
	load := view.Recent(from.LoadBlob)
	read := func(n byte) {
		blob, err := load(t.Context(), format.ID{n})
		require.NoError(t, err)
		require.Equal(t, n, blob[0])
	}
	for range 3 {
		for n := byte(1); n <= 8; n++ {
			read(n)
		}
	}
	require.Equal(t, 1, from.loaded[format.ID{1}])
	read(9)
	read(2)
	require.Equal(t, 1, from.loaded[format.ID{2}])
	read(1)
	require.Equal(t, 2, from.loaded[format.ID{1}], "the oldest is replaced")
	for range 2 {
		_, err := load(t.Context(), format.ID{})
		require.Error(t, err)
	}
	require.Equal(t, 2, from.loaded[format.ID{}], "an error is not kept")
}
