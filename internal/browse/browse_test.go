package browse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func sample() dir {
	return dir{
		"home": dir{
			"ann": dir{
				"notes.txt": stored.Noise(1, 3000),
				"Photo.JPG": stored.Noise(2, 5000),
				"empty":     []byte{},
				"to notes":  &tree.Node{Type: tree.Symlink, Links: 1, Target: "notes.txt"},
			},
			"bob": dir{"notes.txt": stored.Noise(3, 200)},
		},
		"big": stored.Noise(4, 40*stored.ChunkSize),
	}
}

func paths(into *[]string) browse.Visit {
	return func(path string, _ *tree.Node) error {
		*into = append(*into, path)
		return nil
	}
}

func TestList(t *testing.T) {
	r := initialise(t)
	root := save(t, r, sample())
	for _, c := range []struct {
		sub       string
		recursive bool
		want      []string
	}{
		{"", false, []string{"/big", "/home"}},
		{"/", false, []string{"/big", "/home"}},
		{"home", false, []string{"/home/ann", "/home/bob"}},
		{"/home/bob/", true, []string{"/home/bob/notes.txt"}},
		{"/home/ann/empty", true, []string{"/home/ann/empty"}},
		{"/home", true, []string{"/home/ann", "/home/ann/Photo.JPG", "/home/ann/empty", "/home/ann/notes.txt",
			"/home/ann/to notes", "/home/bob", "/home/bob/notes.txt"}},
	} {
		var got []string
		require.NoError(t, browse.List(t.Context(), r.LoadBlob, root, c.sub, c.recursive, paths(&got)))
		require.Equal(t, c.want, got, c.sub)
	}
}

func TestListEndsWhenStopped(t *testing.T) {
	r := initialise(t)
	root := save(t, r, sample())
	var got []string
	err := browse.List(t.Context(), r.LoadBlob, root, "/", true, func(path string, n *tree.Node) error {
		got = append(got, path)
		if path == "/home/ann" {
			return fs.SkipDir
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"/big", "/home", "/home/ann", "/home/bob", "/home/bob/notes.txt"}, got)

	enough := errors.New("enough")
	err = browse.List(t.Context(), r.LoadBlob, root, "/", true, func(string, *tree.Node) error { return enough })
	require.Equal(t, enough, err, "it comes back as it is")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, browse.List(ctx, r.LoadBlob, root, "/", true, paths(&got)), context.Canceled)
}

func TestResolve(t *testing.T) {
	r := initialise(t)
	root := save(t, r, sample())
	n, err := browse.Resolve(t.Context(), r.LoadBlob, root, "home/ann/../bob/notes.txt")
	require.NoError(t, err)
	require.EqualValues(t, 200, n.Size)
	_, err = browse.Resolve(t.Context(), r.LoadBlob, root, "/home/carl/x")
	require.ErrorIs(t, err, browse.ErrNotFound)
	require.ErrorContains(t, err, "/home/carl")
	_, err = browse.Resolve(t.Context(), r.LoadBlob, root, "/big/x")
	require.ErrorIs(t, err, browse.ErrNotDir)
	_, err = browse.Resolve(t.Context(), r.LoadBlob, format.ID{1}, "/big")
	require.ErrorIs(t, err, store.ErrNotExist)
}

func TestLargeDirectory(t *testing.T) {
	r := initialise(t)
	d := dir{}
	for i := range 3000 {
		d[fmt.Sprintf("name-%05d", i)] = stored.Noise(uint64(i), 40)
	}
	root := save(t, r, d)
	var got []string
	require.NoError(t, browse.List(t.Context(), r.LoadBlob, root, "", true, paths(&got)))
	require.Len(t, got, 3000)
	n, err := browse.Resolve(t.Context(), r.LoadBlob, root, "/name-02999")
	require.NoError(t, err)
	require.Equal(t, stored.Noise(2999, 40), n.Content.Inline)
}

func listed(id, root format.ID, sources ...string) repo.Listed {
	return repo.Listed{ID: id, Snapshot: &snapshot.Snapshot{Tree: root, Sources: sources}}
}

func find(t *testing.T, load tree.Load, in []repo.Listed, q browse.Query) (got []string) {
	t.Helper()
	require.NoError(t, browse.Find(t.Context(), load, in, q, func(m browse.Match) error {
		got = append(got, m.Snapshot.ID.Short()[:2]+m.Path)
		return nil
	}))
	return got
}

