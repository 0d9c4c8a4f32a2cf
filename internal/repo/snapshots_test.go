package repo_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// save stores a snapshot without blobs.
func save(t *testing.T, r *repo.Repository, s *snapshot.Snapshot) (id format.ID) {
	t.Helper()
	require.NoError(t, r.WithSession(t.Context(), small(), func(ctx context.Context, sess *repo.Session) (err error) {
		id, err = sess.Save(ctx, s)
		return err
	}))
	return id
}

func TestSnapshotsAndLatest(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	add := func(sec int64, host string, paths, tags []string) format.ID {
		s := snap(format.ID{1}, host, sec)
		s.Sources, s.Tags = paths, tags
		return save(t, r, s)
	}
	_, err := r.FindSnapshot(t.Context(), "latest", repo.Filter{})
	require.ErrorIs(t, err, repo.ErrNoSnapshot)

	c := add(30, "b", []string{"/home"}, nil)
	a := add(10, "a", []string{"/home", "/etc"}, []string{"daily", "good"})
	b := add(20, "a", []string{"/usr"}, []string{"daily"})
	all, err := r.Snapshots(t.Context())
	require.NoError(t, err)
	require.Equal(t, []format.ID{a, b, c}, []format.ID{all[0].ID, all[1].ID, all[2].ID})
	require.Equal(t, tree.Time{Sec: 20}, all[1].Snapshot.Time)

	for name, tc := range map[string]struct {
		filter repo.Filter
		want   format.ID // zero: none
	}{
		"all":         {repo.Filter{}, c},
		"host":        {repo.Filter{Hosts: []string{"a"}}, b},
		"hosts":       {repo.Filter{Hosts: []string{"a", "b"}}, c},
		"path":        {repo.Filter{Hosts: []string{"a"}, Paths: []string{"/home"}}, a},
		"paths":       {repo.Filter{Paths: []string{"/home", "/etc"}}, a},
		"exact":       {repo.Filter{Paths: []string{"/home"}, Exact: true}, c},
		"exact pair":  {repo.Filter{Paths: []string{"/etc", "/home"}, Exact: true}, a},
		"tag":         {repo.Filter{Tags: [][]string{{"daily"}}}, b},
		"both tags":   {repo.Filter{Tags: [][]string{{"daily", "good"}}}, a},
		"either list": {repo.Filter{Tags: [][]string{{"daily", "good"}, {""}}}, c},
		"untagged":    {repo.Filter{Tags: [][]string{{}}}, c},
		"none":        {repo.Filter{Hosts: []string{"c"}}, format.ID{}},
	} {
		got, err := r.FindSnapshot(t.Context(), "latest", tc.filter)
		if tc.want.IsZero() {
			require.ErrorIs(t, err, repo.ErrNoSnapshot, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got.ID, name)
	}
}

// TestARewrittenSnapshotIsNewer: it has the time of its original, so the IDs would decide by chance which is the
// latest.
func TestARewrittenSnapshotIsNewer(t *testing.T) {
	r := initialise(t, mem.New())
	for i := range byte(16) {
		host := string('a' + rune(i))
		original := save(t, r, snap(format.ID{i}, host, 10))
		s := snap(format.ID{100 + i}, host, 10)
		s.Original = original
		rewritten := save(t, r, s)
		latest, err := r.FindSnapshot(t.Context(), "latest", repo.Filter{Hosts: []string{host}})
		require.NoError(t, err)
		require.Equal(t, rewritten, latest.ID)
	}
}

// TestAWrongClockMakesNoSnapshotTheLatestForEver: one dated in the future has the time of its storage. One that is
// dated a little ahead, as by a clock that runs fast, stays where its time puts it.
func TestAWrongClockMakesNoSnapshotTheLatestForEver(t *testing.T) {
	r := initialise(t, mem.New())
	now := time.Now()
	wrong := save(t, r, snap(format.ID{1}, "a", now.AddDate(5000, 0, 0).Unix()))
	ahead := save(t, r, snap(format.ID{1}, "a", now.Add(time.Hour).Unix()))
	old := save(t, r, snap(format.ID{1}, "a", now.Add(-time.Hour).Unix()))
	all, err := r.Snapshots(t.Context())
	require.NoError(t, err)
	require.Equal(t, []format.ID{old, wrong, ahead}, []format.ID{all[0].ID, all[1].ID, all[2].ID})
	require.Equal(t, []bool{false, true, false},
		[]bool{all[0].FromFuture(now), all[1].FromFuture(now), all[2].FromFuture(now)})
	latest, err := r.FindSnapshot(t.Context(), "latest", repo.Filter{})
	require.NoError(t, err)
	require.Equal(t, ahead, latest.ID)

	// The clock of this machine was set back, or that of the target: nothing is known of the one that dated it.
	back, target := all[2], all[2]
	require.False(t, back.FromFuture(now.AddDate(-1, 0, 0)))
	target.Stored = now.AddDate(-1, 0, 0)
	require.False(t, target.FromFuture(now))
}

// TestFindSnapshotByPrefix makes snapshots until the IDs of two begin alike.
func TestFindSnapshotByPrefix(t *testing.T) {
	r := initialise(t, mem.New())
	ids := make(map[string]format.ID) // by the first digits
	var first, second format.ID
	require.NoError(t, r.WithSession(t.Context(), small(), func(ctx context.Context, sess *repo.Session) error {
		for i := int64(0); first.IsZero(); i++ {
			id, err := sess.Save(ctx, snap(format.ID{1}, "h", i))
			if err != nil {
				return err
			}
			prefix := id.String()[:4]
			if first = ids[prefix]; !first.IsZero() {
				second = id
			}
			ids[prefix] = id
		}
		return nil
	}))
	prefix := first.String()[:4]
	_, err := r.FindSnapshot(t.Context(), prefix, repo.Filter{})
	var ambiguous *repo.AmbiguousError
	require.ErrorAs(t, err, &ambiguous)
	require.Len(t, ambiguous.Matches, 2)
	for _, id := range []format.ID{first, second} {
		require.ErrorContains(t, err, id.String()[:12])
		for _, ref := range []string{id.String(), strings.ToUpper(id.String()[:20])} {
			got, err := r.FindSnapshot(t.Context(), ref, repo.Filter{})
			require.NoError(t, err)
			require.Equal(t, id, got.ID)
		}
	}
	for _, ref := range []string{"", "xyz", first.String()[:3], "0123456789abcdef"} {
		_, err := r.FindSnapshot(t.Context(), ref, repo.Filter{})
		require.ErrorIs(t, err, repo.ErrNoSnapshot, ref)
	}
}

func TestDamagedSnapshotHidesNoOther(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	older := save(t, r, snap(format.ID{1}, "h", 1))
	newer := save(t, r, snap(format.ID{2}, "h", 2))
	name := store.Name{Kind: store.Snapshot, ID: newer.String()}
	require.NoError(t, st.Put(t.Context(), name, bytesOf(t, st, name)[:50]))
	all, err := r.Snapshots(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, older, all[0].ID)
	require.NoError(t, all[0].Err)
	require.Equal(t, newer, all[1].ID)
	require.ErrorIs(t, all[1].Err, format.ErrCorrupt)
	require.Nil(t, all[1].Snapshot)

	var noted notes
	other := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Notify: noted.Note})
	got, err := other.FindSnapshot(t.Context(), "latest", repo.Filter{})
	require.NoError(t, err)
	require.Equal(t, older, got.ID)
	require.Contains(t, noted.String(), newer.Short())
	_, err = other.FindSnapshot(t.Context(), newer.Short(), repo.Filter{})
	require.ErrorIs(t, err, format.ErrCorrupt)
}

// A target that fails is not a damaged snapshot: a list that is not complete must not look as if it were.
func TestSnapshotsOnFailingTarget(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	for i := range 12 {
		save(t, r, snap(format.ID{1}, "h", int64(i)))
	}
	for i := 1; i <= 12; i++ {
		f := faultstore.Wrap(st, faultstore.Plan{At: i, Ops: faultstore.Get, Kind: store.Snapshot})
		_, err := fresh(t, f).Snapshots(t.Context())
		require.ErrorIs(t, err, faultstore.ErrInjected)
	}
}
