package smb_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// shelf is a repository folder with known content. It reads the disk of the server directly.
type shelf struct {
	t      *testing.T
	server *smbtest.Server
	proxy  *smbtest.Proxy
	folder string // in the share
	holds  map[store.Name][]byte
}

func newShelf(t *testing.T, folder string) *shelf {
	t.Helper()
	s := smbtest.Start(t, smbtest.Config{})
	h := &shelf{t: t, server: s, proxy: smbtest.NewProxy(t, s.Addr(), 0), folder: folder, holds: map[store.Name][]byte{}}
	h.put(store.Name{Kind: store.Config}, []byte("config"))
	for i := range 40 {
		h.put(snapshot(i), []byte("snapshot"))
	}
	for i := range 9 {
		h.put(pack(i%3+256*i), storetest.Pattern(1000+i, uint64(i)))
	}
	h.put(pack(7), storetest.Pattern(2<<20+70_000, 7))
	for i := range 3 {
		h.put(lease(i), []byte("lease"))
	}
	return h
}

func lease(i int) store.Name { return store.Name{Kind: store.Lease, ID: pack(i).ID} }

func (h *shelf) path(name store.Name) string { return filepath.Join(h.root(), name.Path()) }

func (h *shelf) root() string { return filepath.Join(h.server.Folder, h.folder) }

// put lays a file on the disk of the server.
func (h *shelf) put(name store.Name, data []byte) {
	h.t.Helper()
	h.holds[name] = data
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o700))
	require.NoError(h.t, os.WriteFile(h.path(name), data, 0o600))
}

func (h *shelf) remove(name store.Name) {
	h.t.Helper()
	delete(h.holds, name)
	if err := os.Remove(h.path(name)); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(h.t, err)
	}
}

// operation is one operation of a store. It returns the error in its answer, or of the call; begin is called before,
// end after success.
type operation struct {
	begin func(h *shelf)
	do    func(ctx context.Context, h *shelf, st store.Store) (wrong string, err error)
	end   func(h *shelf) (wrong string)
}

func putOf(name store.Name, data []byte, old []byte) operation {
	return operation{
		begin: func(h *shelf) {
			h.remove(name)
			if old != nil {
				h.put(name, old)
			}
		},
		do: func(ctx context.Context, _ *shelf, st store.Store) (string, error) {
			return "", st.Put(ctx, name, data)
		},
		end: func(h *shelf) string {
			there, err := os.ReadFile(h.path(name))
			if err != nil || !bytes.Equal(there, data) {
				return fmt.Sprintf("it was said to be stored, and is not: %d bytes of %d, %v", len(there), len(data), err)
			}
			h.holds[name] = data
			return ""
		},
	}
}

func getOf(name store.Name, off, n int) operation {
	return operation{do: func(ctx context.Context, h *shelf, st store.Store) (string, error) {
		p := make([]byte, n)
		err := st.Get(ctx, name, int64(off), p)
		if err == nil && !bytes.Equal(p, h.holds[name][off:off+n]) {
			return "other bytes", nil
		}
		return "", err
	}}
}

func listOf(kind store.Kind) operation {
	return operation{do: func(ctx context.Context, h *shelf, st store.Store) (string, error) {
		want := map[store.Name]int64{}
		for name, data := range h.holds {
			if name.Kind == kind {
				want[name] = int64(len(data))
			}
		}
		got := map[store.Name]int64{}
		for info, err := range st.List(ctx, kind) {
			if err != nil {
				return "", err
			}
			got[info.Name] = info.Size
		}
		if !maps.Equal(want, got) {
			return fmt.Sprintf("%d files of %d", len(got), len(want)), nil
		}
		return "", nil
	}}
}

