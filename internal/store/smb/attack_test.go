package smb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

func pack(i int) store.Name {
	return store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x%062x", i%256, i)}
}

func snapshot(i int) store.Name { return store.Name{Kind: store.Snapshot, ID: pack(i).ID} }

// content is what pack i holds.
func content(i int) []byte { return storetest.Pattern(700_000+i*7919%900_000, uint64(i)) }

// writer puts packs, several at once, and records the acknowledged ones.
type writer struct {
	mu    sync.Mutex
	acked []int
	errs  []error
}

// run puts packs from..to by four workers. It calls at(n) after the n-th acknowledgement.
func (w *writer) run(ctx context.Context, st store.Store, from, to int, at func(n int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(from))
	for range 4 {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < to; i = int(next.Add(1) - 1) {
				err := st.Put(ctx, pack(i), content(i))
				w.mu.Lock()
				if err != nil {
					w.errs = append(w.errs, err)
				} else {
					w.acked = append(w.acked, i)
				}
				n := len(w.acked)
				w.mu.Unlock()
				if err == nil && at != nil {
					at(n)
				}
			}
		})
	}
	wg.Wait()
}

// whole checks that everything under a final name is whole, and that nothing acknowledged is missing.
func (w *writer) whole(t *testing.T, st store.Store) {
	t.Helper()
	found := map[store.Name]bool{}
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		found[info.Name] = true
		var i int
		_, err := fmt.Sscanf(info.Name.ID[2:], "%x", &i)
		require.NoError(t, err)
		p := make([]byte, info.Size)
		require.NoError(t, st.Get(t.Context(), info.Name, 0, p))
		require.True(t, bytes.Equal(content(i), p), "torn: %s", info.Name)
	}
	for _, i := range w.acked {
		require.True(t, found[pack(i)], "acknowledged and lost: %s", pack(i))
	}
}

// temps are the temporary files below a folder of this machine.
func temps(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), store.TempPrefix) {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// TestIdleSessionsEndedByTheServer is what "deadtime" and a restart in good order do: the server closes connections on
// which nothing is under way.
func TestIdleSessionsEndedByTheServer(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{Parallel: of(2), Patience: smb.Patience{Outage: -1}})
	var w writer
	w.run(t.Context(), st, 0, 8, nil)
	require.Empty(t, w.errs)
	for _, pid := range s.Clients() {
		s.Control(fmt.Sprint(pid), "shutdown")
	}
	s.AwaitClients(0)
	w.run(t.Context(), st, 8, 16, nil)
	require.Empty(t, w.errs, "a connection that ended while nothing was under way is no failure")
	w.whole(t, st)
}

// outlast waits while the server counts: its clock cannot be moved.
func outlast(d time.Duration) { time.Sleep(d) }

func through(p *smbtest.Proxy, s *smbtest.Server) smb.Target {
	at := target(s, "")
	at.Port = p.Port
	return at
}

// TestDroppedRenameAnswer: the answer never comes and the connection stays. The deadline ends the wait; the file is not
// sent again.
func TestDroppedRenameAnswer(t *testing.T) {
	t.Parallel()
	for _, verify := range []smb.Verify{smb.VerifyTrailer, smb.VerifyOff} {
		s := smbtest.Start(t, smbtest.Config{})
		p := smbtest.NewProxy(t, s.Addr(), 0)
		st := create(t, through(p, s),
			smb.Options{Protection: smb.AsOffered, Verify: verify, Patience: smb.Patience{Request: time.Second}})
		var writes, dropped atomic.Int64
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(smbtest.Write, true) {
				writes.Add(1)
			}
			if f.Is(smbtest.SetInfo, false) && dropped.Add(1) == 1 {
				return smbtest.Drop
			}
			return smbtest.Pass
		})
		data := content(1)[:100_000]
		require.NoError(t, st.Put(t.Context(), pack(1), data))
		require.Positive(t, dropped.Load())
		require.EqualValues(t, 1, writes.Load(), "it was sent again")
		got := make([]byte, len(data))
		require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
		require.True(t, bytes.Equal(data, got))
		require.Empty(t, temps(t, s.Folder))
	}
}

