package prune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// adder is a client that has the keys of a repository and can add any file to it, with any time. It can neither change
// nor remove files of others. It is the store as the others see it.
type adder struct {
	store.Store
	p        *kit.Pruned
	keys     *seal.Keys
	packs    []index.Pack // those that were there before it, as the index names them
	segments []format.ID
	listed   []repo.Listed
	added    []store.Name

	mu    sync.Mutex
	dates map[store.Name]time.Time // zero: the time at which it was put
}

// newAdder reads what the repository holds, and takes the place of its store.
func newAdder(p *kit.Pruned) *adder {
	p.T.Helper()
	a := &adder{Store: p.Store, p: p, dates: map[store.Name]time.Time{}}
	ctx := context.Background()
	require.NoError(p.T, p.With(func(r *repo.Repository) (err error) {
		a.keys = r.Keys()
		a.listed, err = r.Snapshots(ctx)
		return err
	}))
	for _, name := range kit.EveryFile(p.T, p.Store) {
		if name.Kind != store.Index {
			continue
		}
		plain, err := object.Load(ctx, p.Store, a.keys, name, -1)
		require.NoError(p.T, err)
		seg, err := index.Decode(plain)
		require.NoError(p.T, err)
		id, err := format.ParseID(name.ID)
		require.NoError(p.T, err)
		a.packs, a.segments = append(a.packs, seg.Packs...), append(a.segments, id)
	}
	p.Store = a
	return a
}

func (a *adder) date(name store.Name, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dates[name] = at
}

func (a *adder) dated(info store.Info) store.Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := a.dates[info.Name]; !at.IsZero() {
		info.Modified = at
	}
	return info
}

func (a *adder) Put(ctx context.Context, name store.Name, data []byte) error {
	a.date(name, time.Time{})
	return a.Store.Put(ctx, name, data)
}

func (a *adder) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	a.date(name, time.Time{})
	return a.Store.PutNew(ctx, name, data)
}

func (a *adder) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	info, err := a.Store.Stat(ctx, name)
	return a.dated(info), err
}

func (a *adder) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range a.Store.List(ctx, kind) {
			if !yield(a.dated(info), err) {
				return
			}
		}
	}
}

func (a *adder) add(name store.Name, data []byte, at time.Time) {
	a.p.T.Helper()
	require.NoError(a.p.T, a.Store.Put(context.Background(), name, data))
	a.added = append(a.added, name)
	a.date(name, at)
}

func (a *adder) object(kind store.Kind, plain []byte, at time.Time) {
	a.p.T.Helper()
	data, id := object.Seal(a.keys, kind, plain)
	a.add(object.Named(kind, id), data, at)
}

// junk adds a pack that is said to hold all blobs of a kind, and holds other bytes.
func (a *adder) junk(kind pack.Kind, at time.Time) index.Pack {
	a.p.T.Helper()
	b := pack.NewBuilder(a.keys, kind, nil)
	for i := range a.packs {
		if a.packs[i].Table.Kind != kind {
			continue
		}
		for _, f := range a.packs[i].Table.Frames {
			require.NoError(a.p.T, b.Append(&pack.Payload{
				Codec: pack.Stored, Blobs: f.Blobs, Raw: f.Raw, Data: make([]byte, f.Raw),
			}))
		}
	}
	data, table, err := b.Finish()
	require.NoError(a.p.T, err)
	id := pack.ID(data)
	a.add(object.Named(store.Pack, id), data, at)
	return index.Pack{ID: id, Size: uint64(len(data)), Table: table}
}

func (a *adder) segment(at time.Time, supersedes []format.ID, packs ...index.Pack) {
	a.p.T.Helper()
	a.object(store.Index, index.Encode(nil, &index.Segment{Packs: packs, Supersedes: supersedes}), at)
}

// lies are all packs under tables that do not name their blobs, or with a wrong size.
func (a *adder) lies(size bool) (lies []index.Pack) {
	for _, p := range a.packs {
		if size {
			p.Size++
		} else {
			p.Table.Frames = []pack.Frame{{Offset: pack.HeaderSize, Sealed: 100, Raw: 10,
				Blobs: []pack.Blob{{ID: format.ID{1, byte(len(lies))}, Len: 10}}}}
		}
		lies = append(lies, p)
	}
	return lies
}

// mark adds a mark that dooms all packs of others, and says that no snapshot needs them.
func (a *adder) mark(damaged bool, at time.Time) {
	a.p.T.Helper()
	m := &mark.Mark{Created: at.Unix(), Host: "elsewhere", Damaged: damaged}
	for i := range a.packs {
		m.Packs = append(m.Packs, a.packs[i].ID)
	}
	for i := range a.listed {
		m.Checked = append(m.Checked, a.listed[i].ID)
	}
	a.object(store.Mark, mark.Encode(m), at)
}

// snapshot adds a snapshot of a tree that does not exist, or of that of an earlier one.
func (a *adder) snapshot(rng *rand.Rand, at time.Time) {
	a.p.T.Helper()
	s := *a.listed[rng.IntN(len(a.listed))].Snapshot
	if rng.IntN(2) == 0 {
		s.Tree = format.ID{7}
	}
	a.object(store.Snapshot, snapshot.Encode(&s), at)
}