func operations() map[string]operation {
	small, large := []byte("small"), storetest.Pattern(1<<20+70_000, 3)
	gone := func(name store.Name) operation {
		return operation{
			begin: func(h *shelf) { h.put(name, small) },
			do:    func(ctx context.Context, _ *shelf, st store.Store) (string, error) { return "", st.Delete(ctx, name) },
			end: func(h *shelf) string {
				if _, err := os.Lstat(h.path(name)); err == nil {
					return "it was said to be removed, and is there"
				}
				delete(h.holds, name)
				return ""
			},
		}
	}
	return map[string]operation{
		"put a pack":      putOf(pack(0x1234), large, nil),
		"put a snapshot":  putOf(snapshot(500), small, nil),
		"replace a lease": putOf(lease(0), []byte("the lease"), []byte("lease")),
		"get":             getOf(snapshot(1), 0, 8),
		"get of 2 MiB":    getOf(pack(7), 1000, 2<<20),
		"list configs":    listOf(store.Config),
		"list packs":      listOf(store.Pack),
		"list snapshots":  listOf(store.Snapshot),
		"list leases":     listOf(store.Lease),
		"delete":          gone(snapshot(501)),
		"stat": {do: func(ctx context.Context, h *shelf, st store.Store) (string, error) {
			info, err := st.Stat(ctx, snapshot(3))
			if err == nil && info.Size != int64(len(h.holds[snapshot(3)])) {
				return fmt.Sprintf("it has %d bytes", info.Size), nil
			}
			return "", err
		}},
		"stat of nothing": {do: func(ctx context.Context, _ *shelf, st store.Store) (string, error) {
			_, err := st.Stat(ctx, snapshot(600))
			if err == nil {
				return "it is there", nil
			}
			if errors.Is(err, store.ErrNotExist) {
				err = nil
			}
			return "", err
		}},
	}
}

// attack is what befalls the n-th frame of an operation.
type attack struct {
	answers bool // frames that the server maxSends; else those that it gets
	fails   bool // the operation may fail by it; else it must come to its end
	on      func(f *smbtest.Frame) smbtest.Verdict
	of      []string // the operations; nil: all
	silent  bool     // the connection stays; only a timeout detects it
	ends    bool     // the job is called off as well, for a reason that could be taken for an answer
}

// patience is how long an answer is waited for.
func (a *attack) patience() time.Duration {
	if a.silent {
		return 400 * time.Millisecond
	}
	return 10 * time.Second
}

// refused makes the server answer with an error after it has done the request. Opens are not refused unless that ends
// the session, because the file would stay open.
func refused(status uint32, ends bool) func(f *smbtest.Frame) smbtest.Verdict {
	return func(f *smbtest.Frame) smbtest.Verdict {
		if f.Clear() && (ends || !f.Is(smbtest.Create, false)) {
			f.Refuse(status)
		}
		return smbtest.Pass
	}
}

func always(v smbtest.Verdict) func(f *smbtest.Frame) smbtest.Verdict {
	return func(*smbtest.Frame) smbtest.Verdict { return v }
}

func attacks() map[string]attack {
	few := []string{"put a pack", "get of 2 MiB", "list snapshots", "delete"}
	waits := []string{"get of 2 MiB", "list snapshots", "delete"}
	return map[string]attack{
		"a request is lost":      {on: always(smbtest.Cut)},
		"half a request arrives": {on: always(smbtest.Half), of: few},
		"an answer is lost":      {answers: true, on: always(smbtest.Cut)},
		"half an answer arrives": {answers: true, on: always(smbtest.Half), of: few},
		"no answer ever":         {answers: true, on: always(smbtest.Drop), of: waits, silent: true},
		"half of what was read": {answers: true, on: func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(smbtest.Read, false) {
				f.HalveRead()
			}
			return smbtest.Pass
		}},
		"the share was closed":     {answers: true, on: refused(session.StatusNetworkNameDeleted, true), of: few},
		"the session was deleted":  {answers: true, on: refused(session.StatusUserSessionDeleted, true), of: few},
		"the handle was closed":    {answers: true, on: refused(session.StatusFileClosed, false)},
		"the disk does not answer": {answers: true, fails: true, on: refused(0xC0000185, false)}, // STATUS_IO_DEVICE_ERROR
		"the job ends":             {ends: true, fails: true, on: always(smbtest.Pass)},
		"the server is too busy":   {answers: true, on: refused(session.StatusInsufficientResources, false)},
	}
}

// open connects. With a short timeout it may need several attempts, because a logon takes time.
func (h *shelf) open(request time.Duration) (st *smb.Store) {
	h.t.Helper()
	o := smb.Options{
		Protection: smb.AsOffered, Parallel: of(2), Credentials: password(smbtest.Password),
		Patience: smb.Patience{Request: request, Outage: 20 * time.Second, Idle: time.Hour},
	}
	require.Eventually(h.t, func() (ok bool) {
		var err error
		at := through(h.proxy, h.server)
		at.Path = h.folder
		st, err = smb.Open(h.t.Context(), at, o)
		return err == nil
	}, 20*time.Second, time.Millisecond)
	return st
}

