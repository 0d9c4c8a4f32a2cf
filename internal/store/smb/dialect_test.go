package smb_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// negotiate is the command that begins a connection, from [MS-SMB2] 2.2.1.
const negotiate = 0x00

// TestLoweredDialect: the negotiation is changed on the way, so that both sides would go on with an older SMB:
// neither encrypted, nor protected against such a change. The first connection is refused if the server seems to
// leave the choice open, which it never does; a later one if it is older than the first.
func TestLoweredDialect(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	body := func(f *smbtest.Frame) []byte { return f.Data[64:] }
	older := func(f *smbtest.Frame) { // each dialect of the request becomes 2.1
		for i := range binary.LittleEndian.Uint16(body(f)[2:]) {
			binary.LittleEndian.PutUint16(body(f)[36+2*i:], 0x0210)
		}
	}
	for _, protection := range []smb.Protection{smb.Protected, smb.Signed, smb.AsOffered} {
		p := smbtest.NewProxy(t, s.Addr(), 0)
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(negotiate, false) && binary.LittleEndian.Uint16(body(f)[4:]) == 0x0311 {
				binary.LittleEndian.PutUint16(body(f)[4:], 0x02ff)
			}
			return smbtest.Pass
		})
		_, err := smb.Open(t.Context(), through(p, s),
			smb.Options{Protection: protection, Credentials: password(smbtest.Password)})
		require.ErrorContains(t, err, "the negotiation was changed on the way")
		require.ErrorIs(t, err, store.ErrTemporary)

		p.Filter(always(smbtest.Pass))
		st := create(t, through(p, s), smb.Options{Protection: protection, Sessions: 1})
		require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
		smb.Settle(st)
		changed := atomic.Int64{}
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(negotiate, true) && changed.Add(1) <= 2 {
				older(f)
			}
			return smbtest.Pass
		})
		p.CutAll()
		require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
		require.EqualValues(t, 3, changed.Load())
		link, err := st.Link(t.Context())
		require.NoError(t, err)
		require.Equal(t, "3.1.1", link.Dialect)
	}
}
