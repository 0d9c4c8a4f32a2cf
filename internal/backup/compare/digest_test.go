package compare

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func entry(name string, st localfs.Stat) scan.Entry {
	e := scan.Entry{Name: name}
	e.Set(&st)
	return e
}

// Changing any one field of one entry changes the digest.
func TestEveryFieldIsDigested(t *testing.T) {
	base := localfs.Stat{
		Type: tree.File, Mode: 0o644, UID: 1, GID: 2, Ino: 3, Links: 1, Size: 5, Mtime: tree.Time{Sec: 6, Nsec: 7},
		Ctime: tree.Time{Sec: 8, Nsec: 9},
	}
	sign := func(name string, st localfs.Stat, change func(*scan.Directory)) Digest {
		d := &scan.Directory{Entries: []scan.Entry{entry("a", localfs.Stat{Type: tree.Dir}), entry(name, st)},
			Started: time.Unix(100, 0)}
		d.FS.StableInodes = true
		if change != nil {
			change(d)
		}
		local, _ := NewDigester(OptionsDigest(0)).Stat(d)
		return local
	}
	seen := map[Digest]string{sign("b", base, nil): "nothing"}
	for what, change := range map[string]func(*localfs.Stat){
		"type": func(s *localfs.Stat) { s.Type = tree.Symlink }, "mode": func(s *localfs.Stat) { s.Mode++ },
		"uid": func(s *localfs.Stat) { s.UID++ }, "gid": func(s *localfs.Stat) { s.GID++ },
		"inode": func(s *localfs.Stat) { s.Ino++ }, "links": func(s *localfs.Stat) { s.Links++ },
		"size": func(s *localfs.Stat) { s.Size++ }, "mtime": func(s *localfs.Stat) { s.Mtime.Nsec++ },
		"ctime": func(s *localfs.Stat) { s.Ctime.Sec++ },
	} {
		st := base
		change(&st)
		got := sign("b", st, nil)
		require.NotContains(t, seen, got, what)
		seen[got] = what
	}
	for what, change := range map[string]func(*scan.Directory){
		"mount":         func(d *scan.Directory) { d.Entries[1].FS = 1 },
		"linked mount":  func(d *scan.Directory) { d.Entries[1].FS, d.Entries[1].Links = 1, 2 },
		"other mount":   func(d *scan.Directory) { d.Entries[1].FS, d.Entries[1].Links = 3, 2 },
		"excluded":      func(d *scan.Directory) { d.Excluded = true },
		"missing entry": func(d *scan.Directory) { d.Entries = d.Entries[:1] },
	} {
		got := sign("b", base, change)
		require.NotContains(t, seen, got, what)
		seen[got] = what
	}
	require.NotContains(t, seen, sign("c", base, nil), "name")
	unstable := func(d *scan.Directory) { d.FS.StableInodes = false }
	other := base
	other.Ino = 99
	require.Equal(t, sign("b", base, unstable), sign("b", other, unstable), "inode numbers that are not stable")
}

// The status of an object whose content is with a cloud provider proves nothing: the content can come back with the
// same times.
func TestDirectoriesWithDatalessObjectsAreLookedAtAgain(t *testing.T) {
	for _, dataless := range []bool{false, true} {
		d := &scan.Directory{Started: time.Unix(100, 0), Entries: []scan.Entry{
			entry("a", localfs.Stat{Type: tree.File, Mtime: tree.Time{Sec: 6}, Ctime: tree.Time{Sec: 8}}),
			entry("b", localfs.Stat{Type: tree.Dir, Mtime: tree.Time{Sec: 6}, Ctime: tree.Time{Sec: 8}}),
		}}
		d.Entries[0].Dataless = dataless
		_, racy := NewDigester(OptionsDigest(0)).Stat(d)
		require.Equal(t, dataless, racy)
	}
}

func TestCacheEntryRoundTrip(t *testing.T) {
	m := CacheEntry{Stat: Digest{1}, Subtree: Digest{2}, Tree: format.ID{3}}
	got, ok := parseCacheEntry(m.append(nil))
	require.True(t, ok)
	require.Equal(t, m, got)
	_, ok = parseCacheEntry(m.append(nil)[1:])
	require.False(t, ok)
}