// TestNoAnswerIsMadeUp strikes at each request and at each answer of each operation in turn, in every way. What comes
// out is right or an error: never a shorter list, other bytes, a file that is said to be missing, or one that is said
// to be stored and is not.
func TestNoAnswerIsMadeUp(t *testing.T) {
	step := int64(testkit.Rounds(5, 3, 1)) // of the frames, each is struck in a long run
	for way, a := range attacks() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newShelf(t, "")
			st := h.open(a.patience())
			defer func() { require.NoError(t, st.Close()) }()
			smb.Settle(st)
			for _, name := range slices.Sorted(maps.Keys(operations())) {
				o := operations()[name]
				if a.of != nil && !slices.Contains(a.of, name) {
					continue
				}
				for n, more := int64(1), true; more; n += step {
					require.Less(t, n, int64(300))
					more = h.strike(st, o, a, n, name)
				}
			}
			require.Empty(t, temps(t, h.server.Folder))
		})
	}
}

// strike does an operation with an attack on its n-th frame, and reports whether there was one.
func (h *shelf) strike(st *smb.Store, o operation, a attack, n int64, what string) bool {
	h.t.Helper()
	if o.begin != nil {
		o.begin(h)
	}
	var frames atomic.Int64
	ctx, end := context.WithCancelCause(h.t.Context())
	defer end(nil)
	h.proxy.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.ToServer == a.answers || frames.Add(1) != n {
			return smbtest.Pass
		}
		if a.ends {
			end(fmt.Errorf("%w: %w", io.EOF, fs.ErrNotExist))
		}
		return a.on(f)
	})
	wrong, err := o.do(ctx, h, st)
	smb.Settle(st)
	h.proxy.Filter(always(smbtest.Pass))
	require.Empty(h.t, wrong, "%s, frame %d", what, n)
	require.NotErrorIs(h.t, err, store.ErrNotExist, "%s, frame %d", what, n)
	require.NotErrorIs(h.t, err, store.ErrShort, "%s, frame %d", what, n)
	if !a.fails {
		require.NoError(h.t, err, "%s, frame %d", what, n)
	}
	if err == nil && o.end != nil {
		require.Empty(h.t, o.end(h), "%s, frame %d", what, n)
	}
	return frames.Load() >= n
}

// away detaches the disk of the repository: the empty mount folder remains. It returns a function that attaches the
// disk again, and returns the files that were put into the folder meanwhile.
func (h *shelf) away() (back func() (left []string)) {
	disk, empty := h.root()+".disk", h.root()+".empty"
	assert.NoError(h.t, os.Rename(h.root(), disk))
	assert.NoError(h.t, os.MkdirAll(empty, 0o700))
	assert.NoError(h.t, os.Rename(empty, h.root()))
	return sync.OnceValue(func() []string {
		assert.NoError(h.t, os.Rename(h.root(), empty))
		assert.NoError(h.t, os.Rename(disk, h.root()))
		left, err := filepath.Glob(empty + "/*")
		assert.NoError(h.t, err)
		return left
	})
}

// TestEmptyMountPointIsNoRepository takes the disk of the server away at each request of each operation, and brings it
// back some requests later, or never. If the disk is a part of the share, all sessions see the change at once. If it is
// the share, sessions from before continue on the disk, and new sessions see an empty folder for ever.
func TestEmptyMountPointIsNoRepository(t *testing.T) {
	for folder, c := range map[string]struct {
		verdict smbtest.Verdict
		of      []string
		later   []int64
	}{
		"repo": {smbtest.Pass, []string{"put a pack", "get", "stat", "list packs", "list snapshots", "delete"},
			[]int64{1, 2, 3, 4, 5, 1000}},
		"": {smbtest.Cut, []string{"put a pack", "stat", "list packs"}, []int64{7, 1000}},
	} {
		t.Run(cmp.Or(folder, "the share"), func(t *testing.T) {
			t.Parallel()
			h := newShelf(t, folder)
			st := h.open(10 * time.Second)
			defer func() { require.NoError(t, st.Close()) }()
			smb.Settle(st)
			for _, name := range c.of {
				for n, more := int64(1), true; more && n < 12; n++ {
					for _, later := range c.later {
						more = h.strikeDisk(st, operations()[name], c.verdict, n, later)
					}
				}
			}
		})
	}
}

