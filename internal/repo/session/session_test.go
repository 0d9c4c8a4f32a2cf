package session

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// mapIndex is an Index in memory.
type mapIndex struct {
	mu    sync.Mutex
	packs []blobindex.PackInfo
	blobs map[format.ID]uint32
	fail  error

	behind     error // why it cannot be brought up to date
	unfinished int   // how often it was set
}

func (m *mapIndex) Sync(context.Context, map[format.ID]bool, bool) error { return m.behind }
func (m *mapIndex) PutBack(context.Context) error                        { return nil }

func (m *mapIndex) SetUnfinished(on bool) {
	if on {
		m.unfinished++
	}
}

func (m *mapIndex) Lookup(ids []format.ID, out []blobindex.Found) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, id := range ids {
		n, ok := m.blobs[id]
		if out[i] = (blobindex.Found{}); ok {
			out[i].Pack = &m.packs[n]
		}
	}
	return m.fail
}

func (m *mapIndex) Merge(_ format.ID, seg *index.Segment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range seg.Packs {
		m.packs = append(m.packs, blobindex.PackInfo{ID: p.ID})
		for _, f := range p.Table.Frames {
			for _, b := range f.Blobs {
				m.blobs[b.ID] = uint32(len(m.packs) - 1)
			}
		}
	}
	return m.fail
}

func (m *mapIndex) Packs(yield func(blobindex.PackInfo) error) error {
	for _, p := range m.packs {
		if err := yield(p); err != nil {
			return err
		}
	}
	return nil
}

func target(t *testing.T, st store.Store) (Target, *mapIndex) {
	t.Helper()
	keys := seal.Derive(seal.MasterKey{1})
	x := &mapIndex{blobs: make(map[format.ID]uint32)}
	return Target{Store: st, Keys: keys, Index: x}, x
}

// add stores one blob that the caller knows to be new.
func add(t *testing.T, s *Session, kind pack.Kind, blob []byte) format.ID {
	t.Helper()
	id := s.to.Keys.Hasher().ID(blob)
	fresh := make([]bool, 1)
	require.NoError(t, s.Claim([]format.ID{id}, fresh))
	require.True(t, fresh[0])
	w := s.Writer(kind)
	require.NoError(t, w.Add(id, blob))
	require.NoError(t, w.Flush())
	return id
}

func leases(t *testing.T, st store.Store) (out []store.Info) {
	t.Helper()
	for info, err := range st.List(t.Context(), store.Lease) {
		require.NoError(t, err)
		out = append(out, info)
	}
	return out
}

// oddTarget answers one operation on leases with an error and does not do it.
type oddTarget struct {
	store.Store
	at   int32
	seen atomic.Int32
}

func (o *oddTarget) odd(name store.Name) error {
	if name.Kind == store.Lease {
		if o.seen.Add(1) == o.at {
			return errors.New("an answer that makes no sense")
		}
	}
	return nil
}

func (o *oddTarget) Put(ctx context.Context, name store.Name, data []byte) error {
	if err := o.odd(name); err != nil {
		return err
	}
	return o.Store.Put(ctx, name, data)
}

func (o *oddTarget) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	if err := o.odd(name); err != nil {
		return store.Info{}, err
	}
	return o.Store.PutNew(ctx, name, data)
}

func (o *oddTarget) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	if err := o.odd(name); err != nil {
		return store.Info{}, err
	}
	return o.Store.Stat(ctx, name)
}

func (o *oddTarget) Delete(ctx context.Context, name store.Name) error {
	if err := o.odd(name); err != nil {
		return err
	}
	return o.Store.Delete(ctx, name)
}

