package scan

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestSafe(t *testing.T) {
	seen := tree.Time{Sec: 100, Nsec: 10_000_000}
	for _, c := range []struct {
		changed tree.Time
		want    bool
	}{
		{tree.Time{Sec: 99, Nsec: 989_999_999}, true},
		{tree.Time{Sec: 99, Nsec: 990_000_000}, false}, // one granularity before
		{tree.Time{Sec: 100, Nsec: 5}, false},
		{tree.Time{Sec: 100, Nsec: 10_000_001}, false}, // after
		{tree.Time{Sec: 98}, true},                     // no fractions: two seconds
		{tree.Time{Sec: 99}, false},
		{tree.Time{Sec: -5, Nsec: 1}, true},
		{tree.Time{Sec: 1 << 40, Nsec: 1}, false},
	} {
		require.Equal(t, c.want, Safe(c.changed, seen), "%+v", c.changed)
	}
}

// TestFileSystems: each file system of a mount scope has a number, which stays the same if a boot numbers the devices
// another way, but one behind the other.
func TestFileSystems(t *testing.T) {
	number := func(dev, dir uint64) uint32 {
		var e Entry
		e.on(dev, dir)
		require.Equal(t, dev != dir, e.Mount())
		return e.FS
	}
	const dir = 8<<32 | 1
	seen := map[uint32]bool{}
	for _, major := range []uint64{0, 7, 8, 9, 253, 4095} {
		for _, minor := range []uint64{0, 1, 2, 255, 1<<20 - 1} {
			n := number(major<<32|minor, dir)
			require.False(t, seen[n], "%d:%d", major, minor)
			seen[n] = true
		}
	}
	require.Equal(t, number(57, 55), number(43, 41))
	require.EqualValues(t, 1, number(1<<20|1<<32, 2<<32), "never zero")
	require.LessOrEqual(t, unsafe.Sizeof(Entry{}), uintptr(96), "a directory may have millions")
}
