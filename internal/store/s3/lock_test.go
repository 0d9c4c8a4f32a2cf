package s3_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// locked opens a prefix on a real server with a lock.
func locked(t *testing.T, s *s3test.Server, prefix string, l s3.Lock) *s3.Store {
	t.Helper()
	st, err := s3.Create(t.Context(), s3.Target{Endpoint: s.Addr, Bucket: s3test.Bucket, Prefix: prefix},
		s3.Options{Keys: keys(), CA: s.CA, Bucket: s3.Bucket{Lock: l}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestLocksAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"governance:30d", "compliance:1d", "compliance:1h0m0s"} {
		l, err := s3.ParseLock(text)
		require.NoError(t, err)
		require.Equal(t, text, l.String())
	}
	for _, text := range []string{"30d", "governance", "governance:", "compliance:0d", "compliance:-1h", "hold:3d",
		"compliance:99999d"} {
		_, err := s3.ParseLock(text)
		require.ErrorIs(t, err, s3.ErrLock, text)
	}
}

// TestEverythingButLeasesAndMarksIsLocked reads back what the server keeps.
func TestEverythingButLeasesAndMarksIsLocked(t *testing.T) {
	server := s3test.StartLocked(t)
	client := server.Client()
	for _, mode := range []string{"governance", "compliance"} {
		var requests s3.Requests
		st, err := s3.Create(t.Context(), s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket, Prefix: mode},
			s3.Options{Keys: keys(), CA: server.CA, Bucket: s3.Bucket{Lock: s3.Lock{Mode: mode, Term: time.Hour}},
				Requests: &requests})
		require.NoError(t, err)
		defer st.Close()
		put, get, remove := requests.Charged()
		before := put + get + remove
		names := fill(t, st)
		for _, name := range names {
			key := mode + "/" + name.Path()
			o, err := client.StatObject(t.Context(), s3test.Bucket, key, minio.StatObjectOptions{})
			require.NoError(t, err)
			removed := client.RemoveObject(t.Context(), s3test.Bucket, key,
				minio.RemoveObjectOptions{VersionID: o.VersionID})
			if name.Kind == store.Lease || name.Kind == store.Mark {
				require.NoError(t, removed, "%s", name)
				continue
			}
			require.Equal(t, strings.ToUpper(mode), o.Metadata.Get("X-Amz-Object-Lock-Mode"), "%s", name)
			until, err := time.Parse(time.RFC3339, o.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"))
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(time.Hour), until, time.Minute)
			require.Equal(t, minio.AccessDenied, minio.ToErrorResponse(removed).Code, "%s", name)

		}
		put, get, remove = requests.Charged()
		require.EqualValues(t, len(names), put+get+remove-before, "one request for each file")
	}
}

// TestTheConfigHasTheLock: a machine that opens the repository locks what it stores, without an option. What it stores
// for a test of the target is not locked.
func TestTheConfigHasTheLock(t *testing.T) {
	server := s3test.StartLocked(t)
	l := s3.Lock{Mode: "compliance", Term: 48 * time.Hour}
	require.NoError(t, locked(t, server, "p", l).Put(t.Context(), store.Name{Kind: store.Config}, []byte("x")))
	st := locked(t, server, "p", s3.Lock{})
	until := func(key string) string {
		o, err := server.Client().StatObject(t.Context(), s3test.Bucket, key, minio.StatObjectOptions{})
		require.NoError(t, err)
		return o.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date")
	}
	pack := store.Name{Kind: store.Pack, ID: "a0"}
	require.NoError(t, st.Put(t.Context(), pack, []byte("x")))
	require.Empty(t, until("p/"+pack.Path()), "the config was not read")
	_, err := st.Stat(t.Context(), store.Name{Kind: store.Config})
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), pack, []byte("x")))
	at, err := time.Parse(time.RFC3339, until("p/"+pack.Path()))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(l.Term), at, time.Minute)
	require.NoError(t, st.Scratch(t.Context(), func(name string, open func(string) store.Store) error {
		require.NoError(t, open(name).Put(t.Context(), pack, []byte("x")))
		require.Empty(t, until("p/"+name+"/"+pack.Path()))
		return nil
	}))
}