// TestLostRemoval: removing again what an unanswered request removed is success.
func TestLostRemoval(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered})
	require.NoError(t, st.Put(t.Context(), pack(1), content(1)))
	var fired atomic.Bool
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(smbtest.SetInfo, false) && !fired.Swap(true) {
			return smbtest.Cut
		}
		return smbtest.Pass
	})
	require.NoError(t, st.Delete(t.Context(), pack(1)))
	require.True(t, fired.Load())
	require.ErrorIs(t, st.Delete(t.Context(), pack(1)), store.ErrNotExist)
}

// TestLostAnswersToPutNewAndFence: an answer is lost, or is an error although the server did what it was asked. The
// caller, who repeats what failed and replaces the file that it finds, has its file; nothing else takes the name.
func TestLostAnswersToPutNewAndFence(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered})
	other := create(t, target(s, ""), smb.Options{})
	putNew := func() error {
		_, err := st.PutNew(t.Context(), lease(1), content(1)[:300])
		if errors.Is(err, store.ErrExists) {
			err = st.Put(t.Context(), lease(1), content(1)[:300])
		}
		return err
	}
	fence := func() error { return st.Fence(t.Context(), lease(1)) }
	struck := 0
	for way, strike := range map[string]func(f *smbtest.Frame) smbtest.Verdict{
		"lost":  func(*smbtest.Frame) smbtest.Verdict { return smbtest.Cut },
		"wrong": refused(0xC0000185, false), // STATUS_IO_DEVICE_ERROR
	} {
		for what, do := range map[string]func() error{"put new": putNew, "fence": fence} {
			for n, more := int64(1), true; more; n++ {
				smb.Settle(st)
				var answers atomic.Int64
				p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
					if !f.ToServer && answers.Add(1) == n {
						return strike(f)
					}
					return smbtest.Pass
				})
				err := do()
				smb.Settle(st)
				p.Filter(always(smbtest.Pass))
				if err != nil && way == "wrong" {
					require.NotErrorIs(t, err, store.ErrFenced)
					err = do()
				}
				require.NoError(t, err, "%s, %s, answer %d", what, way, n)
				info, err := other.Stat(t.Context(), lease(1))
				require.NoError(t, err)
				require.Equal(t, what == "fence", info.Fence)
				if what == "fence" {
					_, err = other.PutNew(t.Context(), lease(1), nil)
					require.ErrorIs(t, err, store.ErrFenced)
				} else {
					got := make([]byte, 300)
					require.NoError(t, other.Get(t.Context(), lease(1), 0, got))
					require.Equal(t, content(1)[:300], got)
					require.ErrorIs(t, other.Fence(t.Context(), lease(1)), store.ErrExists)
				}
				require.NoError(t, other.Delete(t.Context(), lease(1)))
				more = answers.Load() >= n
				struck++
			}
		}
	}
	require.Greater(t, struck, 12)
	require.Empty(t, temps(t, s.Folder))
}

// TestTornWrites: a server that writes less than it reports is detected before Put returns.
func TestTornWrites(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	for _, c := range []struct {
		lies   int64
		verify smb.Verify
		last   bool // lie about the last write of the file, by offset
		want   error
	}{
		{1, smb.VerifyTrailer, true, nil},
		{2, smb.VerifyTrailer, true, nil},
		{1, smb.VerifyFull, false, nil},
		{1 << 30, smb.VerifyTrailer, true, smb.ErrTorn},
	} {
		t.Run(fmt.Sprintf("%d times, verify %d", c.lies, c.verify), func(t *testing.T) {
			p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
			st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Verify: c.verify})
			data := storetest.Pattern(2<<20+300_000, 5)
			var lied atomic.Int64
			var claims sync.Map
			p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
				if f.Is(smbtest.Write, true) && (len(f.Data) < 1<<20) == c.last && lied.Add(1) <= c.lies {
					claims.Store([2]uint64{uint64(f.Connection), f.Message()}, f.HalveWrite())
				}
				if f.Is(smbtest.Write, false) && !f.Pending() {
					if n, ok := claims.LoadAndDelete([2]uint64{uint64(f.Connection), f.Message()}); ok {
						f.SetWritten(n.(uint32))
					}
				}
				return smbtest.Pass
			})
			err := st.Put(t.Context(), pack(1), data)
			require.Positive(t, lied.Load())
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, "check the disk")
				_, err := st.Stat(t.Context(), pack(1))
				require.ErrorIs(t, err, store.ErrNotExist, "a torn file stays under its final name")
			} else {
				require.NoError(t, err)
				got := make([]byte, len(data))
				require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
				require.True(t, bytes.Equal(data, got))
			}
			require.Empty(t, temps(t, s.Folder))
		})
	}
}

