package repo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func TestDefaultsWork(t *testing.T) {
	st := mem.New()
	data := append(blobs(1, 300), make([]byte, 3<<20)) // one blob larger than a frame
	id, err := backUp(t.Context(), initialise(t, st), repo.SessionOptions{}, data)
	require.NoError(t, err)
	require.Len(t, names(t, st, store.Pack), 2)
	requireComplete(t, fresh(t, st), id, data)
}

func TestBlobTooLarge(t *testing.T) {
	r := initialise(t, mem.New())
	_, err := backUp(t.Context(), r, repo.SessionOptions{}, [][]byte{{1}, {2}, make([]byte, pack.MaxFrameRaw+1)})
	require.ErrorIs(t, err, session.ErrTooLarge)
}

// Two machines write into one repository at the same moment, sharing half of their data.
func TestTwoSessionsAtOnce(t *testing.T) {
	st := mem.New()
	initialise(t, st)
	shared := blobs(9, 100)
	data := [2][][]byte{append(blobs(1, 100), shared...), append(blobs(2, 100), shared...)}
	var ids [2]format.ID
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range data {
		r := fresh(t, st)
		wg.Go(func() { ids[i], errs[i] = backUp(t.Context(), r, small(), data[i]) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	r := fresh(t, st)
	all, err := r.Snapshots(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	for i := range data {
		requireComplete(t, r, ids[i], data[i])
	}
	require.Empty(t, names(t, st, store.Lease))
}

func TestClaimIsTrueOnce(t *testing.T) {
	r := initialise(t, mem.New())
	data := blobs(1, 400)
	h := r.Keys().Hasher()
	ids := make([]format.ID, len(data))
	for i := range data {
		ids[i] = h.ID(data[i])
	}
	var mu sync.Mutex
	count := make(map[format.ID]int)
	err := r.WithSession(t.Context(), small(), func(ctx context.Context, s *repo.Session) error {
		var wg sync.WaitGroup
		for range 4 { // four workers meet all blobs; packs and segments go out while they do
			wg.Go(func() {
				w := s.Writer(pack.Data)
				for i := 0; i < len(ids); i += 10 {
					var fresh [10]bool
					if s.Claim(ids[i:i+10], fresh[:]) != nil {
						return
					}
					for j := range fresh {
						if fresh[j] {
							mu.Lock()
							count[ids[i+j]]++
							mu.Unlock()
							_ = w.Add(ids[i+j], data[i+j])
						}
					}
				}
				_ = w.Flush()
			})
		}
		wg.Wait()
		twice := []format.ID{ids[0], h.ID([]byte("new")), h.ID([]byte("new"))}
		var fresh [3]bool
		require.NoError(t, s.Claim(twice, fresh[:]))
		require.Equal(t, [3]bool{false, true, false}, fresh)
		w := s.Writer(pack.Data)
		require.NoError(t, w.Add(twice[1], []byte("new")))
		require.NoError(t, w.Flush())
		_, err := s.Save(ctx, snap(ids[0], "h", 1))
		return err
	})
	require.NoError(t, err)
	require.Len(t, count, len(ids))
	for id, n := range count {
		require.Equal(t, 1, n, id)
	}
}

func TestSaveRefusesWhatWasClaimedAndNotStored(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	for name, unflushed := range map[string]bool{"never added": false, "not flushed": true} {
		err := r.WithSession(t.Context(), small(), func(ctx context.Context, s *repo.Session) error {
			blob := []byte(name)
			id := r.Keys().Hasher().ID(blob)
			require.NoError(t, s.Claim([]format.ID{id}, make([]bool, 1)))
			if unflushed {
				require.NoError(t, s.Writer(pack.Data).Add(id, blob))
			}
			_, err := s.Save(ctx, snap(id, "h", 1))
			return err
		})
		require.ErrorIs(t, err, session.ErrNotStored, name)
	}
	require.Empty(t, names(t, st, store.Snapshot))
}

// The law: every pack is on the target before the index segment that names it, every segment before the snapshot.
func TestOrderOnTheTarget(t *testing.T) {
	rec := &recorder{Store: mem.New()}
	r := initialise(t, rec)
	rec.puts = nil
	data := blobs(1, 200)
	mustBackUp(t, r, data)

	require.Equal(t, store.Lease, rec.puts[0].Kind, "the lease stands before anything is written")
	there := make(map[string]bool)
	indexed := make(map[format.ID]bool)
	segments := 0
	for i, name := range rec.puts {
		switch name.Kind {
		case store.Pack:
			there[name.ID] = true
		case store.Index:
			segments++
			plain, err := r.Keys().OpenObject(seal.IndexObject, bytesOf(t, rec, name))
			require.NoError(t, err)
			seg, err := index.Decode(plain)
			require.NoError(t, err)
			for _, p := range seg.Packs {
				require.True(t, there[p.ID.String()], "segment names a pack that is not there yet")
				for _, f := range p.Table.Frames {
					for _, b := range f.Blobs {
						indexed[b.ID] = true
					}
				}
			}
		case store.Snapshot:
			require.Equal(t, len(rec.puts)-2, i, "only the lease is written after the snapshot")
			h := r.Keys().Hasher()
			for _, b := range data {
				require.True(t, indexed[h.ID(b)])
			}
		case store.Lease:
		default:
			t.Fatalf("unexpected %v", name)
		}
	}
	require.Greater(t, segments, 3)
	require.Equal(t, store.Snapshot, rec.puts[len(rec.puts)-2].Kind)
	for _, name := range rec.gone {
		require.Equal(t, store.Lease, name.Kind, "only leases are removed")
	}
}

// A session that is cancelled leaves its finished packs in the index; the next one stores only the rest.
func TestInterruptedSessionIsReused(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 200)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user has had enough")
	err := r.WithSession(ctx, small(), func(ctx context.Context, s *repo.Session) error {
		require.NoError(t, put(s, r, pack.Data, data[:150]))
		require.NoError(t, s.Flush(ctx))
		cancel(stop)
		return put(s, r, pack.Data, data[150:])
	})
	require.ErrorIs(t, err, stop)
	require.Empty(t, names(t, st, store.Lease), "the lease is taken away although the context is over")
	require.Empty(t, names(t, st, store.Snapshot))

	rec := &recorder{Store: st}
	again := fresh(t, rec)
	var totals session.Totals
	err = again.WithSession(t.Context(), small(), func(ctx context.Context, s *repo.Session) error {
		root, err := write(s, again, data)
		require.NoError(t, err)
		require.NoError(t, s.Flush(ctx))
		totals = s.Totals()
		_, err = s.Save(ctx, snap(root, "h", 1))
		return err
	})
	require.NoError(t, err)
	require.EqualValues(t, 50, totals.DataBlobs)
}

// An interrupt ends the context of the repository too, and with it writes to the local cache. All packs stored by then
// still get an index segment, without a note that they may be sent again.
func TestInterruptWritesTheIndex(t *testing.T) {
	st := mem.New()
	initialise(t, st)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	r, err := repo.Open(ctx, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()),
		Cache: repo.CacheOptions{Dir: dir}})
	require.NoError(t, err)
	opt, said := small(), &notes{}
	opt.Tuning.Segment, opt.Note = 0, said.Note // no segment before the end
	data := blobs(1, 150)
	err = r.WithSession(ctx, opt, func(ctx context.Context, s *repo.Session) error {
		require.NoError(t, put(s, r, pack.Data, data))
		require.Eventually(t, func() bool { return s.Totals().Packs >= 3 }, 10*time.Second, time.Millisecond)
		require.Empty(t, names(t, st, store.Index))
		cancel()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, r.Close())
	require.Empty(t, said.text)
	require.GreaterOrEqual(t, requireNamed(t, st), 3)
}

// requireNamed fails for a pack that no index segment names. It returns how many packs there are.
func requireNamed(t *testing.T, st store.Store) int {
	t.Helper()
	named := make(map[string]bool)
	for _, seg := range segments(t, fresh(t, st)) {
		for _, p := range seg.Packs {
			named[p.ID.String()] = true
		}
	}
	stored := names(t, st, store.Pack)
	for _, name := range stored {
		require.True(t, named[name.ID], "pack %s is in no segment", name.ID)
	}
	return len(stored)
}

// interrupting calls stop as soon as it has stored a pack.
type interrupting struct {
	store.Store
	stop func()
}

func (i *interrupting) Put(ctx context.Context, name store.Name, data []byte) error {
	err := i.Store.Put(ctx, name, data)
	if name.Kind == store.Pack {
		i.stop()
	}
	return err
}

// An interrupt between the put of a pack and the look at it does not leave the pack out of the index.
func TestInterruptBeforeTheProofOfAPack(t *testing.T) {
	st := mem.New()
	initialise(t, st)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := repo.Open(ctx, &interrupting{Store: st, stop: cancel}, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: t.TempDir()}})
	require.NoError(t, err)
	err = r.WithSession(ctx, small(), func(ctx context.Context, s *repo.Session) error {
		_ = put(s, r, pack.Data, blobs(1, 150))
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, r.Close())
	require.Positive(t, requireNamed(t, st))
}

func TestSessionWithoutSaveKeepsItsBlobs(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 20)
	require.NoError(t, r.WithSession(t.Context(), small(), func(_ context.Context, s *repo.Session) error {
		return put(s, r, pack.Data, data)
	}))
	other := fresh(t, st)
	for _, b := range data {
		got, err := other.LoadBlob(t.Context(), r.Keys().Hasher().ID(b))
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
}

func TestDryRunWritesNothingAndCountsHonestly(t *testing.T) {
	rec := &recorder{Store: mem.New()}
	r := initialise(t, rec)
	mustBackUp(t, r, blobs(1, 40))
	rec.puts, rec.gone = nil, nil
	data := append(blobs(2, 80), blobs(1, 40)...)
	count := func(opt repo.SessionOptions) (totals session.Totals) {
		require.NoError(t, r.WithSession(t.Context(), opt, func(ctx context.Context, s *repo.Session) error {
			root, err := write(s, r, data)
			require.NoError(t, err)
			require.NoError(t, put(s, r, pack.Data, data), "claimed a second time, after its segment was merged")
			id, err := s.Save(ctx, snap(root, "h", 1))
			require.False(t, id.IsZero())
			totals = s.Totals()
			return err
		}))
		return totals
	}
	dry := small()
	dry.DryRun = true
	would := count(dry)
	require.Empty(t, rec.puts)
	require.Empty(t, rec.gone)
	require.Equal(t, would.DataBlobs, count(dry).DataBlobs, "a dry run leaves nothing behind, in no cache either")
	did := count(small())
	require.EqualValues(t, 80, would.DataBlobs)
	require.Equal(t, did.DataBlobs, would.DataBlobs)
	require.Equal(t, did.DataRaw, would.DataRaw)
	require.InEpsilon(t, did.Stored, would.Stored, 0.1, "frames depend on which worker met which blob")
}

func TestDryRunHealsOnlyTheCache(t *testing.T) {
	rec := &recorder{Store: mem.New()}
	r := initialise(t, rec)
	data := blobs(1, 40)
	mustBackUp(t, r, data)
	for _, name := range names(t, rec, store.Index) {
		require.NoError(t, rec.Delete(t.Context(), name))
	}
	rec.puts = nil
	other := fresh(t, rec)
	opt := small()
	opt.DryRun = true
	require.NoError(t, other.WithSession(t.Context(), opt, func(_ context.Context, s *repo.Session) error {
		require.NoError(t, put(s, other, pack.Data, data))
		require.Zero(t, s.Totals().DataBlobs)
		return nil
	}))
	require.Empty(t, rec.puts)
}

func TestVerifyCatchesWhatTheTargetDidNotKeep(t *testing.T) {
	for _, kind := range []store.Kind{store.Pack, store.Index, store.Snapshot} {
		st := mem.New()
		initialise(t, st)
		f := faultstore.Wrap(st, faultstore.Plan{At: 1, Ops: faultstore.Put, Kind: kind, Effect: faultstore.Silent})
		r := fresh(t, f)
		_, err := backUp(t.Context(), r, small(), blobs(1, 20))
		require.True(t, f.Fired())
		require.Error(t, err, "%v", kind)
		if kind != store.Snapshot {
			require.Empty(t, names(t, st, store.Snapshot))
		}
	}
}

func TestVerifySeesOneWrongByteOfATrailer(t *testing.T) {
	st := mem.New()
	initialise(t, st)
	f := faultstore.Wrap(st, faultstore.Plan{At: 1, Ops: faultstore.Get, Kind: store.Pack, Effect: faultstore.Corrupt})
	_, err := backUp(t.Context(), fresh(t, f), small(), blobs(1, 20))
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.Empty(t, names(t, st, store.Snapshot))
}

// putMark marks packs for deletion, as the first phase of a prune does.
func putMark(t *testing.T, r *repo.Repository, packs ...format.ID) store.Name {
	t.Helper()
	data := r.Keys().SealObject(seal.MarkObject, mark.Encode(&mark.Mark{Packs: packs, Created: 1}))
	name := store.Name{Kind: store.Mark, ID: seal.FileID(data).String()}
	require.NoError(t, r.Store().Put(t.Context(), name, data))
	return name
}

func packIDs(t *testing.T, st store.Store) (ids []format.ID) {
	t.Helper()
	for _, name := range names(t, st, store.Pack) {
		id, err := format.ParseID(name.ID)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// A session does not rely on packs that were doomed before it began: after their removal its snapshot is complete.
func TestDoomedPacksAreStoredAgain(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 60)
	old := mustBackUp(t, r, data)
	doomed := packIDs(t, st)
	putMark(t, r, doomed...)
	requireComplete(t, fresh(t, st), old, data) // still there to be read

	w := fresh(t, st)
	id, err := backUp(t.Context(), w, small(), append(data, data...))
	require.NoError(t, err)
	seen := make(map[format.ID]int)
	require.NoError(t, w.WithSession(t.Context(), small(), func(context.Context, *repo.Session) error { return nil }))
	for _, p := range packIDs(t, st) {
		seen[p]++
	}
	for _, p := range doomed {
		require.Equal(t, 1, seen[p])
		require.NoError(t, st.Delete(t.Context(), store.Name{Kind: store.Pack, ID: p.String()}))
	}
	for _, name := range names(t, st, store.Index) { // a prune writes an index without them; here it is rebuilt
		require.NoError(t, st.Delete(t.Context(), name))
	}
	requireComplete(t, fresh(t, st), id, append(data, data...))
}

func TestDoomedBlobsAreStoredOnceOnly(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 60)
	mustBackUp(t, r, data)
	putMark(t, r, packIDs(t, st)...)
	require.NoError(t, r.WithSession(t.Context(), small(), func(ctx context.Context, s *repo.Session) error {
		for range 3 {
			require.NoError(t, put(s, r, pack.Data, data))
			require.NoError(t, s.Flush(ctx))
		}
		require.EqualValues(t, 60, s.Totals().DataBlobs)
		root, err := write(s, r, data)
		require.NoError(t, err)
		_, err = s.Save(ctx, snap(root, "h", 1))
		return err
	}))
}

// What an unreadable mark names is not known. A writer ignores it, unless a prune may be acting upon it.
func TestUnreadableMarkStopsWritersBesideAPrune(t *testing.T) {
	r := initialise(t, mem.New())
	name := putMark(t, r, format.ID{1})
	require.NoError(t, r.Store().Put(t.Context(), name, []byte("nonsense")))
	var noted notes
	opt := small()
	opt.Note = noted.Note
	_, err := backUp(t.Context(), r, opt, blobs(1, 3))
	require.NoError(t, err)
	require.Contains(t, noted.String(), name.Path())

	pruning := small()
	pruning.Task = session.PruneTask
	require.NoError(t, r.WithSession(t.Context(), pruning, func(context.Context, *repo.Session) error {
		_, err := backUp(t.Context(), fresh(t, r.Store()), small(), blobs(2, 3))
		require.ErrorIs(t, err, format.ErrCorrupt)
		require.ErrorContains(t, err, "a prune is running")
		return nil
	}))
	junk := store.Name{Kind: store.Lease, ID: strings.Repeat("ab", 20)}
	require.NoError(t, r.Store().Put(t.Context(), junk, []byte("nonsense")))
	_, err = backUp(t.Context(), r, small(), blobs(2, 3))
	require.ErrorContains(t, err, "a lease is unreadable too")
	require.NoError(t, r.Store().Delete(t.Context(), junk))
	_, err = backUp(t.Context(), r, small(), blobs(2, 3))
	require.NoError(t, err)
}

type notes struct {
	mu   sync.Mutex
	text []string
}

func (n *notes) Note(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = append(n.text, text)
}

func (n *notes) String() string { return strings.Join(n.text, "\n") }

// If another client declared the writer dead, its snapshot is published only if all packs of the index are still there.
func TestLostLease(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, r *repo.Repository, pack format.ID)
		ok        bool
	}{
		"nothing was removed": {func(*testing.T, *repo.Repository, format.ID) {}, true},
		"a pack was removed": {func(t *testing.T, r *repo.Repository, p format.ID) {
			require.NoError(t, r.Store().Delete(t.Context(), store.Name{Kind: store.Pack, ID: p.String()}))
		}, false},
		"a pack was doomed": {func(t *testing.T, r *repo.Repository, p format.ID) { putMark(t, r, p) }, false},
	} {
		for _, last := range []bool{false, true} {
			lostLease(t, name, last, c.meanwhile, c.ok)
		}
	}
}