func (a *adder) lease(at time.Time) {
	a.p.T.Helper()
	id := lease.NewID()
	l := &lease.Lease{ID: id, Host: "elsewhere", PID: 1, Started: at.Unix(), Heartbeat: at.Unix()}
	data := a.keys.SealObject(seal.LeaseObject, lease.Encode(l))
	a.add(store.Name{Kind: store.Lease, ID: l.Name()}, data, at)
}

// leave removes all that the adder added, and all that leads to blobs except the packs.
func (a *adder) leave() {
	a.p.T.Helper()
	ctx := context.Background()
	for _, name := range a.added {
		if err := a.Store.Delete(ctx, name); !errors.Is(err, store.ErrNotExist) {
			require.NoError(a.p.T, err)
		}
	}
	for _, kind := range []store.Kind{store.Index, store.Mark, store.Lease} {
		var names []store.Name
		for info, err := range a.Store.List(ctx, kind) {
			require.NoError(a.p.T, err)
			names = append(names, info.Name)
		}
		for _, name := range names {
			require.NoError(a.p.T, a.Store.Delete(ctx, name))
		}
	}
	a.p.Store = a.Store
	a.p.Open.Cache.Dir = a.p.T.TempDir()
	require.NoError(a.p.T, a.p.With(func(r *repo.Repository) error {
		err := r.Index().Rebuild(ctx)
		return err
	}))
}

// attacked is a repository with an older snapshot to forget, and one that must stay whole.
func attacked(t *testing.T) (p *kit.Pruned, old format.ID) {
	t.Helper()
	p = kit.NewPruned(t, mem.New())
	p.Few = true
	old = p.Snapshot(1)
	p.Snapshot(2)
	p.Snapshot(3)
	return p, old
}

// TestPruneKeepsWhatAHostileClientClaims: whatever a client with the keys adds, with whatever times, prunes remove no
// pack that holds what a snapshot needs. Afterwards everything that leads to blobs is removed except the packs, so the
// packs alone decide.
func TestPruneKeepsWhatAHostileClientClaims(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base, old := attacked(t)
	refused := 0
	for seed := range uint64(testkit.Rounds(8, 30, 80)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := base.Copied(t)
		a := newAdder(p)
		times := []time.Time{{}, time.Unix(1, 0), time.Now().Add(-24 * time.Hour), time.Now().Add(time.Hour)}
		at := func() time.Time { return times[rng.IntN(len(times))] }
		often := func(n int) bool { return rng.IntN(n) > 0 }
		var said []index.Pack
		if often(5) {
			said = append(said, a.junk(pack.Data, at()))
		}
		if !often(4) {
			said = append(said, a.junk(pack.Trees, at()))
		}
		var supersedes []format.ID
		if !often(3) {
			supersedes = a.segments
			if rng.IntN(3) > 0 {
				said = append(said, a.lies(rng.IntN(2) == 0)...)
			}
		}
		a.segment(at(), supersedes, said...)
		if !often(3) {
			a.mark(false, at())
		}
		if !often(3) {
			a.mark(true, at())
		}
		if !often(6) {
			a.snapshot(rng, at())
		}
		if !often(6) {
			a.lease(at())
		}
		p.Forget(old)
		for range 3 {
			_, err := p.Prune(kit.SmallPrune())
			if err != nil {
				refused++
				known := errors.Is(err, prune.ErrDamaged) || errors.Is(err, prune.ErrUnread)
				require.True(t, known, "seed %d: %v", seed, err)
			}
		}
		a.leave()
		p.RequireWhole(fmt.Sprintf("seed %d", seed))
	}
	t.Logf("%d prunes were refused or found packs with other bytes", refused)
}

// pruneSaying prunes, and returns the notes.
func pruneSaying(p *kit.Pruned) (*prune.Result, string, error) {
	p.T.Helper()
	var said []string
	opt := kit.SmallPrune()
	opt.Note = func(text string) { said = append(said, text) }
	res, err := p.Prune(opt)
	return res, strings.Join(said, "\n"), err
}

// TestAnUnreadCopyNeverDisplacesAGoodOne: a newer pack that is said to hold everything is what goes, and one that is
// dated before all others is found out. In both cases one prune leaves a repository that is whole.
func TestAnUnreadCopyNeverDisplacesAGoodOne(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base, old := attacked(t)
	for _, dated := range []time.Time{{}, time.Unix(1, 0)} {
		p := base.Copied(t)
		a := newAdder(p)
		junk := a.junk(pack.Data, dated)
		a.segment(dated, nil, junk)
		p.Forget(old)
		res, notes, err := pruneSaying(p)
		require.NoError(t, err, "%+v, %s", res, notes)
		if !dated.IsZero() {
			require.Contains(t, notes, "pack "+junk.ID.Short()+" does not hold what it is said to")
		}
		_, err = p.Store.Stat(t.Context(), object.Named(store.Pack, junk.ID))
		require.ErrorIs(t, err, store.ErrNotExist)
		p.RequireWhole("after the prune")
		_, _, err = pruneSaying(p)
		require.NoError(t, err)
		p.RequireWhole("after the next prune")
	}
}