// hold keeps a frame on a slow line.
func hold(d time.Duration) { time.Sleep(d) }

// TestShortOutagesOnASlowLine: each attempt to store a file takes longer than an outage may, since the line is slow,
// and the connection breaks during several requests. The server is away only for moments, so the operation continues.
func TestShortOutagesOnASlowLine(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	const pieces, breaks, slow = 10, 3, 150 * time.Millisecond
	st := create(t, through(p, s),
		smb.Options{Protection: smb.AsOffered, Parallel: of(1), Patience: smb.Patience{Outage: pieces * slow / 2}})
	var writes, broken atomic.Int64
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if !f.Is(smbtest.Write, true) {
			return smbtest.Pass
		}
		hold(slow)
		if writes.Add(1)%pieces == 0 && broken.Add(1) <= breaks {
			return smbtest.Cut
		}
		return smbtest.Pass
	})
	require.NoError(t, st.Put(t.Context(), pack(1), storetest.Pattern(pieces<<20, 5)))
	require.Greater(t, broken.Load(), int64(breaks))
}

// TestNothingReadIsNoProof: a server that keeps half of a piece, and answers with nothing when it is asked for it, has
// not proven that it has it.
func TestNothingReadIsNoProof(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Verify: smb.VerifyFull})
	var claims sync.Map
	var empty atomic.Int64
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		is := [2]uint64{uint64(f.Connection), f.Message()}
		switch {
		case f.Is(smbtest.Write, true) && len(f.Data) > 1<<20:
			claims.Store(is, f.HalveWrite())
		case f.Is(smbtest.Write, false) && !f.Pending():
			if n, ok := claims.LoadAndDelete(is); ok {
				f.SetWritten(n.(uint32))
			}
		case f.Is(smbtest.Read, false) && len(f.Data) > 1<<20:
			empty.Add(1)
			f.EmptyRead()
		}
		return smbtest.Pass
	})
	err := st.Put(t.Context(), pack(1), storetest.Pattern(2<<20+300_000, 5))
	require.Positive(t, empty.Load())
	require.ErrorIs(t, err, smb.ErrTorn)
	require.ErrorContains(t, err, "after it was sent 3 times: check the disk and the memory of the server of "+
		st.Location()+", and its log; nothing relies on this file yet")
	_, err = st.Stat(t.Context(), pack(1))
	require.ErrorIs(t, err, store.ErrNotExist)
}

// TestCancelledBeforeTheProof: a job ends when a file that the server tore has its name and was not looked at yet. It
// does not stay: programs that list packs without an index would find it, and a torn segment or snapshot blocks others.
func TestCancelledBeforeTheProof(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	torn := content(1)[:100_000]
	for _, name := range []store.Name{pack(1), snapshot(1), {Kind: store.Index, ID: pack(1).ID}} {
		for when, is := range moments {
			t.Run(name.Kind.String()+", "+when, func(t *testing.T) {
				p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
				st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered})
				require.ErrorIs(t, endedEarly(t, p, st, name, torn, is, true), errEnough)
				require.Empty(t, temps(t, s.Folder))
				_, err := st.Stat(t.Context(), name)
				require.ErrorIs(t, err, store.ErrNotExist)
			})
		}
	}
}

// TestCancelledWhileReplacing: the job ends while it stores a segment again that other clients rely on. The server
// keeps the received data, and the segment stays.
func TestCancelledWhileReplacing(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	name, data := store.Name{Kind: store.Index, ID: pack(1).ID}, content(1)[:100_000]
	for when, is := range moments {
		t.Run(when, func(t *testing.T) {
			p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
			st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered})
			require.NoError(t, st.Put(t.Context(), name, data))
			if err := endedEarly(t, p, st, name, data, is, false); err != nil { // it may be proven in time
				require.ErrorIs(t, err, errEnough)
			}
			got := make([]byte, len(data))
			require.NoError(t, st.Get(t.Context(), name, 0, got))
			require.True(t, bytes.Equal(data, got))
		})
	}
}

// moments of a Put when its file is not proven.
var moments = map[string]func(f *smbtest.Frame) bool{
	"rename on its way": func(f *smbtest.Frame) bool { return f.IsRename() },
	"renamed":           func(f *smbtest.Frame) bool { return f.Is(smbtest.SetInfo, false) },
	"being read":        func(f *smbtest.Frame) bool { return f.Is(smbtest.Read, true) },
	"read":              func(f *smbtest.Frame) bool { return f.Is(smbtest.Read, false) },
}

