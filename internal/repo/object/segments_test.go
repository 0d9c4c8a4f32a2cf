package object_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// put stores a segment that supersedes others, and says whether its content is damaged.
func put(t *testing.T, s *object.Segments, damaged bool, supersedes ...format.ID) format.ID {
	t.Helper()
	id, _, err := object.PutSegment(t.Context(), s.Store, s.Keys, &index.Segment{Supersedes: supersedes}, true)
	require.NoError(t, err)
	if name := object.Named(store.Index, id); damaged {
		data, err := object.ReadFile(t.Context(), s.Store, name, -1)
		require.NoError(t, err)
		data[len(data)/2] ^= 1
		require.NoError(t, s.Store.Put(t.Context(), name, data))
	}
	return id
}

func newSegments(t *testing.T) (*object.Segments, *faultstore.Store) {
	t.Helper()
	st := faultstore.Wrap(mem.New(), faultstore.Plan{})
	return &object.Segments{Store: st, Keys: keys(t), Ahead: true}, st
}

func ids(infos []object.Info) (ids []format.ID) {
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

// TestStanding: a segment counts unless another one that can be read supersedes it, whatever their times are. A later
// listing costs reads only of what is new and of what could not be read.
func TestStanding(t *testing.T) {
	s, st := newSegments(t)
	old := put(t, s, false, format.ID{9})
	damaged := put(t, s, true, old)
	lost := put(t, s, true, format.ID{8})
	middle := put(t, s, false, lost)
	newest := put(t, s, false, middle)
	at := func(id format.ID, second int64) object.Info {
		info, err := st.Stat(t.Context(), object.Named(store.Index, id))
		require.NoError(t, err)
		return object.Info{id, info.Size, time.Unix(second, 0)}
	}
	listed := []object.Info{at(newest, 1), at(middle, 5), at(lost, 4), at(damaged, 3), at(old, 2)}
	any := func(object.Info, *index.Segment, error) error { return nil }
	var standing object.Standing
	require.NoError(t, s.Update(t.Context(), &standing, listed, any))
	require.Equal(t, []format.ID{newest, old, damaged}, ids(standing.Counting))
	require.Equal(t, []format.ID{lost, middle}, ids(standing.Superseded))
	require.Len(t, standing.Bad, 2)
	require.ErrorIs(t, standing.Bad[damaged], format.ErrCorrupt)
	require.ErrorIs(t, standing.Bad[lost], format.ErrCorrupt)

	st.Reads()
	last := put(t, s, false, damaged)
	st.Reads()
	require.NoError(t, s.Update(t.Context(), &standing, append(listed, at(last, 6)), any))
	require.Equal(t, []format.ID{newest, old, last}, ids(standing.Counting))
	reads := st.Reads()
	of := func(id format.ID) int { return reads[object.Named(store.Index, id)] }
	require.Zero(t, of(old)+of(middle)+of(newest))
	require.Equal(t, 1, of(last))

	require.NoError(t, s.Update(t.Context(), &standing, listed[3:], any))
	require.Equal(t, []format.ID{old, damaged}, ids(standing.Counting), "what superseded it is gone")
	var other object.Standing
	refuse := errors.New("refused")
	err := s.Update(t.Context(), &other, listed, func(_ object.Info, _ *index.Segment, err error) error {
		if err != nil {
			return refuse
		}
		return nil
	})
	require.ErrorIs(t, err, refuse)
}

// TestSegmentsAreKept: what fits into the room is read from the target once, and no more is kept.
func TestSegmentsAreKept(t *testing.T) {
	s, st := newSegments(t)
	for range 3 {
		put(t, s, false, format.ID{1})
	}
	require.NoError(t, s.Store.Put(t.Context(), store.Name{Kind: store.Index, ID: "abc"}, []byte("foreign")))
	listed, err := object.List(t.Context(), s.Store, store.Index)
	require.NoError(t, err)
	require.Len(t, listed, 3, "a foreign name is no segment")
	plain := len(index.Encode(nil, &index.Segment{Supersedes: []format.ID{{1}}}))
	s.Room, s.Ahead = 2*plain, false
	st.Reads()
	for range 3 {
		n := 0
		require.NoError(t, s.Each(t.Context(), listed, func(info object.Info, seg *index.Segment, err error) error {
			require.NoError(t, err)
			require.Equal(t, listed[n].ID, info.ID)
			require.Equal(t, []format.ID{{1}}, seg.Supersedes)
			n++
			return nil
		}))
		require.Equal(t, 3, n)
	}
	require.Zero(t, s.Room)
	reads := st.Reads()
	for i, want := range []int{1, 1, 3} {
		require.Equal(t, want, reads[object.Named(store.Index, listed[i].ID)], i)
	}
}