// A renewal of the lease is repeated after an error, whichever of its operations the target answers so.
func TestRenewalIsRepeated(t *testing.T) {
	for at := int32(2); at <= 3; at++ { // the first begins the session, the last ends it
		o := &oddTarget{Store: mem.New(), at: at}
		to, _ := target(t, o)
		require.NoError(t, Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
			return s.RenewOrFail(ctx)
		}), "operation %d", at)
		require.Empty(t, leases(t, o.Store))
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		to, _ := target(t, st)
		err := Run(t.Context(), to, Options{Holder: Holder{Host: "host"}}, func(ctx context.Context, s *Session) error {
			start := time.Now()
			for range 20 {
				time.Sleep(4 * time.Minute)
				synctest.Wait()
				all := leases(t, st)
				require.Len(t, all, 1)
				require.Len(t, all[0].Name.ID, 40)
				require.LessOrEqual(t, time.Since(all[0].Modified), 5*time.Minute)
			}
			data := make([]byte, leases(t, st)[0].Size)
			require.NoError(t, st.Get(ctx, leases(t, st)[0].Name, 0, data))
			plain, err := to.Keys.OpenObject(seal.LeaseObject, data)
			require.NoError(t, err)
			l, err := lease.Decode(plain)
			require.NoError(t, err)
			require.Equal(t, "host", l.Host)
			require.Equal(t, start.Unix(), l.Started)
			require.Equal(t, start.Add(80*time.Minute).Unix(), l.Heartbeat)
			_, err = s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
			require.NoError(t, err)
			require.False(t, s.lease.wasLost())
			return nil
		})
		require.NoError(t, err)
		require.Empty(t, leases(t, st))
	})
}

// deaf is a store on which nothing is written while off is set, as when a laptop sleeps or a share is away.
type deaf struct {
	store.Store
	off atomic.Bool
}

func (d *deaf) Put(ctx context.Context, name store.Name, data []byte) error {
	if d.off.Load() {
		return store.ErrGone
	}
	return d.Store.Put(ctx, name, data)
}

func (d *deaf) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	if d.off.Load() {
		return store.Info{}, store.ErrGone
	}
	return d.Store.PutNew(ctx, name, data)
}

// The lease is checked by the clock of the target: a few failed renewals are no harm, half an hour of them is, also
// when no other client has touched the file.
func TestSilenceIsNoticed(t *testing.T) {
	for away, lost := range map[time.Duration]bool{20 * time.Minute: false, 40 * time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			st := &deaf{Store: mem.New()}
			to, x := target(t, st)
			err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
				st.off.Store(true)
				time.Sleep(away)
				st.off.Store(false)
				require.NoError(t, s.lease.renew(ctx))
				require.Equal(t, lost, s.lease.wasLost())
				time.Sleep(time.Hour)
				require.Equal(t, lost, s.lease.wasLost(), "what was lost stays lost")
				x.packs = append(x.packs, blobindex.PackInfo{ID: format.ID{9}}) // named, and not there
				_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
				return err
			})
			if lost {
				require.ErrorIs(t, err, ErrLeaseLost)
			} else {
				require.NoError(t, err, "while the lease holds, there is no recheck")
			}
		})
	}
}

// asleep is a store that blocks while a snapshot is put, like a sleeping machine: no lease is renewed meanwhile.
type asleep struct {
	deaf
	during func() // is called in the middle
	after  error  // what comes of the snapshot
}

func (a *asleep) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind != store.Snapshot {
		return a.deaf.Put(ctx, name, data)
	}
	a.off.Store(true)
	a.during()
	a.off.Store(false)
	if err := a.deaf.Store.Put(ctx, name, data); err != nil {
		return err
	}
	return a.after
}

// fenceOff treats the only writer as dead, as a prune does.
func fenceOff(t *testing.T, st store.Store) {
	t.Helper()
	last := slices.MaxFunc(files(t, st, store.Lease), func(a, b store.Name) int { return strings.Compare(a.ID, b.ID) })
	next, ok := lease.NextName(last.ID)
	require.True(t, ok)
	require.NoError(t, st.Fence(t.Context(), store.Name{Kind: store.Lease, ID: next}))
	require.NoError(t, st.Delete(t.Context(), last))
}

