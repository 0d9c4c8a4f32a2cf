package localfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/require"
)

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	d, err := OpenDir(dir)
	require.NoError(b, err)
	defer d.Release()
	b.Run("direct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, err := d.OpenFile("f")
			if err != nil {
				b.Fatal(err)
			}
			_ = f.Close()
		}
	})
	b.Run("lstat", func(b *testing.B) {
		var st Stat
		b.ReportAllocs()
		for b.Loop() {
			_ = d.Lstat("f", &st)
		}
	})
	b.Run("pinned", func(b *testing.B) {
		var st Stat
		for b.Loop() {
			fd, err := d.openPinned("f", unix.O_RDONLY, &st)
			if err != nil {
				b.Fatal(err)
			}
			_ = unix.Close(fd)
		}
	})
}
