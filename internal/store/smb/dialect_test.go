package smb_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// The commands that begin a connection, from [MS-SMB2] 2.2.1.
const (
	negotiate = 0x00
	setup     = 0x01
)

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
		st := create(t, through(p, s), smb.Options{Protection: protection, Parallel: of(1)})
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
		link, err := st.Describe(t.Context())
		require.NoError(t, err)
		require.Contains(t, link.What, "SMB 3.1.1 with ")
	}
}

// lowered changes each dialect of a request to negotiate to an older one.
func lowered(dialect uint16) func(f *smbtest.Frame) smbtest.Verdict {
	return func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(negotiate, true) {
			body := f.Data[64:]
			for i := range binary.LittleEndian.Uint16(body[2:]) {
				binary.LittleEndian.PutUint16(body[36+2*i:], dialect)
			}
		}
		return smbtest.Pass
	}
}

// TestLoweredDialectOfFirstConnection: the version of SMB of an authenticated session is remembered, and a later
// command refuses an older one before it logs on, until the file of the record is removed.
func TestLoweredDialectOfFirstConnection(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	open := func(known string, way smb.Protection) (string, error) {
		st, err := smb.Open(t.Context(), through(p, s),
			smb.Options{Protection: way, Credentials: password(smbtest.Password), Known: known})
		if err != nil {
			return "", err
		}
		defer st.Close()
		link, err := st.Describe(t.Context())
		dialect, _, _ := strings.Cut(strings.TrimPrefix(link.What, "SMB "), " ")
		return dialect, err
	}
	version := func(known string, way smb.Protection) string {
		t.Helper()
		dialect, err := open(known, way)
		require.NoError(t, err)
		return dialect
	}
	known := filepath.Join(t.TempDir(), "new", "servers")
	file := func(dialect string) string {
		return filepath.Join(known, fmt.Sprintf("127.0.0.1:%d-smb-%s", p.Port, dialect))
	}

	p.Filter(lowered(0x0210))
	require.Equal(t, "2.1", version(known, smb.Protected))
	require.FileExists(t, file("2.1"))
	p.Filter(always(smbtest.Pass))
	require.Equal(t, "3.1.1", version(known, smb.AsOffered))
	require.NoFileExists(t, file("3.1.1"), "answers need no signature there, so they prove nothing")
	require.Equal(t, "3.1.1", version(known, smb.Protected))
	require.FileExists(t, file("3.1.1"))
	require.NoFileExists(t, file("2.1"))

	for _, dialect := range []uint16{0x0202, 0x0210, 0x0300, 0x0302} {
		for _, way := range []smb.Protection{smb.Protected, smb.Signed, smb.AsOffered} {
			loggedOn := atomic.Bool{}
			p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
				if f.Is(setup, true) {
					loggedOn.Store(true)
				}
				return lowered(dialect)(f)
			})
			_, err := open(known, way)
			require.ErrorIs(t, err, smb.ErrInsecure)
			require.ErrorContains(t, err, "and spoke SMB 3.1.1 before")
			require.ErrorContains(t, err, "remove the file "+file("3.1.1"))
			require.False(t, loggedOn.Load(), "the password was used on a connection that is refused")
		}
	}
	require.Equal(t, "3.0", func() string { p.Filter(lowered(0x0300)); return version("", smb.Protected) }(),
		"without a folder nothing is remembered")

	require.NoError(t, os.Remove(file("3.1.1"))) // as the message says
	require.Equal(t, "3.0", version(known, smb.Protected))
	require.FileExists(t, file("3.0"))
	_, err := open(known, smb.Protected)
	require.NoError(t, err)
	p.Filter(lowered(0x0210))
	_, err = open(known, smb.Protected)
	require.ErrorContains(t, err, "spoke SMB 3.0 before")

	damaged := filepath.Join(t.TempDir(), "servers")
	require.NoError(t, os.WriteFile(damaged, []byte("junk"), 0o600))
	require.Equal(t, "2.1", version(damaged, smb.Protected), "a damaged record is no error")
}

// TestStrippedCipher: why the version is all that has to be remembered. With SMB 3.1.1 nothing of a negotiation can be
// changed, not even that the server encrypts.
func TestStrippedCipher(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	for _, toServer := range []bool{true, false} {
		p := smbtest.NewProxy(t, s.Addr(), 0)
		changed := atomic.Bool{}
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			at := bytes.Index(f.Data, []byte{2, 0, 4, 0, 0, 0, 0, 0, 1, 0}) // the answer: one cipher, in four bytes
			if toServer {
				at = bytes.Index(f.Data, []byte{2, 0, 6, 0, 0, 0, 0, 0, 2, 0}) // the request: two
			}
			if f.Is(negotiate, toServer) && at > 0 {
				f.Data[at] = 0x77 // an unknown kind of context
				changed.Store(true)
			}
			return smbtest.Pass
		})
		_, err := smb.Open(t.Context(), through(p, s), smb.Options{Credentials: password(smbtest.Password)})
		require.Error(t, err)
		require.True(t, changed.Load(), "to the server: %t", toServer)
	}
}
