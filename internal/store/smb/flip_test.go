package smb_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// encrypted is what a proxy sees of each frame on an encrypted session, from [MS-SMB2] 2.2.41.
const encrypted = 0xfd

// flip changes one bit of the first frame that is meant. It lies in the data where the frame carries some.
type flip struct {
	meant func(f *smbtest.Frame) bool
	fired atomic.Int64
}

func (l *flip) judge(f *smbtest.Frame) smbtest.Verdict {
	if l.meant(f) && l.fired.Add(1) == 1 {
		f.Data[max(len(f.Data)-1000, len(f.Data)/2)] ^= 4
	}
	return smbtest.Pass
}

// protections are all of them, by name.
func protections() map[string]smb.Protection {
	return map[string]smb.Protection{
		"default": smb.Protected, "signed": smb.Signed, "encrypted": smb.Encrypted, "in clear": smb.AsOffered,
	}
}

// TestChangedBits: a bit of a request or of an answer is changed on the way. Put still stores the file with the sent
// content, and no error mentions permissions.
func TestChangedBits(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	data := storetest.Pattern(2<<20+300_000, 5)
	commands := map[string]uint16{
		"create": smbtest.Create, "write": smbtest.Write, "flush": smbtest.Flush, "rename": smbtest.SetInfo,
		"read":  smbtest.Read,
		"close": closeFile,
	}
	step := testkit.Rounds(3, 2, 1)
	for way, protection := range protections() {
		for _, toServer := range []bool{true, false} {
			for i, what := range slices.Sorted(maps.Keys(commands)) {
				command := commands[what]
				if i%step != 0 {
					continue
				}
				if protection == smb.AsOffered && command != smbtest.Write && command != smbtest.Read {
					continue // names and answers are then as good as the network is
				}
				t.Run(fmt.Sprintf("%s, %s, to the server: %v", way, what, toServer), func(t *testing.T) {
					p := smbtest.NewProxy(t, s.Addr(), 0)
					st := create(t, through(p, s), smb.Options{Protection: protection, Patience: smb.Patience{Request: time.Second}})
					sealed := atomic.Int64{}
					l := &flip{meant: func(f *smbtest.Frame) bool {
						if f.Data[0] == encrypted { // the command is not visible
							return f.ToServer == toServer && sealed.Add(1) == int64(command%13)
						}
						return f.Is(command, toServer) && !f.Pending()
					}}
					p.Filter(l.judge)
					require.NoError(t, st.Put(t.Context(), pack(1), data))
					require.Positive(t, l.fired.Load())
					p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
					got := make([]byte, len(data))
					require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
					require.True(t, bytes.Equal(data, got), "a changed bit is stored")
				})
			}
		}
	}
}

// TestEachWriteIsChanged: on a signed line a bit of each large request is changed, time after time. No access is
// denied.
func TestEachWriteIsChanged(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.Signed, Patience: smb.Patience{Outage: time.Second}})
	data := storetest.Pattern(2<<20, 5)
	require.NoError(t, st.Put(t.Context(), pack(1), data))
	bad := atomic.Bool{}
	bad.Store(true)
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(smbtest.Write, true) && bad.Load() {
			f.Data[len(f.Data)-1] ^= 1
		}
		return smbtest.Pass
	})
	err := st.Put(t.Context(), pack(2), data)
	require.NotErrorIs(t, err, store.ErrDenied)
	require.ErrorIs(t, err, store.ErrTemporary)
	require.ErrorContains(t, err, "messages are changed on the way")
	bad.Store(false)
	require.NoError(t, st.Put(t.Context(), pack(2), data))
}

// TestChangedBitsOfALogon: the connection breaks in the middle of a job, and a bit of a message with which the next
// session begins is changed. What begins a session carries no signature, so that the server may take the password for a
// wrong one.
func TestChangedBitsOfALogon(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	for way, protection := range protections() {
		if protection == smb.AsOffered {
			continue
		}
		for _, toServer := range []bool{true, false} {
			for number := range 4 { // negotiate, two messages of the logon, the share
				t.Run(fmt.Sprintf("%s, message %d, to the server: %v", way, number, toServer), func(t *testing.T) {
					p := smbtest.NewProxy(t, s.Addr(), 0)
					st := create(t, through(p, s), smb.Options{Parallel: of(1), Protection: protection,
						Patience: smb.Patience{Request: time.Second}})
					p.CutAll()
					seen := atomic.Int64{}
					l := &flip{meant: func(f *smbtest.Frame) bool {
						return f.Connection > 0 && f.ToServer == toServer && seen.Add(1) == int64(number)+1
					}}
					p.Filter(l.judge)
					data := storetest.Pattern(100_000, 5)
					require.NoError(t, st.Put(t.Context(), pack(1), data))
					require.Positive(t, l.fired.Load())
					got := make([]byte, len(data))
					require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
					require.True(t, bytes.Equal(data, got))
				})
			}
		}
	}
}