func TestFind(t *testing.T) {
	r := initialise(t)
	d := sample()
	old := listed(format.ID{0xaa}, save(t, r, d))
	d["home"].(dir)["bob"].(dir)["late"] = &tree.Node{Type: tree.File, Links: 1, ModTime: tree.Time{Sec: 1000}}
	new := listed(format.ID{0xbb}, save(t, r, d))
	both := []repo.Listed{old, new}
	for _, c := range []struct {
		name string
		q    browse.Query
		want []string
	}{
		{"name", browse.Query{Patterns: []string{"notes.txt"}}, []string{"aa/home/ann/notes.txt", "aa/home/bob/notes.txt",
			"bb/home/ann/notes.txt", "bb/home/bob/notes.txt"}},
		{"glob", browse.Query{Patterns: []string{"*.jpg"}}, nil},
		{"ignoring case", browse.Query{Patterns: []string{"*.jpg"}, IgnoreCase: true},
			[]string{"aa/home/ann/Photo.JPG", "bb/home/ann/Photo.JPG"}},
		{"end of the path", browse.Query{Patterns: []string{"bob/n*"}},
			[]string{"aa/home/bob/notes.txt", "bb/home/bob/notes.txt"}},
		{"whole path", browse.Query{Patterns: []string{"/home/*"}},
			[]string{"aa/home/ann", "aa/home/bob", "bb/home/ann", "bb/home/bob"}},
		{"any depth", browse.Query{Patterns: []string{"/**/late"}}, []string{"bb/home/bob/late"}},
		{"newer", browse.Query{Newer: &tree.Time{Sec: 1000}}, []string{"bb/home/bob/late"}},
		{"older", browse.Query{Older: &tree.Time{Sec: 999}, Patterns: []string{"late", "big"}}, []string{"aa/big", "bb/big"}},
	} {
		require.Equal(t, c.want, find(t, r.LoadBlob, both, c.q), c.name)
	}
	err := browse.Find(t.Context(), r.LoadBlob, both, browse.Query{Patterns: []string{"[x"}}, nil)
	require.ErrorIs(t, err, browse.ErrPattern)
}

func TestFindWhatUsesABlob(t *testing.T) {
	r := initialise(t)
	root := save(t, r, sample())
	n, err := browse.Resolve(t.Context(), r.LoadBlob, root, "/home/ann/Photo.JPG")
	require.NoError(t, err)
	big, err := browse.Resolve(t.Context(), r.LoadBlob, root, "/big")
	require.NoError(t, err)
	bob, err := browse.Resolve(t.Context(), r.LoadBlob, root, "/home/bob")
	require.NoError(t, err)
	in := []repo.Listed{listed(format.ID{0xaa}, root)}
	for id, want := range map[format.ID]string{
		n.Content.Chunks[1].ID: "aa/home/ann/Photo.JPG", big.Content.List: "aa/big", bob.Subtree: "aa/home/bob", root: "aa/",
	} {
		require.Equal(t, []string{want}, find(t, r.LoadBlob, in, browse.Query{IDs: []format.ID{id}}))
	}
	require.Empty(t, find(t, r.LoadBlob, in, browse.Query{IDs: []format.ID{{1}}}))
}

// counting counts which blobs are loaded.
type counting struct {
	*repo.Repository
	loaded map[format.ID]int
}

func (c counting) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	c.loaded[id]++
	return c.Repository.LoadBlob(ctx, id)
}

func TestDiff(t *testing.T) {
	r := initialise(t)
	a, b := sample(), sample()
	ann := b["home"].(dir)["ann"].(dir)
	ann["notes.txt"] = stored.Noise(7, 3000) // other content, same size and times
	ann["Photo.JPG"] = dir{"inside": stored.Noise(8, 300)}
	delete(ann, "empty")
	ann["to notes"] = &tree.Node{Type: tree.Symlink, Links: 1, Target: "elsewhere"}
	b["big"] = stored.Noise(4, 41*stored.ChunkSize)
	b["new"] = dir{"deep": dir{"file": stored.Noise(9, 500)}}
	rootA, rootB := save(t, r, a), save(t, r, b)

	c := counting{r, map[format.ID]int{}}
	var got []string
	visit := func(c browse.Change) error {
		require.Equal(t, c.Status&browse.Added != 0, c.Old == nil)
		require.Equal(t, c.Status&browse.Removed != 0, c.New == nil)
		got = append(got, c.Status.String()+" "+c.Exact())
		return nil
	}
	s, err := browse.Diff(t.Context(), c.LoadBlob, rootA, rootB, browse.DiffOptions{Metadata: true}, visit)
	require.NoError(t, err)
	require.Equal(t, []string{
		"M /big", "T /home/ann/Photo.JPG", "+ /home/ann/Photo.JPG/inside", "- /home/ann/empty", "M? /home/ann/notes.txt",
		"U /home/ann/to notes", "+ /new", "+ /new/deep", "+ /new/deep/file",
	}, got)
	bob, err := browse.Resolve(t.Context(), r.LoadBlob, rootA, "/home/bob")
	require.NoError(t, err)
	require.Zero(t, c.loaded[bob.Subtree], "equal folders are not loaded")

	require.EqualValues(t, 3, s.Changed)
	require.EqualValues(t, 2, s.Added.Files)
	require.EqualValues(t, 2, s.Added.Dirs)
	require.EqualValues(t, 1, s.Removed.Files)
	// a: three chunks of notes, five of the photo. b: three of notes, one of inside, one of file, the last of big.
	require.EqualValues(t, 3+5, s.Removed.DataBlobs)
	require.EqualValues(t, 3+1+1+1, s.Added.DataBlobs)

	got = nil
	_, err = browse.Diff(t.Context(), r.LoadBlob, rootA, rootB, browse.DiffOptions{}, visit)
	require.NoError(t, err)
	require.NotContains(t, got, "U /home/ann/to notes")

	got = nil
	s, err = browse.Diff(t.Context(), c.LoadBlob, rootA, rootA, browse.DiffOptions{Metadata: true}, visit)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Zero(t, s)
}