func TestSubtreeDigestCoversEveryChild(t *testing.T) {
	trees := []format.ID{{1}, {2}}
	whole := func(local Digest, trees ...format.ID) Digest {
		return NewDigester(OptionsDigest(0)).Subtree(local, len(trees), func(i int) *format.ID { return &trees[i] })
	}
	require.NotEqual(t, whole(Digest{}, trees...), whole(Digest{}, format.ID{2}, format.ID{1}))
	require.NotEqual(t, whole(Digest{}, trees...), whole(Digest{1}, trees...))
	require.NotEqual(t, whole(Digest{}, trees...), whole(Digest{}, trees[0]))
}

// The digest of a directory does not depend on the ones before, and digesting allocates nothing after the first.
func TestDigesterKeepsOnlyMemory(t *testing.T) {
	big := &scan.Directory{Parent: &scan.Directory{}, Name: "big", Started: time.Unix(100, 0)}
	for i := range 5000 { // more than maxKept
		big.Entries = append(big.Entries, entry(fmt.Sprintf("name %4d of a directory that is large", i),
			localfs.Stat{Type: tree.File}))
	}
	small := &scan.Directory{Parent: big, Name: "small", Entries: big.Entries[:20], Started: time.Unix(100, 0)}
	used := NewDigester(OptionsDigest(0))
	trees := []format.ID{{1}, {2}}
	all := func(s *Digester, d *scan.Directory) (made [3]Digest) {
		made[0] = s.Key(d)
		made[1], _ = s.Stat(d)
		made[2] = s.Subtree(made[1], 2, func(i int) *format.ID { return &trees[i] })
		return made
	}
	for _, d := range []*scan.Directory{small, big, small, small.Parent.Parent, small} {
		require.Equal(t, all(NewDigester(OptionsDigest(0)), d), all(used, d), d.Path())
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { all(used, small) }))
}

// A key is a digest of the path, so that every version of the program finds it.
func TestKeyIsOfThePath(t *testing.T) {
	root := &scan.Directory{}
	d := &scan.Directory{Parent: &scan.Directory{Parent: root, Name: "a"}, Name: "b"}
	shape := OptionsDigest(0)
	for _, d := range []*scan.Directory{root, d} {
		want := sum(append(shape[:len(shape):len(shape)], d.Path()...))
		key := NewDigester(shape).Key(d)
		require.Equal(t, want[4:], key[4:])
	}
}

// Directories up to levelsTogether levels below one have neighbouring keys, and no two have the same.
func TestNeighboursHaveNeighbouringKeys(t *testing.T) {
	root := &scan.Directory{}
	below := func(d *scan.Directory, names ...string) *scan.Directory {
		for _, name := range names {
			d = &scan.Directory{Parent: d, Name: name}
		}
		return d
	}
	group := func(d *scan.Directory) string {
		key := NewDigester(OptionsDigest(0)).Key(d)
		return string(key[:4])
	}
	top := below(root, "a")
	require.Equal(t, group(root), group(top))
	require.Equal(t, group(top), group(below(top, "b", "c")))
	require.NotEqual(t, group(top), group(below(top, "b", "c", "d")))
	require.Equal(t, group(below(top, "b", "c", "d")), group(below(top, "b", "c", "d", "e", "f")))
	require.NotEqual(t, group(below(top, "b", "c", "d")), group(below(top, "b", "x", "d")))

	seen := map[Digest]bool{}
	for _, d := range []*scan.Directory{
		root, top, below(root, "b"), below(top, "b"), below(top, "b", "c"), below(top, "b", "c", "d"), below(top, "bc"),
	} {
		key := NewDigester(OptionsDigest(0)).Key(d)
		require.False(t, seen[key], d.Path())
		seen[key] = true
		require.NotEqual(t, key, NewDigester(OptionsDigest(1)).Key(d))
	}
}
