package s3_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// keys are those of the test servers.
func keys() s3.Keys {
	return s3.Keys{Env: func(name string) (string, bool) {
		value, ok := map[string]string{"AWS_ACCESS_KEY_ID": s3test.ID, "AWS_SECRET_ACCESS_KEY": s3test.Secret}[name]
		return value, ok
	}}
}

// onServer opens a prefix on a real server.
func onServer(t *testing.T, s *s3test.Server, prefix string) *s3.Store {
	t.Helper()
	st, err := s3.Create(t.Context(), s3.Target{Endpoint: s.Addr, Bucket: s3test.Bucket, Prefix: prefix},
		s3.Options{Keys: keys(), CA: s.CA})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// onFake opens a prefix on a fake server.
func onFake(t *testing.T, f *s3test.Fake) *s3.Store {
	t.Helper()
	st, err := s3.Create(t.Context(), s3.Target{Endpoint: f.Addr, Bucket: s3test.Bucket, Prefix: "a/b"},
		s3.Options{Keys: keys(), Plain: true})
	require.NoError(t, err)
	return st
}

func TestContractOnAServer(t *testing.T) {
	server := s3test.Start(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		return onServer(t, server, "some/prefix"+strconv.FormatInt(n.Add(1), 10))
	})
}

func TestContractOnTheFake(t *testing.T) {
	testkit.Slow(t)
	storetest.Run(t, func(t *testing.T) store.Store { return onFake(t, s3test.NewFake(t)) })
}

// TestOneOfTwoProcessesGetsAName has the other process connect to the same server.
func TestOneOfTwoProcessesGetsAName(t *testing.T) {
	var server *s3test.Server
	storetest.Race(t, func() string {
		server = s3test.Start(t)
		return server.Addr + " " + server.CAFile()
	}, func(t *testing.T, place string) store.Store {
		addr, file, _ := bytes.Cut([]byte(place), []byte(" "))
		ca, err := os.ReadFile(string(file))
		require.NoError(t, err)
		return onServer(t, &s3test.Server{Addr: string(addr), CA: ca}, "race")
	})
}

func TestTheServerComparesTheSum(t *testing.T) {
	f := s3test.NewFake(t)
	st := onFake(t, f)
	f.Faults(func(r *http.Request) s3test.Fault { return s3test.Fault{Alter: r.Method == http.MethodPut} })
	name := storetest.Names()[2]
	err := st.Put(t.Context(), name, storetest.Pattern(1000, 1))
	require.ErrorIs(t, err, store.ErrTemporary)
	require.ErrorContains(t, err, "data changed on the way")
	require.Empty(t, f.Keys())
}

func TestAFenceIsNoFile(t *testing.T) {
	st := onFake(t, s3test.NewFake(t))
	name := store.Name{Kind: store.Lease, ID: "ab"}
	require.NoError(t, st.Fence(t.Context(), name))
	require.ErrorIs(t, st.Get(t.Context(), name, 0, make([]byte, 1)), store.ErrShort)
	info, err := st.Stat(t.Context(), name)
	require.NoError(t, err)
	require.True(t, info.Fence)
	require.Zero(t, info.Size)
}

func TestOneRequestStoresAFile(t *testing.T) {
	f := s3test.NewFake(t)
	st := onFake(t, f)
	f.Served()
	_, err := st.PutNew(t.Context(), storetest.Names()[5], []byte("lease"))
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), storetest.Names()[2], storetest.Pattern(5<<20, 1)))
	require.Equal(t, [3]uint64{2, 0, 0}, f.Served())
	require.NoError(t, st.Get(t.Context(), storetest.Names()[2], 100, make([]byte, 1000)))
	require.Equal(t, [3]uint64{0, 1, 0}, f.Served())
}

func TestKeysOfAFile(t *testing.T) {
	f := s3test.NewFake(t)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600))
	at := s3.Target{Endpoint: f.Addr, Bucket: s3test.Bucket}
	_, err := s3.Create(t.Context(), at, s3.Options{Keys: s3.Keys{File: file}, Plain: true})
	require.NoError(t, err)
	_, err = s3.Create(t.Context(), at, s3.Options{Keys: s3.Keys{File: file + "no"}, Plain: true})
	require.ErrorContains(t, err, "correct its name")
	require.NoError(t, os.WriteFile(file, []byte("[other]\n"), 0o600))
	_, err = s3.Create(t.Context(), at, s3.Options{Keys: s3.Keys{File: file}, Plain: true})
	require.ErrorContains(t, err, "holds no keys")
	t.Setenv("HOME", t.TempDir())
	none := s3.Keys{Env: func(name string) (string, bool) { return "true", name == "AWS_EC2_METADATA_DISABLED" }}
	_, err = s3.Create(t.Context(), at, s3.Options{Keys: none, Plain: true})
	require.ErrorContains(t, err, "set AWS_ACCESS_KEY_ID")
}

// TestOnlyPacksOfDataHaveAClass: all other files are read by every command.
func TestOnlyPacksOfDataHaveAClass(t *testing.T) {
	f := s3test.NewFake(t)
	st, err := s3.Create(t.Context(), s3.Target{Endpoint: f.Addr, Bucket: s3test.Bucket},
		s3.Options{Keys: keys(), Plain: true, Bucket: s3.Bucket{Class: "STANDARD_IA"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	data, trees := store.Name{Kind: store.Pack, ID: "a0"}, store.Name{Kind: store.Pack, ID: "a1"}
	again := store.Name{Kind: store.Pack, ID: "a2"}
	require.NoError(t, st.Put(t.Context(), data, []byte("x")))
	require.NoError(t, st.Put(t.Context(), trees, []byte("x")))
	_, err = st.PutNew(t.Context(), again, []byte("x"))
	require.NoError(t, err)
	for kind := range store.Kinds() {
		name := store.Name{Kind: kind, ID: "ab"}
		switch kind {
		case store.Config:
			name.ID = ""
		case store.Pack:
			continue
		}
		require.NoError(t, st.Put(t.Context(), name, []byte("x")), kind)
		require.NoError(t, st.Put(t.Context(), name, []byte("x")), kind)
	}
	require.Equal(t, map[string]string{data.Path(): "STANDARD_IA", again.Path(): "STANDARD_IA"}, f.Classes())
	require.Len(t, f.Keys(), 9)
}
