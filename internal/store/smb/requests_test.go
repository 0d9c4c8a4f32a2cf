package smb_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

// Commands that package smbtest has no name for, from [MS-SMB2] 2.2.1.
const (
	closeFile = 0x06
	query     = 0x0e
	queryInfo = 0x10
)

// asked counts requests by command.
type asked struct {
	mu sync.Mutex
	n  map[uint16]int
}

func (a *asked) look(f *smbtest.Frame) smbtest.Verdict {
	if f.Clear() && f.ToServer {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.n[f.Command()]++
	}
	return smbtest.Pass
}

// TestWhatIsAskedOfTheServer pins the requests of each kind of work: over a slow line they determine its duration. The
// close that ends a read is sent in the background, so the test waits for it.
func TestWhatIsAskedOfTheServer(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	begin := create(t, target(s, ""), smb.Options{})
	require.NoError(t, begin.Put(t.Context(), store.Name{Kind: store.Config}, []byte("x")))
	small, large := []byte("x"), storetest.Pattern(3<<20+1, 1)
	for _, c := range []struct {
		what string
		do   func(st *smb.Store) error
		want map[uint16]int
	}{
		{
			"open", func(*smb.Store) error { return nil },
			map[uint16]int{smbtest.Create: 2, smbtest.Read: 1, closeFile: 2},
		},
		{
			"put, the folder is new", func(st *smb.Store) error { return st.Put(t.Context(), pack(2), small) },
			map[uint16]int{smbtest.Create: 4, smbtest.Write: 1, smbtest.Flush: 2, smbtest.SetInfo: 1, smbtest.Read: 1,
				closeFile: 4},
		},
		{
			"put", func(st *smb.Store) error {
				return st.Put(t.Context(), store.Name{Kind: store.Index, ID: "01"}, large)
			},
			map[uint16]int{smbtest.Create: 3, smbtest.Write: 4, smbtest.Flush: 2, smbtest.SetInfo: 1, smbtest.Read: 1,
				closeFile: 3},
		},
		{
			"get", func(st *smb.Store) error {
				return st.Get(t.Context(), store.Name{Kind: store.Index, ID: "01"}, 1, make([]byte, 3<<20))
			},
			map[uint16]int{smbtest.Create: 1, smbtest.Read: 3, closeFile: 1},
		},
		{
			"renew a lease", func(st *smb.Store) error {
				_, err := st.PutNew(t.Context(), lease(1), small)
				return err
			},
			map[uint16]int{smbtest.Create: 1, smbtest.Write: 1, smbtest.Flush: 1, queryInfo: 1, closeFile: 1},
		},
		{
			"remove a lease", func(st *smb.Store) error { return st.Delete(t.Context(), lease(1)) },
			map[uint16]int{smbtest.Create: 1, smbtest.SetInfo: 1, closeFile: 1},
		},
		{
			"fence", func(st *smb.Store) error { return st.Fence(t.Context(), lease(2)) },
			map[uint16]int{smbtest.Create: 1, closeFile: 1},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := asked{n: map[uint16]int{}}
			p.Filter(a.look)
			st, err := smb.Open(t.Context(), through(p, s),
				smb.Options{Protection: smb.Signed, Credentials: password(smbtest.Password)})
			require.NoError(t, err)
			if c.what != "open" {
				smb.Settle(st) // what the first Put of a store does besides belongs to no file
				a.mu.Lock()
				a.n = map[uint16]int{}
				a.mu.Unlock()
			}
			require.NoError(t, c.do(st))
			smb.Settle(st)
			a.mu.Lock()
			defer a.mu.Unlock()
			for command := range uint16(4) { // of the beginning of a session
				delete(a.n, command)
			}
			require.Equal(t, c.want, a.n)
			p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
			require.NoError(t, st.Close())
		})
	}
}

