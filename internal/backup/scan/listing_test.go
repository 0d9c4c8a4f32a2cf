package scan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

type named struct {
	name string
	typ  tree.Type
	ino  uint64
}

func someStamp() stamp {
	return stamp{
		mount: 1<<31 + 5, dev: 8<<32 | 1, ino: 77, size: 4096, links: 3,
		modified: tree.Time{Sec: 1_700_000_000, Nsec: 5}, changed: tree.Time{Sec: 1_700_000_001, Nsec: 999_999_999},
	}
}

func writeNames(s stamp, names []named) []byte {
	var w listingWriter
	w.begin(&stamp{ino: 1}) // what an unfinished one leaves behind does not matter
	w.add([]byte("other"), tree.File, 1<<40)
	w.begin(&s)
	for _, n := range names {
		w.add([]byte(n.name), n.typ, n.ino)
	}
	return bytes.Clone(w.end())
}

func readNames(p []byte, s stamp) (names []named, ok bool) {
	arena := []byte("before")
	type at struct{ off, n int }
	var where []at
	arena, ok = readListing(p, &s, arena, func(off, n int, typ tree.Type, ino uint64) {
		where = append(where, at{off, n})
		names = append(names, named{typ: typ, ino: ino})
	})
	if !ok {
		return nil, false
	}
	for i, w := range where {
		names[i].name = string(arena[w.off : w.off+w.n])
	}
	return names, ok
}

// randomNames makes names that share beginnings of every length, of any bytes, some of them very long.
func randomNames(r *rand.Rand, n int) []named {
	seen := map[string]bool{}
	var names []named
	last := ""
	for len(names) < n {
		name := []byte(last[:r.IntN(len(last)+1)])
		for range 1 + r.IntN([]int{3, 20, 300}[r.IntN(3)]) {
			c := byte(1 + r.IntN(255))
			if c == '/' {
				c = '.'
			}
			name = append(name, c)
		}
		if s := string(name); s == "." || s == ".." || seen[s] || len(s) > 1000 {
			last = ""
			continue
		}
		last = string(name)
		seen[last] = true
		names = append(names, named{last, tree.Type(r.IntN(8)), r.Uint64() >> (4 + r.IntN(60))})
	}
	slices.SortFunc(names, func(a, b named) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return names
}

func TestListingsAreReadAsTheyWereWritten(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		names := randomNames(r, r.IntN(100))
		p := writeNames(someStamp(), names)
		require.NotNil(t, p)
		got, ok := readNames(p, someStamp())
		require.True(t, ok)
		require.Equal(t, names, got)
	}
}

func TestOneOfNoNames(t *testing.T) {
	got, ok := readNames(writeNames(someStamp(), nil), someStamp())
	require.True(t, ok)
	require.Empty(t, got)
}

// Whatever bit is flipped and wherever it is cut off, a listing is as good as none.
func TestDamagedListingsAreNotBelieved(t *testing.T) {
	p := writeNames(someStamp(), randomNames(rand.New(rand.NewPCG(3, 3)), 12))
	for i := range p {
		for bit := range 8 {
			bad := bytes.Clone(p)
			bad[i] ^= 1 << bit
			_, ok := readNames(bad, someStamp())
			require.False(t, ok, "byte %d, bit %d", i, bit)
		}
		_, ok := readNames(p[:i], someStamp())
		require.False(t, ok, "cut off at %d", i)
	}
}

func TestListingsOfOtherDirectoriesAndTimesAreNotBelieved(t *testing.T) {
	names := randomNames(rand.New(rand.NewPCG(4, 4)), 5)
	p := writeNames(someStamp(), names)
	for i, change := range []func(s *stamp){
		func(s *stamp) { s.mount++ }, func(s *stamp) { s.dev++ }, func(s *stamp) { s.ino++ }, func(s *stamp) { s.size++ },
		func(s *stamp) { s.links-- },
		func(s *stamp) { s.modified.Sec-- }, func(s *stamp) { s.modified.Nsec++ },
		func(s *stamp) { s.changed.Sec++ }, func(s *stamp) { s.changed.Nsec-- },
		func(s *stamp) { *s = stamp{} },
	} {
		other := someStamp()
		change(&other)
		_, ok := readNames(p, other)
		require.False(t, ok, "change %d", i)
	}
}

func TestWhatNoDirectoryHoldsIsNotWritten(t *testing.T) {
	file := func(names ...string) (all []named) {
		for _, name := range names {
			all = append(all, named{name, tree.File, 1})
		}
		return all
	}
	many := make([]named, maxListing/2)
	for i := range many {
		many[i] = named{fmt.Sprintf("%06d", i), tree.File, uint64(i)}
	}
	for name, names := range map[string][]named{
		"not sorted": file("b", "a"), "twice": file("a", "a"), "empty": file(""), "itself": file("."), "above": file(".."),
		"a path": file("a/b"), "a NUL": file("a\x00b"), "a type that does not exist": {{"a", 8, 1}}, "too many": many,
		"inode numbers too far apart": {{"a", tree.File, 1}, {"b", tree.File, 1 << 63}},
	} {
		require.Nil(t, writeNames(someStamp(), names), name)
	}
	require.LessOrEqual(t, len(writeNames(someStamp(), many[:maxListing/8])), maxListing)
}

// FuzzReadListing: whatever lies in a cache is read without harm, and what is read can be written again.
func FuzzReadListing(f *testing.F) {
	p := writeNames(someStamp(), randomNames(rand.New(rand.NewPCG(9, 9)), 20))
	s := someStamp()
	head := sumSize + len(s.append(nil))
	f.Add(p[head:])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{0x01, 'a', 0x01, 0x11})
	f.Fuzz(func(t *testing.T, rest []byte) {
		q := s.append(make([]byte, sumSize))
		q = append(q, rest...)
		sealed := checksum(q[sumSize:])
		q[0], q[1], q[2], q[3] = byte(sealed), byte(sealed>>8), byte(sealed>>16), byte(sealed>>24)
		names, ok := readNames(q, s)
		if !ok {
			return
		}
		for i, n := range names {
			if i > 0 && names[i-1].name >= n.name {
				t.Fatalf("%q after %q", n.name, names[i-1].name)
			}
		}
		if again := writeNames(s, names); again != nil {
			got, ok := readNames(again, s)
			require.True(t, ok)
			require.Equal(t, names, got)
		}
	})
}