// What cannot be read is an error, not a difference.
func TestDiffOfDamage(t *testing.T) {
	r := initialise(t)
	a := save(t, r, dir{"d": dir{"x": stored.Noise(1, 200)}})
	b := save(t, r, dir{"d": &tree.Node{Type: tree.Dir, Links: 2, Subtree: format.ID{3}}})
	var got []browse.Change
	_, err := browse.Diff(t.Context(), r.LoadBlob, a, b, browse.DiffOptions{}, func(c browse.Change) error {
		got = append(got, c)
		return nil
	})
	require.ErrorIs(t, err, store.ErrNotExist)
	require.Empty(t, got)
}

func TestStats(t *testing.T) {
	r := initialise(t)
	shared := stored.Noise(1, 3000)
	link := func() *tree.Node {
		return &tree.Node{Type: tree.File, Links: 2, Inode: 7, Size: 50, Content: tree.Content{Inline: stored.Noise(5, 50)}}
	}
	one := save(t, r, dir{"a": shared, "b": shared, "d": dir{"c": stored.Noise(2, 500), "l1": link(), "l2": link()}})
	two := save(t, r, dir{"a": shared, "e": dir{"c": stored.Noise(2, 500)}})
	trees := []format.ID{one, two}

	s, err := browse.Stats(t.Context(), r, browse.RestoreSize, trees)
	require.NoError(t, err)
	require.EqualValues(t, 3000+3000+500+50+3000+500, s.Bytes, "hard links count once")
	require.EqualValues(t, 5+2, s.Files)
	require.EqualValues(t, 2, s.Dirs)

	s, err = browse.Stats(t.Context(), r, browse.FilesByContents, trees)
	require.NoError(t, err)
	require.EqualValues(t, 3, s.Files)
	require.EqualValues(t, 3550, s.Bytes)

	s, err = browse.Stats(t.Context(), r, browse.RawData, trees)
	require.NoError(t, err)
	whole, err := browse.Stats(t.Context(), r, browse.WholeRepository, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3+1, whole.Data.Blobs)
	require.EqualValues(t, 3500, whole.Data.Raw)
	require.Equal(t, whole.Blobs, s.Blobs, "the two snapshots need everything there is")
	require.Equal(t, whole.Bytes, s.Bytes)
	require.Equal(t, whole.Stored, s.Stored)
	require.EqualValues(t, 2, whole.Snapshots)
	require.InDelta(t, 1, float64(whole.Data.Raw)/float64(whole.Data.Sealed), 0.2, "noise does not compress")
	for _, k := range whole.Kinds {
		if k.Kind == store.Pack {
			require.Equal(t, whole.Data.Packs+whole.Trees.Packs, k.Files)
		}
	}
	_, err = browse.Stats(t.Context(), r, "sums", nil)
	require.ErrorIs(t, err, browse.ErrMode)
}

func TestDumpFile(t *testing.T) {
	r := initialise(t)
	d := sample()
	d["holes"] = &tree.Node{Type: tree.File, Links: 1, Size: 200_000}
	d["lost"] = &tree.Node{Type: tree.File, Links: 1, Size: 9, Outcome: tree.Unreadable}
	root := save(t, r, d)
	dump := func(path string, w io.Writer) error {
		return browse.DumpAs(t.Context(), r.LoadBlob, root, path, browse.Archive{}, w)
	}
	for path, want := range map[string][]byte{
		"/big": stored.Noise(4, 40*stored.ChunkSize), "/home/ann/notes.txt": stored.Noise(1, 3000), "/home/ann/empty": nil,
		"/holes": make([]byte, 200_000),
	} {
		var got bytes.Buffer
		require.NoError(t, dump(path, &got))
		require.True(t, bytes.Equal(want, got.Bytes()), path)
	}
	var got bytes.Buffer
	require.ErrorIs(t, dump("/lost", &got), browse.ErrNoContent)
	require.ErrorIs(t, dump("/home/ann/to notes", &got), browse.ErrNotRepresentable)
	require.ErrorIs(t, dump("/nothing", &got), browse.ErrNotFound)
}

// failing accepts some bytes and then no more.
type failing struct{ left int }

var errFull = errors.New("pipe is closed")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestDumpToAPipeThatCloses(t *testing.T) {
	r := initialise(t)
	root := save(t, r, sample())
	for _, path := range []string{"/big", "/"} {
		err := browse.DumpAs(t.Context(), r.LoadBlob, root, path, browse.Archive{}, &failing{left: 10 * stored.ChunkSize})
		require.ErrorIs(t, err, errFull)
	}
}