// TestSnapshotOfALongSleepIsTakenBack: a machine sleeps while it puts a snapshot, for so long that its lease expires,
// and a prune of another machine removes packs that the snapshot relies on. The snapshot does not stay, with any
// behaviour of this machine's clock, and also if the lease is renewed in the background first.
func TestSnapshotOfALongSleepIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		sleep time.Duration // with nothing removed if it is short
		awake time.Duration // then, before the snapshot is there
		still bool          // the clock of this machine does not go on
		after error
	}{
		"sleeps":                       {sleep: 2 * time.Hour},
		"renewed in the background":    {sleep: 2 * time.Hour, awake: 10 * time.Minute},
		"a clock that stands still":    {sleep: 2 * time.Hour, still: true},
		"the answer is lost":           {sleep: 2 * time.Hour, after: store.ErrGone},
		"not long":                     {sleep: 20 * time.Minute},
		"not long, the answer is lost": {sleep: 20 * time.Minute, after: store.ErrGone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &asleep{deaf: deaf{Store: mem.New()}, after: c.after}
				to, _ := target(t, st)
				opt := Options{}
				if began := time.Now(); c.still {
					opt.Tuning.Now = func() time.Time { return began }
				}
				long := c.sleep > LeaseExpiry
				st.during = func() {
					time.Sleep(c.sleep)
					if long { // as a prune does: first the fence, then the pack
						fenceOff(t, st)
						require.NoError(t, st.Delete(t.Context(), files(t, st, store.Pack)[0]))
					}
					st.off.Store(false)
					time.Sleep(c.awake)
				}
				err := Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
					add(t, s, pack.Data, []byte("blob"))
					_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
					return err
				})
				switch {
				case c.after != nil:
					require.ErrorIs(t, err, c.after)
				case long:
					require.ErrorIs(t, err, ErrLeaseLost)
				default:
					require.NoError(t, err)
				}
				if long {
					require.Empty(t, files(t, st, store.Snapshot))
				} else {
					require.Len(t, files(t, st, store.Snapshot), 1)
				}
			})
		})
	}
}

// A segment is written once the oldest pack has waited long enough, however few there are.
func TestSegmentsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		to, _ := target(t, st)
		opt := Options{Uploads: 1, Tuning: Tuning{DataPack: 1}} // every frame is a pack
		require.NoError(t, Run(t.Context(), to, opt, func(_ context.Context, s *Session) error {
			for i := range 10 {
				add(t, s, pack.Data, []byte{byte(i)})
				time.Sleep(25 * time.Second)
			}
			n := 0
			for _, err := range st.List(t.Context(), store.Index) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, 3, n, "after 60 s, 135 s and 210 s")
			return nil
		}))
	})
}

// Time bounds what a killed session loses: a pack that no other follows gets its segment, and an open pack is stored
// before it is full.
func TestCommitsByTime(t *testing.T) {
	for name, c := range map[string]struct {
		target int // size of a pack
		after  time.Duration
	}{"a full pack": {1, 75 * time.Second}, "an open pack": {1 << 20, 7 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			st := mem.New()
			to, x := target(t, st)
			opt := Options{Uploads: 1, Tuning: Tuning{DataPack: c.target}}
			require.NoError(t, Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
				require.Zero(t, x.unfinished)
				id := add(t, s, pack.Data, []byte("blob"))
				time.Sleep(c.after)
				synctest.Wait()
				require.Len(t, files(t, st, store.Index), 1, name)
				require.Contains(t, x.blobs, id)
				require.Equal(t, 1, x.unfinished)
				add(t, s, pack.Data, []byte("another"))
				_, err := s.Save(ctx, &snapshot.Snapshot{})
				return err
			}))
			require.Equal(t, 1, x.unfinished)
		})
	}
}

// Claims leave memory when their segment is merged; only those in flight remain.
func TestClaimsDoNotPileUp(t *testing.T) {
	to, _ := target(t, mem.New())
	opt := Options{Tuning: Tuning{Frame: 64, DataPack: 256, Segment: 1}}
	require.NoError(t, Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
		for i := range 1000 {
			add(t, s, pack.Data, []byte{byte(i), byte(i >> 8), 1})
		}
		require.Less(t, s.claims.size(), 200)
		require.NoError(t, s.Flush(ctx))
		require.Zero(t, s.claims.size())
		require.Zero(t, s.claims.open.Load())
		return nil
	}))
}

func (c *claims) size() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.Lock()
		n += len(s.blobs)
		s.Unlock()
	}
	return n
}

// gated lets Puts of packs through one by one.
type gated struct {
	store.Store
	entered chan struct{}
	leave   chan struct{}
}