func lostLease(t *testing.T, name string, last bool, meanwhile func(t *testing.T, r *repo.Repository, pack format.ID),
	ok bool) {
	t.Run(fmt.Sprint(name, ", last: ", last), func(t *testing.T) {
		st := mem.New()
		r := initialise(t, st)
		data := blobs(1, 30)
		mustBackUp(t, r, data)
		old := packIDs(t, st)[0]
		seen := &notes{}
		opt := small()
		opt.Note = seen.Note
		err := r.WithSession(t.Context(), opt, func(ctx context.Context, s *repo.Session) error {
			root, err := write(s, r, data)
			require.NoError(t, err)
			for _, lease := range names(t, st, store.Lease) {
				require.NoError(t, st.Delete(ctx, lease))
			}
			meanwhile(t, r, old)
			save := s.Save
			if last {
				save = s.SaveLast
			}
			_, err = save(ctx, snap(root, "h", 2))
			return err
		})
		require.Contains(t, seen.String(), "had expired")
		if ok {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, session.ErrLeaseLost)
		require.Len(t, names(t, st, store.Snapshot), 1)
	})
}

func TestDryRunWithDoomedPacks(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 60)
	mustBackUp(t, r, data)
	putMark(t, r, packIDs(t, st)...)
	opt := small()
	opt.DryRun = true
	require.NoError(t, r.WithSession(t.Context(), opt, func(ctx context.Context, s *repo.Session) error {
		for range 2 {
			require.NoError(t, put(s, r, pack.Data, append(data, blobs(2, 20)...)))
			require.NoError(t, s.Flush(ctx))
			require.EqualValues(t, 80, s.Totals().DataBlobs)
		}
		return nil
	}))
}
