package signature

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func entry(name string, st localfs.Stat) scan.Entry {
	e := scan.Entry{Name: name}
	e.Set(&st)
	return e
}

// TestEveryFieldIsSigned changes one thing of one entry at a time.
func TestEveryFieldIsSigned(t *testing.T) {
	base := localfs.Stat{
		Type: tree.File, Mode: 0o644, UID: 1, GID: 2, Ino: 3, Links: 1, Size: 5, Mtime: tree.Time{Sec: 6, Nsec: 7},
		Ctime: tree.Time{Sec: 8, Nsec: 9},
	}
	sign := func(name string, st localfs.Stat, change func(*scan.Directory)) Signature {
		d := &scan.Directory{Entries: []scan.Entry{entry("a", localfs.Stat{Type: tree.Dir}), entry(name, st)}, Started: time.Unix(100, 0)}
		d.FS.StableInodes = true
		if change != nil {
			change(d)
		}
		local, _ := NewSigner(Shape(0)).Local(d)
		return local
	}
	seen := map[Signature]string{sign("b", base, nil): "nothing"}
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
		"mount":         func(d *scan.Directory) { d.Entries[1].Mount = true },
		"closed":        func(d *scan.Directory) { d.Closed = true },
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
	require.Equal(t, sign("b", base, unstable), sign("b", other, unstable), "an inode number nobody believes")
}

func TestSettled(t *testing.T) {
	looked := tree.Time{Sec: 100, Nsec: 10_000_000}
	for _, c := range []struct {
		changed tree.Time
		want    bool
	}{
		{tree.Time{Sec: 99, Nsec: 989_999_999}, true},
		{tree.Time{Sec: 99, Nsec: 990_000_000}, false}, // a tick before
		{tree.Time{Sec: 100, Nsec: 5}, false},
		{tree.Time{Sec: 100, Nsec: 10_000_001}, false}, // after
		{tree.Time{Sec: 98}, true},                     // no fractions: two seconds
		{tree.Time{Sec: 99}, false},
		{tree.Time{Sec: -5, Nsec: 1}, true},
		{tree.Time{Sec: 1 << 40, Nsec: 1}, false},
	} {
		require.Equal(t, c.want, Settled(c.changed, looked), "%+v", c.changed)
	}
}

func TestMemoRoundTrip(t *testing.T) {
	m := Memo{Local: Signature{1}, Full: Signature{2}, Tree: format.ID{3}}
	got, ok := ParseMemo(m.Append(nil))
	require.True(t, ok)
	require.Equal(t, m, got)
	_, ok = ParseMemo(m.Append(nil)[1:])
	require.False(t, ok)
}

func TestWholeCoversEveryChild(t *testing.T) {
	trees := []format.ID{{1}, {2}}
	whole := func(local Signature, trees ...format.ID) Signature {
		return NewSigner(Shape(0)).Whole(local, len(trees), func(i int) *format.ID { return &trees[i] })
	}
	require.NotEqual(t, whole(Signature{}, trees...), whole(Signature{}, format.ID{2}, format.ID{1}))
	require.NotEqual(t, whole(Signature{}, trees...), whole(Signature{1}, trees...))
	require.NotEqual(t, whole(Signature{}, trees...), whole(Signature{}, trees[0]))
}

// What one directory leaves in a Signer is not in the signature of the next, and signing takes no memory after the first.
func TestSignerKeepsNothingButMemory(t *testing.T) {
	big := &scan.Directory{Parent: &scan.Directory{}, Name: "big", Started: time.Unix(100, 0)}
	for i := range 5000 { // more than maxKept
		big.Entries = append(big.Entries, entry(fmt.Sprintf("name %4d of a directory that is large", i), localfs.Stat{Type: tree.File}))
	}
	small := &scan.Directory{Parent: big, Name: "small", Entries: big.Entries[:20], Started: time.Unix(100, 0)}
	used := NewSigner(Shape(0))
	trees := []format.ID{{1}, {2}}
	all := func(s *Signer, d *scan.Directory) (made [3]Signature) {
		made[0] = s.Key(d)
		made[1], _ = s.Local(d)
		made[2] = s.Whole(made[1], 2, func(i int) *format.ID { return &trees[i] })
		return made
	}
	for _, d := range []*scan.Directory{small, big, small, small.Parent.Parent, small} {
		require.Equal(t, all(NewSigner(Shape(0)), d), all(used, d), d.Path())
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { all(used, small) }))
}

// What is remembered under a key is found again by every version of the program.
func TestKeyIsOfThePath(t *testing.T) {
	root := &scan.Directory{}
	d := &scan.Directory{Parent: &scan.Directory{Parent: root, Name: "a"}, Name: "b"}
	shape := Shape(0)
	for _, d := range []*scan.Directory{root, d} {
		want := sum(append(shape[:len(shape):len(shape)], d.Path()...))
		key := NewSigner(shape).Key(d)
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
		key := NewSigner(Shape(0)).Key(d)
		return string(key[:4])
	}
	top := below(root, "a")
	require.Equal(t, group(root), group(top))
	require.Equal(t, group(top), group(below(top, "b", "c")))
	require.NotEqual(t, group(top), group(below(top, "b", "c", "d")))
	require.Equal(t, group(below(top, "b", "c", "d")), group(below(top, "b", "c", "d", "e", "f")))
	require.NotEqual(t, group(below(top, "b", "c", "d")), group(below(top, "b", "x", "d")))

	seen := map[Signature]bool{}
	for _, d := range []*scan.Directory{
		root, top, below(root, "b"), below(top, "b"), below(top, "b", "c"), below(top, "b", "c", "d"), below(top, "bc"),
	} {
		key := NewSigner(Shape(0)).Key(d)
		require.False(t, seen[key], d.Path())
		seen[key] = true
		require.NotEqual(t, key, NewSigner(Shape(1)).Key(d))
	}
}