var errEnough = errors.New("enough")

// endedEarly stores a file, for a job that ends at the first frame that matches; the server tears the file if tear is
// set.
func endedEarly(t *testing.T, p *smbtest.Proxy, st store.Store, name store.Name, data []byte,
	so func(*smbtest.Frame) bool, tear bool) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var claimed sync.Map
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if tear && f.Is(smbtest.Write, true) {
			claimed.Store(f.Message(), f.HalveWrite())
		}
		if tear && f.Is(smbtest.Write, false) && !f.Pending() {
			if n, ok := claimed.LoadAndDelete(f.Message()); ok {
				f.SetWritten(n.(uint32))
			}
		}
		if so(f) {
			cancel(errEnough)
		}
		return smbtest.Pass
	})
	return st.Put(ctx, name, data)
}

// TestServerSilent: nothing is answered any more and nothing breaks.
func TestServerSilent(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s),
		smb.Options{Protection: smb.AsOffered, Patience: smb.Patience{Request: 3 * time.Second, Outage: -1}})
	require.NoError(t, st.Put(t.Context(), pack(1), content(1)))
	p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Drop })
	_, err := st.Stat(t.Context(), pack(1))
	require.ErrorIs(t, err, store.ErrTemporary)
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "does not answer")

	cause := errors.New("the user has had enough")
	p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
	require.NoError(t, st.Get(t.Context(), pack(1), 0, make([]byte, 1)), "it speaks again")
	ctx, cancel := context.WithCancelCause(t.Context())
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		cancel(cause)
		return smbtest.Drop
	})
	require.ErrorIs(t, st.Put(ctx, pack(2), content(2)), cause)
}

// TestSilentServerIsGivenUp: a server accepts connections and sends nothing. The operation that meets this gives up
// after Patience.Silence, those after it at once, and Close does not wait for answers either.
func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	const patience = 2 * time.Second
	st, err := smb.Open(t.Context(), through(p, s), smb.Options{Protection: smb.AsOffered, Parallel: of(2),
		Credentials: password(smbtest.Password),
		Patience:    smb.Patience{Request: patience, Silence: 2 * patience}})
	require.NoError(t, err)
	var w writer
	w.run(t.Context(), st, 0, 8, nil) // over both sessions
	require.Empty(t, w.errs)
	require.Equal(t, 2, p.Accepted())
	smb.Settle(st)
	var silent atomic.Bool // from the first write on: then there is a temporary file, which is not waited for
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(smbtest.Write, true) {
			silent.Store(true)
		}
		if silent.Load() {
			return smbtest.Drop
		}
		return smbtest.Pass
	})
	begin := time.Now()
	err = st.Put(t.Context(), snapshot(20), content(2))
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorIs(t, err, store.ErrTemporary)
	require.Less(t, time.Since(begin), 2*patience+time.Second)
	begin = time.Now()
	require.ErrorIs(t, st.Delete(t.Context(), lease(1)), store.ErrGone)
	_, err = st.Stat(t.Context(), pack(1))
	require.ErrorIs(t, err, store.ErrGone)
	require.Less(t, time.Since(begin), patience/2)
	require.NoError(t, st.Close())
	require.Less(t, time.Since(begin), 2*patience)
}

// TestRequestsAreNoSignOfLife: other requests begin on a session while one is not answered. They do not prolong its
// wait.
func TestRequestsAreNoSignOfLife(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	const patience = time.Second
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Parallel: of(1),
		Patience: smb.Patience{Request: patience, Outage: -1}})
	require.NoError(t, st.Put(t.Context(), snapshot(1), []byte("x")))
	smb.Settle(st)
	p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Drop })
	var others sync.WaitGroup
	begin := time.Now()
	for i := range 8 {
		others.Go(func() {
			hold(time.Duration(i) * patience / 4)
			_, _ = st.Stat(t.Context(), snapshot(1)) // it fails too
		})
	}
	_, err := st.Stat(t.Context(), snapshot(1))
	require.ErrorIs(t, err, store.ErrGone)
	require.Less(t, time.Since(begin), 5*patience/2, "the request, and a new connection")
	others.Wait()
}