// strikeDisk is strike with the disk of the server: it goes at the n-th request, and is back some requests later.
func (h *shelf) strikeDisk(st *smb.Store, o operation, verdict smbtest.Verdict, n, later int64) bool {
	t := h.t
	what := fmt.Sprintf("request %d, back after %d", n, later)
	if o.begin != nil {
		o.begin(h)
	}
	var frames atomic.Int64
	var back atomic.Pointer[func() []string]
	h.proxy.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if !f.ToServer {
			return smbtest.Pass
		}
		at := frames.Add(1)
		if bring := back.Load(); at >= n+later && bring != nil {
			(*bring)()
		}
		if at == n {
			bring := h.away()
			back.Store(&bring)
			return verdict
		}
		return smbtest.Pass
	})
	wrong, err := o.do(t.Context(), h, st)
	smb.Settle(st)
	h.proxy.Filter(always(smbtest.Pass))
	if bring := back.Load(); bring != nil {
		require.Empty(t, (*bring)(), "%s: it was written to what lies beneath", what)
	}
	require.Empty(t, wrong, what)
	require.NotErrorIs(t, err, store.ErrNotExist, what)
	require.NotErrorIs(t, err, store.ErrShort, what)
	if err == nil && o.end != nil {
		require.Empty(t, o.end(h), what)
	}
	if verdict == smbtest.Cut {
		h.proxy.CutAll() // what sees the empty folder would do so for ever
	}
	return frames.Load() >= n
}

// TestCalledOffByAnother: the session of several jobs ends because one of them is cancelled, for a reason that could
// be taken for an answer. It is none for the others.
func TestCalledOffByAnother(t *testing.T) {
	h := newShelf(t, "")
	st, err := smb.Open(t.Context(), through(h.proxy, h.server),
		smb.Options{Protection: smb.AsOffered, Parallel: of(1), Credentials: password(smbtest.Password)})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	smb.Settle(st)
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	var lost atomic.Int64
	h.proxy.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Connection > 0 {
			return smbtest.Pass
		}
		if lost.Add(1) == 2 { // of one operation each
			end(fmt.Errorf("%w: %w: %w", io.EOF, fs.ErrNotExist, store.ErrNotExist))
		}
		return smbtest.Drop
	})
	var both sync.WaitGroup
	both.Go(func() { assert.ErrorIs(t, st.Get(ctx, snapshot(1), 0, make([]byte, 8)), io.EOF) })
	both.Go(func() {
		wrong, err := operations()["list snapshots"].do(t.Context(), h, st)
		assert.NoError(t, err)
		assert.Empty(t, wrong)
	})
	both.Wait()
	require.EqualValues(t, 2, h.proxy.Accepted())
}

// A repository without the folder of its snapshots is not one without snapshots: what they need would be removed. None
// is made when a snapshot is stored, either, or the next listing would have that one alone.
func TestFolderOfSnapshotsIsMissing(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("config")))
	require.NoError(t, st.Put(t.Context(), snapshot(1), []byte("x")))
	folder := filepath.Join(s.Folder, store.Snapshot.Folder())
	list := func(kind store.Kind) (n int, err error) {
		for _, err := range st.List(t.Context(), kind) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	require.NoError(t, os.Rename(folder, folder+".away"))
	_, err := list(store.Snapshot)
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "folder of the snapshots is missing")
	require.ErrorIs(t, st.Put(t.Context(), snapshot(2), []byte("x")), store.ErrGone)
	require.NoDirExists(t, folder)
	require.NoError(t, os.Rename(folder+".away", folder))
	n, err := list(store.Snapshot)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// Another repository in the place of this one lacks the requested file, which proves nothing about this one.
func TestAnotherRepositoryIsNoAnswer(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("config")))
	require.NoError(t, st.Put(t.Context(), snapshot(1), []byte("x")))
	_, err := st.Stat(t.Context(), snapshot(2))
	require.ErrorIs(t, err, store.ErrNotExist)
	require.NoError(t, os.Remove(filepath.Join(s.Folder, snapshot(1).Path())))
	require.NoError(t, os.WriteFile(filepath.Join(s.Folder, "config"), []byte("another"), 0o600))
	_, err = st.Stat(t.Context(), snapshot(1))
	require.ErrorIs(t, err, store.ErrGone)
	require.NotErrorIs(t, err, store.ErrNotExist)
	for _, err := range st.List(t.Context(), store.Snapshot) {
		require.ErrorIs(t, err, store.ErrGone)
	}
}