func TestABucketWithoutLocksIsReported(t *testing.T) {
	server := s3test.Start(t)
	at := s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket, Prefix: "p"}
	o := s3.Options{Keys: keys(), CA: server.CA, Bucket: s3.Bucket{Lock: s3.Lock{Mode: "governance", Term: time.Hour}}}
	_, err := s3.Create(t.Context(), at, o)
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "has no object lock")
	st, err := s3.Open(t.Context(), at, o)
	require.NoError(t, err)
	err = st.Put(t.Context(), store.Name{Kind: store.Pack, ID: "a0"}, []byte("x"))
	require.ErrorContains(t, err, "has no object lock")
}

// TestWithoutALockARequestIsAsBefore compares the headers that a fake server gets.
func TestWithoutALockARequestIsAsBefore(t *testing.T) {
	f := s3test.NewFake(t)
	for _, l := range []s3.Lock{{}, {Mode: "governance", Term: time.Hour}} {
		st, err := s3.Open(t.Context(), s3.Target{Endpoint: f.Addr, Bucket: s3test.Bucket},
			s3.Options{Keys: keys(), Plain: true, Bucket: s3.Bucket{Lock: l}})
		require.NoError(t, err)
		var seen http.Header
		f.Faults(func(r *http.Request) s3test.Fault {
			seen = r.Header.Clone()
			return s3test.Fault{}
		})
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Pack, ID: "a0"}, []byte("x")))
		for _, name := range []string{"X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date",
			"X-Amz-Checksum-Sha256"} {
			require.Equal(t, l == s3.Lock{}, seen.Get(name) == "", name)
		}
	}
}

// TestAFileThatIsLockedInAnotherModeIsStoredOnceMore: a server does not change the mode of a lock, so one put in the
// other mode would let all locks run out.
func TestAFileThatIsLockedInAnotherModeIsStoredOnceMore(t *testing.T) {
	server := s3test.StartLocked(t)
	pack, data := store.Name{Kind: store.Pack, ID: "a0"}, []byte("some bytes")
	others := map[string]minio.RetentionMode{"compliance": minio.Governance, "governance": minio.Compliance}
	for mode, other := range others {
		st := locked(t, server, mode, s3.Lock{Mode: mode, Term: time.Hour})
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, data))
		for _, name := range []store.Name{pack, {Kind: store.Config}} {
			key := mode + "/" + name.Path()
			_, err := server.Client().PutObject(t.Context(), s3test.Bucket, key, bytes.NewReader(data), int64(len(data)),
				minio.PutObjectOptions{SendContentMd5: true, Mode: other, RetainUntilDate: time.Now().Add(time.Minute)})
			require.NoError(t, err)
			_, err = st.Stat(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, store.LockOf(st).Extend(t.Context(), name), "%s %s", mode, name)
			o, err := server.Client().StatObject(t.Context(), s3test.Bucket, key, minio.StatObjectOptions{})
			require.NoError(t, err)
			require.Equal(t, strings.ToUpper(mode), o.Metadata.Get("X-Amz-Object-Lock-Mode"), name)
			until, err := time.Parse(time.RFC3339, o.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"))
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(time.Hour), until, time.Minute, "%s", name)
			got := make([]byte, len(data))
			require.NoError(t, st.Get(t.Context(), name, 0, got))
			require.Equal(t, data, got)
		}
		require.Equal(t, store.LockOf(st).Name, store.LockOf(st).Config, "the config says the lock again")
	}
}

