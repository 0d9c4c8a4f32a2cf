package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// resident returns how many bytes of the whole pages of buf take memory.
func resident(t *testing.T, buf []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	skip := (page - int(reflect.ValueOf(buf).Pointer()%uintptr(page))) % page
	buf = buf[skip : skip+(len(buf)-skip)/page*page]
	present := make([]byte, len(buf)/page)
	// mincore reports pages that were never there as absent.
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, reflect.ValueOf(buf).Pointer(), uintptr(len(buf)),
		reflect.ValueOf(present).Pointer())
	runtime.KeepAlive(buf)
	require.Zero(t, errno)
	for _, p := range present {
		n += int(p&1) * page
	}
	return n
}

// What lies beside the pages, or belongs to others, is left alone.
func TestOnlyWholePagesAreLetGo(t *testing.T) {
	page := os.Getpagesize()
	all := make([]byte, 16*page)
	for _, cut := range [][2]int{{0, 16 * page}, {1, 16*page - 1}, {page / 2, 5 * page / 2}, {100, 200},
		{page - 1, page + 1}, {0, 0}} {
		copy(all, bytes.Repeat([]byte{7}, len(all)))
		part := all[cut[0]:cut[1]]
		letGo(part)
		for i, b := range all {
			if b != 7 && (i < cut[0] || i >= cut[1]) {
				require.Fail(t, "a byte of others is gone", "%d of %v", i, cut)
			}
		}
		copy(part, bytes.Repeat([]byte{9}, len(part)))
		require.Equal(t, bytes.Repeat([]byte{9}, len(part)), part, "it can be used as before")
	}
	letGo(nil)
}

// TestPacksThatWentUpTakeNoMemory: of the buffers for packs, only those that hold something are there.
func TestPacksThatWentUpTakeNoMemory(t *testing.T) {
	// A large page at either end of a buffer may be there because of what lies beside it: another buffer, for instance.
	const packSize, blobs, ends = 16 << 20, 160, 2 * (2 << 20)
	to, _ := target(t, mem.New())
	opt := Options{Uploads: 2, Level: -1, Tuning: Tuning{Frame: 256 << 10, DataPack: packSize}}
	require.NoError(t, Run(t.Context(), to, opt, func(_ context.Context, s *Session) error {
		w := s.Writer(pack.Data)
		blob, ids, fresh := make([]byte, 256<<10), make([]format.ID, 1), make([]bool, 1)
		for i := range blobs {
			_, _ = rand.Read(blob)
			ids[0][0] = byte(i)
			if err := s.Claim(ids, fresh); err != nil {
				return err
			}
			if err := w.Add(ids[0], blob); err != nil {
				return err
			}
		}
		if err := s.Flush(t.Context()); err != nil {
			return err
		}
		p := s.packers[slot(pack.Data)]
		require.NotEmpty(t, p.buffers)
		for range len(p.buffers) {
			buf := <-p.buffers
			require.GreaterOrEqual(t, cap(buf), packSize)
			buf = buf[:cap(buf)]
			require.LessOrEqual(t, resident(t, buf), ends)
			clear(buf)
			require.Greater(t, resident(t, buf), packSize/2, "the look itself works")
		}
		return nil
	}))
}

// The buffers of packs are in large pages, if the system has them to give.
func TestBuffersAreInLargePages(t *testing.T) {
	state, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		t.Skip(err)
	}
	buf := newBuffer(16<<20 + 1234)
	require.Empty(t, buf)
	require.Equal(t, 16<<20+1234, cap(buf))
	require.Empty(t, newBuffer(0))
	require.Equal(t, 10, cap(newBuffer(10)))
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	at := uint64(reflect.ValueOf(buf).Pointer()) + 8<<20
	inside, marked := false, false
	for line := range strings.Lines(string(smaps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= at && at < to
		} else if inside && strings.HasPrefix(line, "VmFlags:") {
			marked = strings.Contains(line, " hg")
		}
	}
	require.True(t, marked, "%s", state)
	runtime.KeepAlive(buf)
}
