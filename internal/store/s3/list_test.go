package s3_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// pairs holds each list back until a second one has come.
type pairs struct {
	*s3test.Fake
	mu      sync.Mutex
	waiting chan struct{}
	alone   bool
}

func (p *pairs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Get("list-type") != "" && !q.Has("max-keys") { // opening asks for one object
		p.meet(r)
	}
	p.Fake.ServeHTTP(w, r)
}

func (p *pairs) meet(r *http.Request) {
	p.mu.Lock()
	first := p.waiting
	if first != nil {
		close(first)
		p.waiting = nil
		p.mu.Unlock()
		return
	}
	second := make(chan struct{})
	p.waiting = second
	p.mu.Unlock()
	select {
	case <-second:
	case <-r.Context().Done():
	case <-time.After(10 * time.Second):
		p.mu.Lock()
		p.alone = true
		p.mu.Unlock()
	}
}

// TestBothFoldersOfPacksAreListedAtOnce: the second list does not wait for the first one.
func TestBothFoldersOfPacksAreListedAtOnce(t *testing.T) {
	fake := s3test.NewFake(t)
	data, trees := store.Name{Kind: store.Pack, ID: "da7a"}, store.Name{Kind: store.Pack, ID: "7ee5"} // an odd digit
	for _, name := range []store.Name{data, trees} {
		require.NoError(t, onFake(t, fake).Put(t.Context(), name, []byte("x")))
	}
	held := &pairs{Fake: fake}
	server := httptest.NewServer(held)
	defer server.Close()
	st, err := s3.Create(t.Context(), s3.Target{Endpoint: strings.TrimPrefix(server.URL, "http://"),
		Bucket: s3test.Bucket, Prefix: "a/b"}, s3.Options{Keys: keys(), Plain: true})
	require.NoError(t, err)
	var found []store.Name
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		found = append(found, info.Name)
	}
	require.ElementsMatch(t, []store.Name{data, trees}, found)
	require.False(t, held.alone)
}

// listedIn returns the names of a kind in a list of the keys of a fake server below a/b/, each once, and in how many
// turns and requests they came.
func listedIn(t *testing.T, f *s3test.Fake, kind store.Kind, keys []string) (turns int, requests uint64) {
	t.Helper()
	f.Fill(keys...)
	st := onFake(t, f)
	defer st.Close()
	f.Served()
	f.Turns()
	found := make([]string, 0, len(keys))
	for info, err := range st.List(t.Context(), kind) {
		require.NoError(t, err)
		found = append(found, "a/b/"+info.Name.Path())
	}
	slices.Sort(found)
	slices.Sort(keys)
	require.Equal(t, keys, found)
	return f.Turns(), f.Served()[0]
}

// hashes returns n keys of a kind, whose IDs have length digits.
func hashes(kind store.Kind, n, length int) (keys []string) {
	for i := range n {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		keys = append(keys, "a/b/"+store.Name{Kind: kind, ID: hex.EncodeToString(sum[:])[:length]}.Path())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// TestLongListsAreAskedForInParts: 30,000 names take two turns more than one. No name is lost or comes twice, even
// where the names are not spread evenly or lie where two parts meet.
func TestLongListsAreAskedForInParts(t *testing.T) {
	testkit.Slow(t)
	for _, c := range []struct {
		what            string
		kind            store.Kind
		keys            []string
		page            int
		turns, requests int // at most; 0: they are not counted
	}{
		{"one answer", store.Snapshot, hashes(store.Snapshot, 1000, 64), 1000, 1, 1},
		{"two answers", store.Snapshot, hashes(store.Snapshot, 1999, 64), 1000, 2, 2},
		{"30,000", store.Snapshot, hashes(store.Snapshot, 30_000, 64), 1000, 3, 40},
		{"packs", store.Pack, hashes(store.Pack, 12_000, 64), 1000, 3, 20},
		{"each name of four digits", store.Mark, hashes(store.Mark, 30_000, 4), 1000, 4, 40},
		{"each name of eight digits", store.Mark, hashes(store.Mark, 30_000, 8), 1000, 3, 40},
		{"short answers", store.Index, hashes(store.Index, 4000, 64), 150, 0, 40},
		{"names that begin alike", store.Lease, uneven(), 1000, 0, 1100},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := s3test.NewFake(t)
			f.Page = c.page
			if c.turns > 0 { // long enough for all requests of a turn to begin
				f.Delay = 500 * time.Millisecond
			}
			turns, requests := listedIn(t, f, c.kind, c.keys)
			t.Logf("%d names: %d turns, %d requests", len(c.keys), turns, requests)
			if c.turns > 0 {
				require.LessOrEqual(t, turns, c.turns)
			}
			require.LessOrEqual(t, requests, uint64(c.requests))
		})
	}
}

// uneven returns keys; most begin with the same digits.
func uneven() (keys []string) {
	for i := range 5000 {
		keys = append(keys, fmt.Sprintf("a/b/leases/00000000%04x", i))
	}
	return append(keys, "a/b/leases/8", "a/b/leases/f", "a/b/leases/"+strings.Repeat("f", 64))
}

// TestFilesOfOthersDisturbNoLongList: the key at which a list is divided is of another program, and behind, before or
// beside those of the repository.
func TestFilesOfOthersDisturbNoLongList(t *testing.T) {
	testkit.Slow(t)
	for _, other := range []string{"zz/00000000", "0", "ff/zzz", "zz.txt", "~"} {
		for _, place := range []string{"snapshots/", "snapshots/9", "snapshots/0"} {
			f := s3test.NewFake(t)
			f.Page = 1000
			var others []string
			for i := range 2200 {
				others = append(others, fmt.Sprintf("a/b/%s-%05d%s", place, i, other))
			}
			f.Fill(others...)
			for _, n := range []int{900, 1999, 6000} {
				listedIn(t, f, store.Snapshot, hashes(store.Snapshot, n, 64))
			}
		}
	}
}

// TestAPartOfAListGoesOnAfterAFault: a part that the server refuses for a moment is asked for once more.
func TestAPartOfAListGoesOnAfterAFault(t *testing.T) {
	testkit.Slow(t)
	f := s3test.NewFake(t)
	f.Page = 1000
	var lists int
	f.Faults(func(r *http.Request) s3test.Fault {
		if r.URL.Query().Has("start-after") {
			if lists++; lists%2 == 1 {
				return s3test.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}
			}
		}
		return s3test.Fault{}
	})
	listedIn(t, f, store.Snapshot, hashes(store.Snapshot, 5000, 64))
	require.Greater(t, lists, 4)
}

// TestAServerThatListsInNoOrderIsRefused: parts of a list rely on the order of the keys.
func TestAServerThatListsInNoOrderIsRefused(t *testing.T) {
	f := s3test.NewFake(t)
	f.Backwards = true
	f.Fill(hashes(store.Snapshot, 3, 64)...)
	var last error
	for _, err := range onFake(t, f).List(t.Context(), store.Snapshot) {
		last = err
	}
	require.ErrorContains(t, last, "in no order")
}
