package repo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// readAll opens a repository with an empty cache and reads every snapshot. It returns what it read, and every error it
// met on the way.
func readAll(t *testing.T, st store.Store) (content map[format.ID][][]byte, noted []string, err error) {
	t.Helper()
	ctx := t.Context()
	var mu sync.Mutex
	r, err := repo.Open(ctx, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Notify: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		noted = append(noted, text)
	}})
	if err != nil {
		return nil, nil, err
	}
	defer func() { require.NoError(t, r.Close()) }()
	all, err := r.Snapshots(ctx)
	if err != nil {
		return nil, noted, err
	}
	content = make(map[format.ID][][]byte)
	for _, l := range all {
		if l.Err != nil {
			err = errors.Join(err, l.Err)
			continue
		}
		data, readErr := readBack(ctx, r, l.ID)
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		content[l.ID] = data
	}
	return content, noted, err
}

// tiny is a repository in which each kind of file lies, and what its snapshots hold.
func tiny(t *testing.T) (store.Store, map[format.ID][][]byte) {
	t.Helper()
	st := mem.New()
	r := initialise(t, st)
	want := make(map[format.ID][][]byte)
	for seed := range uint64(2) {
		data := blobs(seed, 6)
		want[mustBackUp(t, r, data)] = data
	}
	return st, want
}

func TestEveryRemovedFile(t *testing.T) {
	st, want := tiny(t)
	for kind := range store.Kinds() {
		for _, name := range names(t, st, kind) {
			less := mem.New()
			copyStore(t, st, less)
			require.NoError(t, less.Delete(t.Context(), name))
			got, _, err := readAll(t, less)
			for id, data := range got {
				require.Equal(t, want[id], data, name)
			}
			switch kind {
			case store.Config:
				require.ErrorIs(t, err, format.ErrCorrupt)
				require.ErrorContains(t, err, "config is lost")
			case store.Key:
				require.ErrorContains(t, err, "key slots are missing")
			case store.Pack:
				require.ErrorIs(t, err, store.ErrNotExist)
				require.ErrorContains(t, err, name.ID, "names the pack")
				require.ErrorContains(t, err, "load blob ", "names the blob")
			case store.Index:
				require.NoError(t, err, "the index heals itself")
				require.Len(t, got, len(want))
			case store.Snapshot:
				require.NoError(t, err)
				require.Len(t, got, len(want)-1)
			default:
				t.Fatalf("no expectation for %v", name)
			}
		}
	}
}

func TestLosingTheWholeIndexLosesNothing(t *testing.T) {
	st, want := tiny(t)
	for _, name := range names(t, st, store.Index) {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	// The trailer of one pack is lost as well, so that its frames must be walked.
	name := names(t, st, store.Pack)[0]
	require.NoError(t, st.Put(t.Context(), name, append(bytesOf(t, st, name), "garbage at the end"...)))
	got, noted, err := readAll(t, st)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NotEmpty(t, noted)
	require.NotEmpty(t, names(t, st, store.Index), "the segments were written again")

	_, noted, err = readAll(t, st)
	require.NoError(t, err)
	require.Empty(t, noted, "the next run finds everything in order")
}

func TestDamagedSegmentIsSuperseded(t *testing.T) {
	st, want := tiny(t)
	name := names(t, st, store.Index)[0]
	require.NoError(t, st.Put(t.Context(), name, []byte("nonsense")))
	for run := range 3 {
		got, noted, err := readAll(t, st)
		require.NoError(t, err)
		require.Equal(t, want, got)
		if run == 0 {
			require.Contains(t, fmt.Sprint(noted), "1 index segments are damaged")
		} else {
			require.Empty(t, noted, "the new segment supersedes the damaged one")
		}
	}
}

// Files in the folders of a repository that are none of ours do no harm.
func TestForeignNamesAreLeftAlone(t *testing.T) {
	st, want := tiny(t)
	for kind := store.Key; kind <= store.Mark; kind++ {
		if kind == store.Mark {
			continue // a mark that cannot be read stops writers
		}
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: kind, ID: "abc"}, []byte("?")))
	}
	got, _, err := readAll(t, st)
	require.NoError(t, err)
	require.Equal(t, want, got)
	id, err := backUp(t.Context(), fresh(t, st), small(), blobs(5, 10))
	require.NoError(t, err)
	requireComplete(t, fresh(t, st), id, blobs(5, 10))
}