func (g *gated) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack {
		g.entered <- struct{}{}
		select {
		case <-g.leave:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return g.Store.Put(ctx, name, data)
}

// While the target is slow, workers wait instead of filling the memory, and a failure wakes them.
func TestBuffersAreBounded(t *testing.T) {
	g := &gated{Store: mem.New(), entered: make(chan struct{}, 100), leave: make(chan struct{})}
	to, _ := target(t, g)
	stop := errors.New("enough")
	opt := Options{Uploads: 2, Tuning: Tuning{Frame: 1 << 10, DataPack: 1}}
	var added atomic.Int32
	err := Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
		done := make(chan error)
		go func() {
			var err error
			for i := 0; err == nil; i++ {
				blob := []byte{byte(i), byte(i >> 8)}
				w := s.Writer(pack.Data)
				if err = w.Add(s.to.Keys.Hasher().ID(blob), blob); err == nil {
					if err = w.Flush(); err == nil {
						added.Add(1)
					}
				}
			}
			done <- err
		}()
		<-g.entered
		<-g.entered
		for range 5 {
			g.leave <- struct{}{}
			<-g.entered // the next one can only begin once a buffer came back
		}
		_ = s.fail(stop)
		require.ErrorIs(t, <-done, stop)
		require.LessOrEqual(t, s.packers[0].made, 3)
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.LessOrEqual(t, added.Load(), int32(8))
}

func TestBufferCounts(t *testing.T) {
	for name, c := range map[string]struct {
		opt         Options
		data, trees int
	}{
		"default":    {Options{}, 3, 2},
		"uploads":    {Options{Uploads: 5}, 6, 2},
		"plenty":     {Options{Uploads: 3, Memory: 1 << 30}, 4, 2},
		"100 MiB":    {Options{Uploads: 8, Memory: 100 << 20}, 5, 2},
		"impossible": {Options{Uploads: 4, Memory: 1}, 1, 1},
		"24 MiB":     {Options{Memory: 24 << 20}, 1, 1},
	} {
		data, trees := bufferCounts(c.opt.withDefaults())
		require.Equal(t, [2]int{c.data, c.trees}, [2]int{data, trees}, name)
	}
	// And with the least memory a session still works, without a deadlock.
	to, _ := target(t, mem.New())
	opt := Options{Memory: 1, Uploads: 4, Tuning: Tuning{DataPack: 1, TreePack: 1}}
	require.NoError(t, Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
		for i := range 50 {
			add(t, s, pack.Data, []byte{byte(i)})
			add(t, s, pack.Trees, []byte{byte(i), 1})
		}
		_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
		return err
	}))
}

func TestLedgerAndTotalsAgreeWithTheTarget(t *testing.T) {
	st := mem.New()
	to, _ := target(t, st)
	l := report.New(time.Now)
	var totals Totals
	opt := Options{Level: -1, Ledger: l, Tuning: Tuning{Frame: 100, DataPack: 1000, Segment: 3}}
	require.NoError(t, Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
		for i := range 100 {
			add(t, s, pack.Data, []byte{byte(i), 0, 0, 0})
		}
		add(t, s, pack.Trees, []byte("tree"))
		_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
		totals = s.Totals()
		return err
	}))
	require.Greater(t, l.Bytes.Compressed.Load(), uint64(404))
	there, size, packs := map[store.Kind]int{}, 0, 0
	for _, kind := range []store.Kind{store.Pack, store.Index, store.Snapshot} {
		for info, err := range st.List(t.Context(), kind) {
			require.NoError(t, err)
			there[kind]++
			size += int(info.Size)
			if kind == store.Pack {
				packs += int(info.Size)
			}
		}
	}
	require.Equal(t, uint64(there[store.Pack]), l.Packs.Stored.Load())
	require.Equal(t, uint64(size), l.Bytes.Stored.Load())
	require.Equal(t, uint64(size), l.Bytes.Transferred.Load())
	require.GreaterOrEqual(t, l.Snapshot().Stages[report.Store], time.Duration(0))
	require.Equal(t, Totals{
		DataBlobs: 100, TreeBlobs: 1, DataRaw: 400, TreeRaw: 4, Packs: uint64(there[store.Pack]),
		Stored: uint64(size), InPacks: uint64(packs),
	}, totals)
}

// When the local cache fails, the session fails, and all later calls return the same error.
func TestIndexFailure(t *testing.T) {
	broken := errors.New("disk of the cache is full")
	to, x := target(t, mem.New())
	err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
		x.fail = broken
		require.ErrorIs(t, s.Claim([]format.ID{{1}}, make([]bool, 1)), broken)
		x.fail = nil
		require.ErrorIs(t, s.Claim([]format.ID{{1}}, make([]bool, 1)), broken)
		require.ErrorIs(t, s.Writer(pack.Data).Flush(), broken)
		_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
		require.ErrorIs(t, err, broken)
		return nil
	})
	require.ErrorIs(t, err, broken)
}