// TestAFalseMarkOfDamageLosesNothing: good packs are marked as damaged, and another is said to hold the same. The good
// ones stay until what they hold was stored again.
func TestAFalseMarkOfDamageLosesNothing(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p, old := attacked(t)
	a := newAdder(p)
	junk := a.junk(pack.Data, time.Time{})
	a.segment(time.Time{}, nil, junk)
	a.mark(true, time.Time{})
	p.Forget(old)
	_, _, err := pruneSaying(p)
	require.ErrorIs(t, err, prune.ErrUnread)
	_, _, err = pruneSaying(p)
	require.NoError(t, err)
	_, err = p.Store.Stat(t.Context(), object.Named(store.Pack, junk.ID))
	require.ErrorIs(t, err, store.ErrNotExist, "it holds nothing that is needed")
	p.RequireWhole("after two prunes")
}

// TestAJunkTreeIsMarkedByAPrune: a prune follows the snapshots where their trees count. It marks a pack that does not
// hold what it is said to, and follows the other copies. A dry run marks nothing, and advises a check first.
func TestAJunkTreeIsMarkedByAPrune(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p, old := attacked(t)
	a := newAdder(p)
	a.segment(time.Unix(1, 0), nil, a.junk(pack.Trees, time.Unix(1, 0)))
	p.Forget(old)
	_, err := p.Prune(prune.Options{SessionOptions: repo.SessionOptions{DryRun: true}})
	require.ErrorIs(t, err, prune.ErrDamaged)
	require.ErrorContains(t, err, "run 'tidemark check --read-data' to see and mark it, then back up again")
	_, notes, err := pruneSaying(p)
	require.NoError(t, err)
	require.Contains(t, notes, "is marked as damaged")
	p.RequireWhole("after the prune")
	require.Zero(t, kit.Count(t, p.Store, store.Mark))
}

// TestAFalseClaimLastsUntilACheckReadsIt: a client that has the content of files that another machine will back up
// claims to hold it. The other machine sends nothing. A check that reads the data finds that, and the next backup sends
// it. What was stored before is not affected.
func TestAFalseClaimLastsUntilACheckReadsIt(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p, _ := attacked(t)
	client := p.Copied(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.Src, "known"), testkit.Noise(123, 200_000), 0o644))
	kit.Settle()
	_, _, err := client.Backup(client.SmallJob())
	require.NoError(t, err)
	a := newAdder(client)
	a.Store, a.p = p.Store, p // it adds to the repository of the other machine
	a.segment(time.Time{}, nil, a.junk(pack.Data, time.Time{}))

	p.RequireRestorable("what was stored before the claim", true)
	made, sent, err := p.Backup(p.SmallJob())
	require.NoError(t, err)
	require.Less(t, sent.Bytes.Stored, uint64(100_000), "the claim is believed")
	p.Keep(made.ID)
	require.NoError(t, p.With(func(r *repo.Repository) error {
		found, err := check.Run(context.Background(), r, check.Options{ReadData: true, Record: "test", Scratch: t.TempDir()},
			report.NewJob(report.Check, time.Now))
		require.False(t, found.OK())
		return err
	}))
	next, _, err := p.Backup(p.SmallJob())
	require.NoError(t, err)
	p.Keep(next.ID)
	p.RequireRestorable("after the next backup", true)
	_, _, err = pruneSaying(p)
	require.NoError(t, err)
	p.RequireWhole("after a prune")
}

// TestAPruneReadsWhatTakesThePlaceOfAPack: two machines have stored the same. What is left of both copies is read
// before the other goes, so it does not matter which of them has rotted.
func TestAPruneReadsWhatTakesThePlaceOfAPack(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	ids, first := twiceApart(base, 1, 0)
	var of [2][]store.Info // packs of file data of each machine
	a := newAdder(base)
	for i := range a.packs {
		if a.packs[i].Table.Kind == pack.Data {
			info, err := base.Store.Stat(t.Context(), object.Named(store.Pack, a.packs[i].ID))
			require.NoError(t, err)
			machine := 1
			if slices.Contains(first, info.Name) {
				machine = 0
			}
			of[machine] = append(of[machine], info)
		}
	}
	for i, rotten := range of {
		p := base.Copied(t)
		p.Forget(ids[i]) // the other one is whole in the other packs
		a := newAdder(p)
		for _, info := range slices.Concat(of[0], of[1]) {
			data := kit.Load(t, p.Store, info.Name)
			if slices.Contains(rotten, info) {
				data[pack.HeaderSize+pack.FrameHeaderSize+5] ^= 1
			}
			a.add(info.Name, data, info.Modified)
		}
		p.RequireRestorable("before the prune", true)
		for range 2 {
			_, notes, err := pruneSaying(p)
			if err != nil { // intact frames of a pack that was found to be damaged may be needed
				require.ErrorIs(t, err, prune.ErrUnread, notes)
			}
			p.RequireRestorable("after the prune", false)
			p.RequireRestorable("after the prune", true)
		}
	}
}