func TestPackOfAnotherRepositoryIsRefused(t *testing.T) {
	st, want := tiny(t)
	other := mem.New()
	_, _, err := repo.Init(t.Context(), other, repo.InitOptions{
		Secrets: []repo.Secret{{Method: keyfile.KeyFile, Value: make([]byte, 32)}},
	})
	require.NoError(t, err)
	r, err := repo.Open(t.Context(), other, repo.OpenOptions{
		Unlock: stored.UnlockWith(repo.Secret{Method: keyfile.KeyFile, Value: make([]byte, 32)}),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	mustBackUp(t, r, blobs(3, 10))
	for _, kind := range []store.Kind{store.Pack, store.Index} {
		for _, name := range names(t, other, kind) {
			require.NoError(t, st.Put(t.Context(), name, bytesOf(t, other, name)))
		}
	}
	got, noted, err := readAll(t, st)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Contains(t, fmt.Sprint(noted), "damaged")
}

func TestReadFrames(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 100)
	mustBackUp(t, r, data)
	ctx := t.Context()
	h := r.Keys().Hasher()
	byPack := make(map[index.PackInfo]map[uint32]repo.Span)
	ids := make([]format.ID, len(data))
	for i := range data {
		ids[i] = h.ID(data[i])
	}
	found := make([]index.Found, len(ids))
	require.NoError(t, r.Locate(ctx, ids, found))
	for i := range found {
		require.NotNil(t, found[i].Pack)
		loc, in := found[i].Loc, *found[i].Pack
		if byPack[in] == nil {
			byPack[in] = make(map[uint32]repo.Span)
		}
		byPack[in][loc.Offset] = repo.Span{Offset: loc.Offset, Sealed: loc.Sealed}
	}
	fr := r.NewFrameReader()
	seen := make(map[format.ID]bool)
	collect := func(_ int, raw []byte, lens []uint32, err error) error {
		require.NoError(t, err)
		for _, n := range lens {
			seen[h.ID(raw[:n])] = true
			raw = raw[n:]
		}
		require.Empty(t, raw)
		return nil
	}
	for info, spans := range byPack {
		require.NoError(t, fr.Read(ctx, info, sorted(spans), collect))
	}
	for _, id := range ids {
		require.True(t, seen[id])
	}
}

func sorted(spans map[uint32]repo.Span) []repo.Span {
	var out []repo.Span
	for _, s := range spans {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b repo.Span) int { return int(a.Offset) - int(b.Offset) })
	return out
}

// One damaged frame, or a pack that is cut, costs no more than the frames concerned.
func TestReadFramesAroundDamage(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	opt := small()
	opt.Tuning.DataPack = 1 << 20 // all in one pack
	_, err := backUp(t.Context(), r, opt, blobs(1, 60))
	require.NoError(t, err)
	h := r.Keys().Hasher()
	first := make([]index.Found, 1)
	require.NoError(t, r.Locate(t.Context(), []format.ID{h.ID(blobs(1, 1)[0])}, first))
	info := *first[0].Pack
	name := store.Name{Kind: store.Pack, ID: info.ID.String()}
	good := bytesOf(t, st, name)
	table, err := pack.OpenTable(r.Keys(), info.ID, int64(len(good)), func(off int64, p []byte) error {
		return st.Get(t.Context(), name, off, p)
	})
	require.NoError(t, err)
	var spans []repo.Span
	for _, f := range table.Frames {
		spans = append(spans, repo.Span{Offset: f.Offset, Sealed: f.Sealed})
	}
	require.Greater(t, len(spans), 5)
	fr := r.NewFrameReader()
	read := func() (ok []int) {
		require.NoError(t, fr.Read(t.Context(), info, spans, func(i int, raw []byte, _ []uint32, err error) error {
			if err != nil {
				require.ErrorIs(t, err, format.ErrCorrupt)
				require.ErrorContains(t, err, info.ID.String())
				require.Nil(t, raw)
				return nil
			}
			ok = append(ok, i)
			return nil
		}))
		return ok
	}
	require.Len(t, read(), len(spans))

	bad := append([]byte(nil), good...)
	bad[spans[2].Offset+30] ^= 1
	require.NoError(t, st.Put(t.Context(), name, bad))
	ok := read()
	require.Len(t, ok, len(spans)-1)
	require.NotContains(t, ok, 2)

	require.NoError(t, st.Put(t.Context(), name, good[:spans[3].Offset+1]))
	require.Equal(t, []int{0, 1, 2}, read())

	stop := errors.New("enough")
	calls := 0
	err = fr.Read(t.Context(), info, spans, func(int, []byte, []uint32, error) error { calls++; return stop })
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, calls)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = fr.Read(ctx, info, spans, func(int, []byte, []uint32, error) error { t.Error("visited"); return nil })
	require.ErrorIs(t, err, context.Canceled)
}