// TestThePastIsReadByVersions asks for the state before and after each change.
func TestThePastIsReadByVersions(t *testing.T) {
	testkit.Slow(t)
	server := s3test.StartLocked(t)
	st := locked(t, server, "p", s3.Lock{Mode: "governance", Term: time.Hour})
	pack, trees := store.Name{Kind: store.Pack, ID: "a0"}, store.Name{Kind: store.Pack, ID: "a1"}
	key := store.Name{Kind: store.Key, ID: "ab"}
	var times []time.Time
	step := func(changes ...error) {
		for _, err := range changes {
			require.NoError(t, err)
		}
		next := time.Now().Truncate(time.Second).Add(time.Second)
		require.NoError(t, store.Sleep(t.Context(), time.Until(next)))
		times = append(times, next)
	}
	ctx := t.Context()
	step(st.Put(ctx, pack, []byte("one")), st.Put(ctx, store.Name{Kind: store.Config}, []byte("c")))
	step(st.Put(ctx, pack, []byte("second")), st.Put(ctx, key, []byte("k")))
	step(st.Delete(ctx, pack), st.Put(ctx, trees, []byte("t")), st.Put(ctx, store.Name{Kind: store.Lease, ID: "ab"}, nil))
	step(st.Put(ctx, pack, []byte("again")), st.Delete(ctx, key))
	o := s3.Options{Keys: keys(), CA: server.CA}
	at := s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket, Prefix: "p"}
	for i, want := range []struct {
		pack  string
		names []store.Name
	}{{"one", []store.Name{pack}}, {"second", []store.Name{pack, key}}, {"", []store.Name{trees, key}},
		{"again", []store.Name{pack, trees}}} {
		past, err := s3.OpenBefore(ctx, at, o, times[i])
		require.NoError(t, err)
		var found []store.Name
		for kind := range store.Kinds() {
			for info, err := range past.List(ctx, kind) {
				require.NoError(t, err)
				found = append(found, info.Name)
			}
		}
		require.ElementsMatch(t, append(want.names, store.Name{Kind: store.Config}), found, "step %d", i)
		data := make([]byte, len(want.pack))
		if err = past.Get(ctx, pack, 0, data); want.pack == "" {
			require.ErrorIs(t, err, store.ErrNotExist)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want.pack, string(data))
		info, err := past.Stat(ctx, pack)
		require.NoError(t, err)
		require.EqualValues(t, len(want.pack), info.Size)
		require.ErrorIs(t, past.Get(ctx, pack, 1, data), store.ErrShort)
		for _, err := range []error{past.Put(ctx, pack, nil), past.Delete(ctx, pack), past.Fence(ctx, pack)} {
			require.ErrorContains(t, err, "cannot be changed")
		}
		_, err = past.PutNew(ctx, key, nil)
		require.ErrorContains(t, err, "cannot be changed")
	}
}

func TestABucketWithoutVersionsHasNoPast(t *testing.T) {
	server := s3test.Start(t)
	_, err := s3.OpenBefore(t.Context(), s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket},
		s3.Options{Keys: keys(), CA: server.CA}, time.Now())
	require.ErrorContains(t, err, "keeps no older versions")
	server = s3test.StartLocked(t)
	require.NoError(t, server.Client().MakeBucket(t.Context(), "plain", minio.MakeBucketOptions{}))
	_, err = s3.OpenBefore(t.Context(), s3.Target{Endpoint: server.Addr, Bucket: "plain"},
		s3.Options{Keys: keys(), CA: server.CA}, time.Now())
	require.ErrorContains(t, err, "keeps no older versions")
}

// TestALockThatCannotBeExtendedIsReported: the keys lack the right, or the lock lasts longer.
func TestALockThatCannotBeExtendedIsReported(t *testing.T) {
	var until string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("X-Amz-Object-Lock-Mode", "COMPLIANCE")
		w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", until)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	st, err := s3.Open(t.Context(), s3.Target{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: s3test.Bucket},
		s3.Options{Keys: keys(), Plain: true, Bucket: s3.Bucket{Lock: s3.Lock{Mode: "compliance", Term: time.Hour}}})
	require.NoError(t, err)
	lock := store.LockOf(st)
	require.Equal(t, time.Hour, lock.Term)
	for end, refused := range map[time.Duration]bool{30 * time.Minute: true, 2 * time.Hour: false} {
		until = time.Now().Add(end).UTC().Format(time.RFC3339)
		err := lock.Extend(t.Context(), store.Name{Kind: store.Pack, ID: "a0"})
		require.Equal(t, refused, errors.Is(err, store.ErrDenied), "%v", err)
		if refused {
			require.ErrorContains(t, err, "s3:PutObjectRetention")
		}
	}
	none, err := s3.Open(t.Context(), s3.Target{Endpoint: "127.0.0.1:1", Bucket: s3test.Bucket}, s3.Options{Keys: keys()})
	require.NoError(t, err)
	require.Empty(t, store.LockOf(none).Name)
}
