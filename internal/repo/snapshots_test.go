package repo_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
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

func TestFindSnapshotByPrefix(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	ids := make(map[byte][]format.ID) // by first digit
	for i := range 20 {
		id := save(t, r, snap(format.ID{1}, "h", int64(i)))
		ids[id[0]>>4] = append(ids[id[0]>>4], id)
	}
	for digit, same := range ids { // 20 IDs, 16 digits: at least one digit is shared
		prefix := same[0].String()[:1]
		got, err := r.FindSnapshot(t.Context(), prefix, repo.Filter{})
		if len(same) == 1 {
			require.NoError(t, err)
			require.Equal(t, same[0], got.ID)
			continue
		}
		var ambiguous *repo.AmbiguousError
		require.ErrorAs(t, err, &ambiguous, digit)
		require.Len(t, ambiguous.Matches, len(same))
		require.ErrorContains(t, err, same[0].Short())
		got, err = r.FindSnapshot(t.Context(), same[0].String(), repo.Filter{})
		require.NoError(t, err)
		require.Equal(t, same[0], got.ID)
	}
	for _, ref := range []string{"", "xyz", "0123456789abcdef"} {
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
	other := openWith(t, st, repo.OpenOptions{Unlock: repo.UnlockWith(machineKey()), Notify: noted.Note})
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
