// Package bucket tests the engine as a whole over an S3 server.
package bucket

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

func TestMain(m *testing.M) { kit.Main(m) }

// counts are numbers of requests.
type counts struct{ put, get, head, list, remove uint64 }

func of(r *s3.Requests) counts {
	return counts{r.Put.Load(), r.Get.Load(), r.Head.Load(), r.List.Load(), r.Delete.Load()}
}

func (c counts) since(was counts) counts {
	return counts{c.put - was.put, c.get - was.get, c.head - was.head, c.list - was.list, c.remove - was.remove}
}

func (c counts) total() uint64 { return c.put + c.get + c.head + c.list + c.remove }

// bench is an engine over a fake server that counts.
type bench struct {
	*kit.Engine
	remote   *s3.Store
	requests s3.Requests
	fake     *s3test.Fake
	tree     format.ID // of the last backup
}

func newBench(t *testing.T) *bench {
	fake := s3test.NewFake(t)
	fake.Page = 1000
	keys := s3.Keys{Env: func(string) (string, bool) { return "x", true }}
	b := &bench{fake: fake}
	remote, err := s3.Create(t.Context(), s3.Target{Endpoint: fake.Addr, Bucket: s3test.Bucket, Prefix: "p"},
		s3.Options{Keys: keys, Plain: true, Requests: &b.requests})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, remote.Close()) })
	b.remote = remote
	b.Engine = kit.NewEngine(t, meter.Wrap(remote, new(meter.Counters).Observe))
	machine := repo.Secret{Method: keyfile.KeyFile, Value: make([]byte, 32)}
	require.NoError(t, b.With(func(r *repo.Repository) error { // so there are two keys, as there are with a recovery key
		id, err := r.AddSlot(t.Context(), machine, "machine", keyfile.Params{})
		b.Open.KnownSlot, b.Open.KnownSuffices = id.String(), true // as init remembers it
		return err
	}))
	unlock := stored.UnlockWith(machine) // as the command line does: which key it is depends on the repository
	b.Open.Unlock, b.Open.ByID = nil, func(_ string, opt *repo.OpenOptions) error {
		opt.Unlock = unlock
		return nil
	}
	return b
}

// unchanged checks what a backup of an unchanged source needs. Another test may have changed a folder above the source,
// whose metadata is part of the tree: that takes a pack and a segment more, and on a busy machine two requests that
// usually go out together may follow one another.
func (b *bench) unchanged(job backup.Job) {
	b.T.Helper()
	kit.Settle()
	before, most, mostTurns := b.tree, uint64(10), 5
	c, turns := b.count(job)
	if b.tree != before {
		most, mostTurns = most+6, mostTurns+7
	}
	b.T.Logf("unchanged: %+v = %d, %d turns, of %d and %d", c, c.total(), turns, most, mostTurns)
	require.LessOrEqual(b.T, c.total(), most)
	require.LessOrEqual(b.T, turns, mostTurns)
}

// count returns the requests of a backup, and how many of them followed one another.
func (b *bench) count(job backup.Job) (counts, int) {
	b.T.Helper()
	was := of(&b.requests)
	b.fake.Turns()
	b.fake.Delay = 20 * time.Millisecond
	out, _, err := b.Backup(job)
	b.fake.Delay = 0
	require.NoError(b.T, err)
	b.tree = out.Snapshot.Tree
	c, turns := of(&b.requests).since(was), b.fake.Turns()
	require.NoError(b.T, b.With(func(r *repo.Repository) error {
		b.Open.KnownSlot = r.SlotID() // as the command line remembers it
		return nil
	}))
	return c, turns
}

// add stores n older snapshots of what the latest one has.
func (b *bench) add(n uint64) {
	b.T.Helper()
	ctx := context.Background()
	require.NoError(b.T, b.With(func(r *repo.Repository) error {
		latest, err := r.FindSnapshot(ctx, repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		return r.WithSession(ctx, repo.SessionOptions{Holder: session.Holder{Host: "host"}},
			func(ctx context.Context, sess *repo.Session) error {
				for i := range n {
					s := *latest.Snapshot
					s.Time.Sec -= int64(i) + 1
					if _, err := sess.Save(ctx, &s); err != nil {
						return err
					}
				}
				return nil
			})
	}))
}

func (b *bench) stored(kind store.Kind) (n uint64) {
	for _, err := range b.remote.List(context.Background(), kind) {
		require.NoError(b.T, err)
		n++
	}
	return n
}

// TestRequestsOfABackup holds two bars. First backup: packs, segments, renewals and 5 PUT, and 12 others. Unchanged: 10
// requests and 5 turns, also with 1,000 snapshots.
func TestRequestsOfABackup(t *testing.T) {
	testkit.Slow(t)
	dir := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for i := range 300 {
		data := storetest.Pattern(200_000, uint64(i))
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), data, 0o600))
	}
	b := newBench(t)
	first, turns := b.count(b.Job(dir))
	packs, segments := b.stored(store.Pack), b.stored(store.Index)
	t.Logf("first: %+v, %d turns, %d packs, %d segments", first, turns, packs, segments)
	require.LessOrEqual(t, first.put, packs+segments+5)
	require.LessOrEqual(t, first.total()-first.put, uint64(12))

	const snapshots = 990 // a server lists 1,000 at once
	b.unchanged(b.Job(dir))
	b.add(snapshots - b.stored(store.Snapshot))
	b.unchanged(b.Job(dir))
	b.unchanged(b.Job(dir))
}

// TestRequestsOfAPrune: each pack that goes takes one request.
func TestRequestsOfAPrune(t *testing.T) {
	testkit.Slow(t)
	dir := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	b := newBench(t)
	job := b.Job(dir)
	job.Session.Tuning.DataPack, job.Session.Tuning.Frame = 100_000, 50_000
	for version := range uint64(2) {
		for i := range uint64(40) {
			at := filepath.Join(dir, strconv.FormatUint(i, 10))
			require.NoError(t, os.WriteFile(at, storetest.Pattern(100_000, version*100+i), 0o600))
		}
		kit.Settle()
		b.count(job)
	}
	before := b.stored(store.Pack)
	require.NoError(t, b.With(func(r *repo.Repository) error {
		all, err := r.Snapshots(t.Context())
		if err != nil {
			return err
		}
		slices.SortFunc(all, func(x, y repo.Listed) int { return x.Stored.Compare(y.Stored) })
		_, _, err = forget.Drop(t.Context(), r, all[:1])
		return err
	}))
	was := of(&b.requests)
	require.NoError(t, b.With(func(r *repo.Repository) error {
		_, err := prune.Run(t.Context(), r, prune.Options{})
		return err
	}))
	c, removed := of(&b.requests).since(was), before-b.stored(store.Pack)
	t.Logf("%+v, %d packs removed", c, removed)
	require.Greater(t, removed, uint64(20))
	require.GreaterOrEqual(t, c.remove, removed)
	require.Less(t, c.head, removed)
}
