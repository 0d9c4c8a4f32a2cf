package s3_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
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
