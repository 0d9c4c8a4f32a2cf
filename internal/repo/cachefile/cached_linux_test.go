package cachefile_test

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// What the page cache holds is read while another program uses the device, and is no operation then. Without that
// program it is one, and its bytes count.
func TestCachedPagesNeedNoTurn(t *testing.T) {
	raw, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, raw.Close()) }()
	if _, err := unix.Preadv2(int(raw.Fd()), [][]byte{{0}}, 0, unix.RWF_NOWAIT); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("a file system whose reads block")
	}
	gate := newGate()
	f, err := cachefile.OpenTempFile(t.TempDir(), localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	want := testkit.Noise(1, 5000)
	_, err = f.WriteAt(want, 0)
	require.NoError(t, err)
	look := func() (operations uint64) {
		before := gate.Stats().Operations
		got := make([]byte, 4096)
		n, err := f.ReadCached(got, 904)
		require.NoError(t, err)
		require.Equal(t, 4096, n)
		require.Equal(t, want[904:], got)
		_, err = f.ReadCached(got, 905)
		require.ErrorIs(t, err, io.EOF)
		return gate.Stats().Operations - before
	}
	require.EqualValues(t, 2, look())
	grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
	require.NoError(t, err)
	defer grant.End(0)
	require.EqualValues(t, 1, look(), "the one that meets the end")
}
