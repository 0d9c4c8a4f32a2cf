package s3_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
)

// fill stores some files of each kind, and returns their names.
func fill(t *testing.T, st store.Store) (names []store.Name) {
	for kind := range store.Kinds() {
		for _, id := range []string{"00", "7f", "80", "a1", "ff"} { // packs of data and of trees
			name := store.Name{Kind: kind, ID: id}
			if kind == store.Config {
				name.ID = ""
			}
			require.NoError(t, st.Put(t.Context(), name, []byte("x")))
			names = append(names, name)
		}
	}
	return names
}

// listsTogether requires that a listing of several kinds yields each of their files once, one kind after the other.
func listsTogether(t *testing.T, st store.Store, kinds ...store.Kind) {
	var want, found []store.Name
	for _, kind := range kinds {
		for info, err := range st.List(t.Context(), kind) {
			require.NoError(t, err)
			want = append(want, info.Name)
		}
	}
	for info, err := range store.Together(st)(t.Context(), kinds...) {
		require.NoError(t, err)
		require.EqualValues(t, 1, info.Size)
		found = append(found, info.Name)
	}
	require.ElementsMatch(t, want, found)
	at := 0
	for _, name := range found {
		for kinds[at] != name.Kind {
			at++
			require.Less(t, at, len(kinds), "%v are out of order", found)
		}
	}
}

func TestSeveralFoldersAreListedTogether(t *testing.T) {
	for _, prefix := range []string{"", "a/b"} {
		for _, page := range []int{1, 2, 1000} {
			f := s3test.NewFake(t)
			f.Page = page
			open := func(prefix string) *s3.Store {
				st, err := s3.Create(t.Context(), s3.Target{Endpoint: f.Addr, Bucket: s3test.Bucket, Prefix: prefix},
					s3.Options{Keys: keys(), Plain: true})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, st.Close()) })
				return st
			}
			if prefix != "" { // its neighbours are others'
				fill(t, open(prefix+"0"))
				fill(t, open("a"))
			}
			st := open(prefix)
			fill(t, st)
			listsTogether(t, st, store.Index, store.Mark, store.Pack)
			listsTogether(t, st, store.Index, store.Pack)
			listsTogether(t, st, store.Lease, store.Mark)
			listsTogether(t, st, store.Pack)
			listsTogether(t, retry.Wrap(st, retry.DefaultPolicy()), store.Index, store.Mark, store.Pack)
			f.Served()
			if page == 1000 {
				for range store.Together(st)(t.Context(), store.Index, store.Mark, store.Pack) {
				}
				require.Equal(t, [3]uint64{2, 0, 0}, f.Served(), "one for the packs of trees")
			}
			for _, err := range store.Together(st)(t.Context(), store.Config, store.Index) {
				require.ErrorIs(t, err, store.ErrName)
			}
		}
	}
}

func TestAServerListsFoldersTogether(t *testing.T) {
	st := onServer(t, s3test.Start(t), "together")
	fill(t, st)
	listsTogether(t, st, store.Index, store.Mark, store.Pack)
	listsTogether(t, st, store.Lease, store.Mark)
}

// TestConfigAndKeyTakeOneRequest: the request that asks for the size reads them, once.
func TestConfigAndKeyTakeOneRequest(t *testing.T) {
	f := s3test.NewFake(t)
	st := onFake(t, f)
	for _, name := range []store.Name{{Kind: store.Config}, {Kind: store.Key, ID: "ab"}} {
		for _, text := range []string{"one", "another"} {
			require.NoError(t, st.Put(t.Context(), name, []byte(text)))
			f.Served()
			data, err := object.ReadFile(t.Context(), st, name, -1)
			require.NoError(t, err)
			require.Equal(t, text, string(data))
			require.Equal(t, [3]uint64{0, 1, 0}, f.Served())
			require.NoError(t, st.Get(t.Context(), name, 0, data))
			require.Equal(t, [3]uint64{0, 1, 0}, f.Served(), "it is kept for one Get")
		}
		_, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, st.Put(t.Context(), name, []byte("changed")))
		data := make([]byte, len("changed"))
		require.NoError(t, st.Get(store.SecondLook(t.Context()), name, 0, data))
		require.Equal(t, "changed", string(data), "a second look reads the target")
		large := make([]byte, 100<<10)
		require.NoError(t, st.Put(t.Context(), name, large))
		info, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		require.EqualValues(t, len(large), info.Size)
		require.NoError(t, st.Get(t.Context(), name, 0, large))
		require.NoError(t, st.Delete(t.Context(), name))
		_, err = st.Stat(t.Context(), name)
		require.ErrorIs(t, err, store.ErrNotExist)
	}
}