func TestClaimNeedsSpaceForItsAnswers(t *testing.T) {
	to, _ := target(t, mem.New())
	require.NoError(t, Run(t.Context(), to, Options{}, func(_ context.Context, s *Session) error {
		require.Error(t, s.Claim(make([]format.ID, 2), make([]bool, 1)))
		return nil
	}))
}

func TestErrorOfTheCallerComesThrough(t *testing.T) {
	mine := errors.New("mine")
	st := mem.New()
	to, x := target(t, st)
	err := Run(t.Context(), to, Options{}, func(context.Context, *Session) error { return mine })
	require.ErrorIs(t, err, mine)
	require.Empty(t, leases(t, st))
	x.behind = mine
	err = Run(t.Context(), to, Options{}, func(context.Context, *Session) error {
		t.Error("called without an index")
		return nil
	})
	require.ErrorIs(t, err, mine)
	require.Empty(t, leases(t, st))
}

// TestLateSnapshotIsNoParent: a snapshot that was published long after its writer renewed the lease may be taken back,
// so no other writer reuses its trees.
func TestLateSnapshotIsNoParent(t *testing.T) {
	for sleep, late := range map[time.Duration]bool{14 * time.Minute: false, 16 * time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			st := &asleep{deaf: deaf{Store: mem.New()}, during: func() { time.Sleep(sleep) }}
			to, _ := target(t, st)
			sn := &snapshot.Snapshot{Tree: format.ID{1}}
			var id format.ID
			save := func(ctx context.Context, s *Session) (err error) {
				id, err = s.Save(ctx, sn)
				return err
			}
			require.NoError(t, Run(t.Context(), to, Options{}, save))
			require.NotZero(t, sn.Renewed)
			require.NoError(t, Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
				reliable, err := s.FilterParents(ctx)
				require.NoError(t, err)
				require.Equal(t, !late, reliable(id, sn), "after %v", sleep)
				sn.Renewed.Sec += 7200
				require.False(t, reliable(id, sn), "renewed after it was published")
				return nil
			}))
		})
	}
}

// TestLeaseThatIsListedAndGone: a lease that stays in a stale listing may have been renewed under a name that the
// listing lacks.
func TestLeaseThatIsListedAndGone(t *testing.T) {
	st := &ghosts{Store: mem.New(), name: store.Name{Kind: store.Lease, ID: strings.Repeat("ab", 20)}}
	to, _ := target(t, st)
	for times, alive := range map[int]int{1: 0, 1000: 1} {
		st.shown = times
		require.NoError(t, Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
			others, err := s.Others(ctx)
			require.NoError(t, err)
			require.Len(t, others, alive)
			for _, o := range others {
				require.True(t, o.Alive)
				require.False(t, o.Acknowledges(format.ID{1}))
			}
			return nil
		}))
	}
}

// ghosts is a store that lists a missing file, a given number of times.
type ghosts struct {
	store.Store
	name  store.Name
	shown int
}

func (g *ghosts) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if g.shown--; g.shown >= 0 && kind == g.name.Kind && !yield(store.Info{Name: g.name}, nil) {
			return
		}
		g.Store.List(ctx, kind)(yield)
	}
}

// Claims against a map, with many goroutines.
func TestClaimsModel(t *testing.T) {
	c := newClaims()
	var wins [256]atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range wins {
				if c.add(format.ID{byte(i)}) {
					wins[i].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for i := range wins {
		require.EqualValues(t, 1, wins[i].Load())
	}
	require.EqualValues(t, 256, c.open.Load())
	c.drop(format.ID{0})
	require.True(t, c.add(format.ID{0}))
	c.keep(format.ID{1})
	for i := range wins {
		c.stored(format.ID{byte(i)})
		c.stored(format.ID{byte(i)}) // the same blob in two packs
	}
	require.Zero(t, c.open.Load())
	require.Equal(t, 1, c.size())
	require.False(t, c.add(format.ID{1}), "kept: the index would send us to the doomed pack")
}