// TestEndOfReadingBlocksNoRequest: Put and Get return although the server never confirms the close of the files that
// they have read.
func TestEndOfReadingBlocksNoRequest(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s),
		smb.Options{Protection: smb.Signed, Parallel: of(1), Patience: smb.Patience{Request: 5 * time.Second, Outage: -1}})
	for name, do := range map[string]func() error{
		"put": func() error { return st.Put(t.Context(), pack(1), []byte("x")) },
		"get": func() error { return st.Get(t.Context(), pack(2), 0, make([]byte, 1)) },
	} {
		require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
		smb.Settle(st)
		var mu sync.Mutex
		read, dropped := false, make(chan struct{})
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			mu.Lock()
			defer mu.Unlock()
			read = read || f.Is(smbtest.Read, false)
			if read && f.Is(closeFile, false) {
				close(dropped)
				read = false
				return smbtest.Drop
			}
			return smbtest.Pass
		})
		require.NoError(t, do(), name)
		<-dropped
		smb.Settle(st) // the session dies of it, and no request waits
		p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
	}
	require.NoError(t, st.Get(t.Context(), pack(1), 0, make([]byte, 1)))
}

// TestReplacingWaitsForReaders: a file is not replaced before its readers have closed it, since some servers would
// refuse that. Here the server never confirms a close. The rename has to wait until that session is abandoned, and uses
// another one.
func TestReplacingWaitsForReaders(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s),
		smb.Options{Protection: smb.Signed, Parallel: of(1), Patience: smb.Patience{Request: time.Second}})
	lease := store.Name{Kind: store.Lease, ID: "01"}
	require.NoError(t, st.Put(t.Context(), lease, []byte("x")))
	smb.Settle(st)
	var mu sync.Mutex
	reader, renamed := -1, -1
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case f.Is(closeFile, false) && reader < 0:
			reader = f.Connection
			return smbtest.Drop
		case f.IsRename():
			renamed = f.Connection
		}
		return smbtest.Pass
	})
	require.NoError(t, st.Get(t.Context(), lease, 0, make([]byte, 1)))
	require.NoError(t, st.Put(t.Context(), lease, []byte("y")))
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, reader, 0)
	require.Greater(t, renamed, reader)
}

// TestSweepBlocksNoRequest: the first Put returns although the server lists no folder.
func TestSweepBlocksNoRequest(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	leave, listed := make(chan struct{}), make(chan struct{}, 100)
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(query, true) {
			listed <- struct{}{}
			<-leave
		}
		return smbtest.Pass
	})
	st := create(t, through(p, s), smb.Options{Protection: smb.Signed, Parallel: of(1)})
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	<-listed
	close(leave)
}

// TestFoldersAreLearned: a store that finds folders of packs makes them not again.
func TestFoldersAreLearned(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	first := create(t, target(s, ""), smb.Options{})
	require.NoError(t, first.Put(t.Context(), pack(1), []byte("x")))
	st := create(t, through(p, s), smb.Options{Protection: smb.Signed})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Lease, ID: "01"}, []byte("x")))
	smb.Settle(st)
	a := asked{n: map[uint16]int{}}
	p.Filter(a.look)
	require.NoError(t, st.Put(t.Context(), pack(257), []byte("x"))) // of the same folder
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Equal(t, 3, a.n[smbtest.Create], "the temporary file, its new name, and to look at it")
}

// TestTheConfigOfTheOpeningIsUsedOnce: what was read when the store was opened serves the first Get, and never one
// after a Put.
func TestTheConfigOfTheOpeningIsUsedOnce(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	name := store.Name{Kind: store.Config}
	first := create(t, target(s, ""), smb.Options{})
	require.NoError(t, first.Put(t.Context(), name, []byte("one")))
	open := func() *smb.Store {
		st, err := smb.Open(t.Context(), target(s, ""), smb.Options{Credentials: password(smbtest.Password)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	get := func(st *smb.Store, want string) {
		t.Helper()
		info, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		require.EqualValues(t, len(want), info.Size)
		p := make([]byte, len(want))
		require.NoError(t, st.Get(t.Context(), name, 0, p))
		require.Equal(t, want, string(p))
	}
	reader, writer := open(), open()
	require.NoError(t, writer.Put(t.Context(), name, []byte("second")))
	get(writer, "second")
	get(reader, "one")
	get(reader, "second")
}
