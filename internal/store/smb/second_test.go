package smb_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

// TestSecondLook: a line that neither signs nor encrypts changes what is read over the existing connections. A second
// look takes another one, once, and is right.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Parallel: of(2)})
	data := storetest.Pattern(100_000, 5)
	require.NoError(t, st.Put(t.Context(), pack(1), data))
	smb.Settle(st)
	before := p.Accepted()
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(smbtest.Read, false) && f.Connection < before {
			f.Data[len(f.Data)-1] ^= 1
		}
		return smbtest.Pass
	})
	got := make([]byte, len(data))
	require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
	require.False(t, bytes.Equal(data, got))
	again := store.SecondLook(t.Context())
	for range 3 {
		require.NoError(t, st.Get(again, pack(1), 0, got))
		smb.Settle(st)
		require.True(t, bytes.Equal(data, got))
	}
	require.LessOrEqual(t, p.Accepted(), before+2, "each session begins again at most")
}
