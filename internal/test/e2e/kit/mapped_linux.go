package kit

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// Mapped is a file. Its first page is mapped for writing.
type Mapped struct {
	Path string
	File *os.File
	page []byte
}

func MapFile(t *testing.T, path string, size int) *Mapped {
	t.Helper()
	require.NoError(t, os.WriteFile(path, testkit.Noise(uint64(size), size), 0o644))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, f.Sync())
	page, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(page)) })
	return &Mapped{Path: path, File: f, page: page}
}

func (m *Mapped) Write(text string) { copy(m.page, text) }

func (m *Mapped) Changed(t *testing.T) (ctime unix.Timespec, dirty uint64) {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(m.File.Fd()), &st))
	var pages unix.Cachestat_t
	if err := unix.Cachestat(uint(m.File.Fd()), &unix.CachestatRange{}, &pages, 0); err != nil {
		t.Skip("this kernel does not tell which pages are dirty: ", err)
	}
	return st.Ctim, pages.Dirty
}