// TestEcho: an idle session is kept alive.
func TestEcho(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	echoed := make(chan struct{}, 100)
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.Is(smbtest.Echo, false) {
			echoed <- struct{}{}
		}
		return smbtest.Pass
	})
	st := create(t, through(p, s),
		smb.Options{Protection: smb.AsOffered, Patience: smb.Patience{Idle: 50 * time.Millisecond}})
	<-echoed
	<-echoed
	require.NoError(t, st.Put(t.Context(), pack(1), content(1)))
	require.Equal(t, 1, p.Accepted())
}

// TestOutageIsReportedOnce: of 32 operations that wait for a server, and fail several times for several reasons, one
// reports the outage, and one that the server is back.
func TestOutageIsReportedOnce(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	var mu sync.Mutex
	var reported []string
	back := 0
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Parallel: of(8), Patience: smb.Patience{
		Notify: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, err.Error())
		},
		Back: func() { mu.Lock(); defer mu.Unlock(); back++ },
	}})
	require.NoError(t, st.Put(t.Context(), pack(1), content(1)))
	until := p.Accepted() + 100
	p.Filter(func(*smbtest.Frame) smbtest.Verdict {
		if p.Accepted() < until {
			return smbtest.Cut
		}
		return smbtest.Pass
	})
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			_, err := st.Stat(t.Context(), pack(1))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.Len(t, reported, 1, "%q", reported)
	require.Equal(t, 1, back)
}

func TestRefusals(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{Global: []string{"map to guest = bad password", "guest account = " + me(t)},
		Share: []string{"guest ok = yes"}})
	plain := smbtest.Start(t, smbtest.Config{})
	const wrong = "this-is-the-wrong-password"
	at := func(s *smbtest.Server, change func(*smb.Target)) smb.Target {
		to := target(s, "")
		change(&to)
		return to
	}
	same := func(*smb.Target) {}
	for name, c := range map[string]struct {
		at   smb.Target
		pass string
		want []error
		says string
	}{
		"wrong password": {at(plain, same), wrong, []error{smb.ErrLogon}, "check the user"},
		"unknown user": {at(plain, func(t *smb.Target) { t.User = "nobody-here" }), wrong, []error{smb.ErrLogon},
			"nobody-here"},
		"taken for a guest": {at(s, same), wrong, []error{smb.ErrLogon}, "as a guest"},
		"unknown share": {at(plain, func(t *smb.Target) { t.Share = "absent" }), smbtest.Password,
			[]error{store.ErrGone}, `no share "absent"`},
		"unknown host": {at(plain, func(t *smb.Target) { t.Host = "nas.invalid" }), smbtest.Password,
			[]error{store.ErrGone}, "nas.invalid"},
		"nobody listens": {at(plain, func(t *smb.Target) { t.Port = 1 }), smbtest.Password,
			[]error{store.ErrGone, store.ErrTemporary}, "switch on sharing by SMB"},
		"folder is not there": {at(plain, func(t *smb.Target) { t.Path = "not/there" }), smbtest.Password,
			[]error{store.ErrNotExist}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := smb.Open(t.Context(), c.at, smb.Options{Credentials: password(c.pass)})
			for _, want := range c.want {
				require.ErrorIs(t, err, want)
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), c.pass)
		})
	}
	guest := at(s, func(t *smb.Target) { t.User = "guest" })
	st, err := smb.Create(t.Context(), guest, smb.Options{Protection: smb.AsOffered})
	require.NoError(t, err, "a guest who says so")
	require.NoError(t, st.Close())
	for _, protection := range []smb.Protection{smb.Protected, smb.Signed, smb.Encrypted} {
		_, err = smb.Open(t.Context(), guest, smb.Options{Protection: protection})
		require.ErrorIs(t, err, smb.ErrInsecure)
		require.ErrorContains(t, err, "guests can neither sign nor encrypt")
		require.ErrorContains(t, err, "--smb-sign if-offered")
	}
}

func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	require.NoError(t, err)
	return u.Username
}

func TestSecretsAreNotShown(t *testing.T) {
	secret := smb.Secret{User: "u", Password: "hunter2"}
	text, err := json.Marshal(map[string]any{"s": secret, "p": &secret})
	require.NoError(t, err)
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %v %s", secret, secret, secret, secret, secret, secret, &secret, text)
	require.NotContains(t, shown, "hunter2")
	require.NotContains(t, shown, fmt.Sprintf("%x", "hunter2"))
}
