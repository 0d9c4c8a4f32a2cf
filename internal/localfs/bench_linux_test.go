package localfs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// BenchmarkScan is what the scan does: read a directory and stat its entries, with names in an arena. ns/op and
// allocs/op are per entry.
func BenchmarkScan(b *testing.B) {
	const entries = 1000
	d, path := openTemp(b)
	for i := range entries {
		write(b, fmt.Sprintf("%s/some file %04d.txt", path, i), "")
	}
	buf := make([]byte, 32<<10)
	var arena []byte
	var ends []int
	var st Stat
	done := entries
	b.ReportAllocs()
	for b.Loop() {
		if done < entries {
			done++
			continue
		}
		arena, ends, done = arena[:0], ends[:0], 1
		err := d.Entries(buf, func(name []byte, _ tree.Type, _ uint64) error {
			arena = append(arena, name...)
			ends = append(ends, len(arena))
			return nil
		})
		require.NoError(b, err)
		names, start := string(arena), 0
		for _, end := range ends {
			if err := d.Lstat(names[start:end], &st); err != nil {
				b.Fatal(err)
			}
			start = end
		}
	}
}

// BenchmarkOpen compares the direct way of opening with the one that pins the entry first.
func BenchmarkOpen(b *testing.B) {
	d, path := openTemp(b)
	write(b, path+"/f", "x")
	for name, state := range map[string]int32{"direct": devicesNever, "pinned": devicesMaybe} {
		b.Run(name, func(b *testing.B) {
			d.devices.Store(state)
			d.host.privileged = true
			b.ReportAllocs()
			for b.Loop() {
				f, err := d.OpenFile("f")
				if err != nil {
					b.Fatal(err)
				}
				_ = f.Close()
			}
		})
	}
}

func BenchmarkXattrs(b *testing.B) {
	d, path := openTemp(b)
	write(b, path+"/none", "")
	write(b, path+"/one", "")
	if err := unix.Setxattr(path+"/one", "user.x", []byte("x"), 0); err != nil {
		b.Skip(err)
	}
	for _, name := range []string{"none", "one"} {
		for _, way := range []string{"xattrat", "proc"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				d.host.noXattrAt.Store(way == "proc")
				b.ReportAllocs()
				for b.Loop() {
					if _, err := d.Xattrs(name, tree.File); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
