package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// ends returns until when each current version is locked, by its key.
func ends(t *testing.T, client *minio.Client) map[string]time.Time {
	all := make(map[string]time.Time)
	for o := range client.ListObjectsIter(t.Context(), s3test.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		require.NoError(t, o.Err)
		o, err := client.StatObject(t.Context(), s3test.Bucket, o.Key, minio.StatObjectOptions{})
		require.NoError(t, err)
		if text := o.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"); text != "" {
			all[o.Key], err = time.Parse(time.RFC3339, text)
			require.NoError(t, err)
		}
	}
	return all
}

// interrupted is a store whose locks cannot be extended after some files, once those are done.
type interrupted struct {
	store.Store
	after   atomic.Int64
	mu      sync.Mutex
	running sync.WaitGroup
}

// begin reports whether the lock of one more file can be extended.
func (i *interrupted) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.after.Add(-1) < 0 {
		return false
	}
	i.running.Add(1)
	return true
}

func (i *interrupted) Lock() *store.Lock {
	return store.LockOf(i.Store).Around(func(_ context.Context, _ store.Name, extend func() error) error {
		if !i.begin() {
			i.running.Wait()
			return errors.New("killed")
		}
		defer i.running.Done()
		return extend()
	})
}

// TestPruneExtendsTheLocksOfWhatStays: one request for each file, when half of the term has passed.
func TestPruneExtendsTheLocksOfWhatStays(t *testing.T) {
	testkit.Slow(t)
	server := s3test.StartLocked(t)
	keys := s3.Keys{Env: func(name string) (string, bool) {
		value, ok := map[string]string{"AWS_ACCESS_KEY_ID": s3test.ID, "AWS_SECRET_ACCESS_KEY": s3test.Secret}[name]
		return value, ok
	}}
	var requests s3.Requests
	open := func(l s3.Lock) *s3.Store {
		remote, err := s3.Create(t.Context(), s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket, Prefix: "p"},
			s3.Options{Keys: keys, CA: server.CA, Bucket: s3.Bucket{Lock: l}, Requests: &requests})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, remote.Close()) })
		return remote
	}
	const term = time.Hour
	remote := open(s3.Lock{Mode: "governance", Term: term})
	through := &interrupted{Store: retry.Wrap(meter.Wrap(limit.Wrap(remote, nil), new(meter.Counters).Observe),
		retry.DefaultPolicy())}
	through.after.Store(1000)
	e := kit.NewEngine(t, through)
	src := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(src, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(src, "a"), []byte("some text"), 0o600))
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	extend := func(held time.Time, dry bool) (n uint64, until time.Time, failed error) {
		require.NoError(t, e.With(func(r *repo.Repository) error {
			n, until, failed = prune.Extend(t.Context(), r, held, dry)
			return nil
		}))
		return n, until, failed
	}
	client := server.Client()
	first := ends(t, client)
	require.Len(t, first, 5, "config, key, pack, segment, snapshot: %v", first)
	require.NoError(t, store.Sleep(t.Context(), 1100*time.Millisecond))
	n, _, err := extend(time.Time{}, true)
	require.NoError(t, err)
	require.EqualValues(t, len(first), n)
	require.Equal(t, first, ends(t, client), "a dry run")

	through.after.Store(2)
	before := time.Now()
	_, until, err := extend(time.Time{}, false)
	require.ErrorContains(t, err, "killed")
	require.Zero(t, until, "the next one begins at the start")
	later := 0
	for key, end := range ends(t, client) {
		require.False(t, end.Before(first[key]), key)
		if end.After(first[key]) {
			later++
		}
	}
	require.Equal(t, 2, later)

	through.after.Store(1000)
	was := of(&requests)
	n, until, err = extend(until, false)
	require.NoError(t, err)
	require.EqualValues(t, len(first), n)
	require.EqualValues(t, n, of(&requests).since(was).put, "one request for each")
	for key, end := range ends(t, client) {
		require.WithinDuration(t, before.Add(term), end, 5*time.Second, key)
		require.True(t, end.After(first[key]), key)
	}
	n, again, err := extend(until, false)
	require.NoError(t, err)
	require.Zero(t, n, "half of the term has not passed")
	require.Equal(t, until, again)
	n, _, err = extend(time.Now().Add(term/2-time.Minute), false)
	require.NoError(t, err)
	require.EqualValues(t, len(first), n)
	n, _, err = extend(time.Now().Add(2*term), false)
	require.NoError(t, err)
	require.EqualValues(t, len(first), n, "a time that no lock can have is not trusted")

	shorter := &kit.Engine{T: t, Store: open(s3.Lock{Mode: "governance", Term: time.Minute}), Open: e.Open}
	require.NoError(t, shorter.With(func(r *repo.Repository) error {
		n, _, err = prune.Extend(t.Context(), r, time.Time{}, false)
		return err
	}), "longer locks stay")
	require.EqualValues(t, len(first), n)
	for key, end := range ends(t, client) {
		require.True(t, end.After(first[key]) || key == "p/config", "%s: the config is stored once more", key)
	}
}

// refusing is a store that does not extend the locks of some files.
type refusing struct {
	store.Store
	refuses func(name store.Name) bool
	asked   atomic.Int64
}

func (r *refusing) Lock() *store.Lock {
	return &store.Lock{Name: "compliance:1h", Config: "compliance:1h", Term: time.Hour,
		Extend: func(_ context.Context, name store.Name) error {
			r.asked.Add(1)
			if r.refuses(name) {
				return store.ErrDenied
			}
			return nil
		}}
}

// TestRefusedExtensions: a file whose lock is not extended keeps no other from that, and where none is extended, since
// the keys lack the right, not every file is tried.
func TestRefusedExtensions(t *testing.T) {
	st := &refusing{Store: mem.New(), refuses: func(name store.Name) bool { return name.Kind == store.Config }}
	e := kit.NewEngine(t, st)
	const packs = 400
	for i := range packs {
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Pack, ID: fmt.Sprintf("%064x", i)}, nil))
	}
	extend := func() (n uint64, err error) {
		st.asked.Store(0)
		_ = e.With(func(r *repo.Repository) error {
			n, _, err = prune.Extend(t.Context(), r, time.Time{}, false)
			return nil
		})
		return n, err
	}
	n, err := extend()
	require.ErrorIs(t, err, store.ErrDenied)
	require.Greater(t, n, uint64(packs))
	require.EqualValues(t, n+1, st.asked.Load(), "all but the config")
	st.refuses = func(store.Name) bool { return true }
	n, err = extend()
	require.ErrorIs(t, err, store.ErrDenied)
	require.Zero(t, n)
	require.Less(t, st.asked.Load(), int64(packs/2))
}

// replaceConfig stores the config once more, without its lock.
func replaceConfig(t *testing.T, client *minio.Client) {
	const key = "p/config"
	o, err := client.GetObject(t.Context(), s3test.Bucket, key, minio.GetObjectOptions{})
	require.NoError(t, err)
	data, err := io.ReadAll(o)
	require.NoError(t, err)
	_, err = client.PutObject(t.Context(), s3test.Bucket, key, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectOptions{SendContentMd5: true})
	require.NoError(t, err)
}

// TestALockOutlivesItsConfig: a machine that has seen the lock goes on with it, and says so, when an attacker has
// replaced the config. A prune with the lock as an option extends all locks at once then, though none is due.
func TestALockOutlivesItsConfig(t *testing.T) {
	p := &person{T: t, server: s3test.StartLocked(t), home: testkit.RamDir(t)}
	src := filepath.Join(p.home, "src")
	require.NoError(t, os.MkdirAll(src, 0o700))
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(src, "a"), []byte(text), 0o600))
	}
	write("some text")
	p.run("init", "--s3-lock", "compliance:2h")
	p.run("backup", src)
	p.run("prune", "--s3-lock", "compliance:2h")
	client := p.server.Client()
	replaceConfig(t, client)
	before := ends(t, client)
	require.NotContains(t, before, "p/config")
	write("another text")
	p.run("backup", src)
	after := ends(t, client)
	require.GreaterOrEqual(t, len(after), len(before)+3, "pack, segment and snapshot are locked")
	errs := ""
	for _, command := range []string{"check", "snapshots"} {
		_, out, text := p.try(command)
		errs += out + text
	}
	require.Equal(t, 2, strings.Count(errs, "says no lock, and this machine goes on with the lock"), errs)
	require.Contains(t, p.run("prune", "--json", "--s3-lock", "compliance:2h"), `"locks_extended":9`)
	require.Contains(t, ends(t, client), "p/config")
}

// TestALockEnds goes through the commands, with a lock of seconds.
func TestALockEnds(t *testing.T) {
	testkit.Slow(t)
	p := &person{T: t, server: s3test.StartLocked(t), home: testkit.RamDir(t)}
	src := filepath.Join(p.home, "src")
	require.NoError(t, os.MkdirAll(src, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(src, "a"), []byte("some text"), 0o600))
	p.run("init", "--s3-lock", "compliance:6s")
	p.run("backup", src)
	require.Contains(t, p.run("prune", "--dry-run"), "locks extended: at most 6 files, one request for each")
	require.Contains(t, p.run("prune", "--json"), `"locks_extended":6`)
	require.Contains(t, p.run("prune", "--json"), `"locks_extended":0`)
	client := p.server.Client()
	replaceConfig(t, client)
	code, out, errs := p.try("prune", "--json")
	require.Zero(t, code)
	require.Contains(t, out, `"locks_extended":6`, "others may have stored files without a lock")
	require.Contains(t, out+errs, "says no lock, and this machine goes on with")
	_, out, errs = p.try("prune", "--json")
	require.NotContains(t, out+errs, "says no lock", "the config was stored once more")
	for o := range client.ListObjectsIter(t.Context(), s3test.Bucket,
		minio.ListObjectsOptions{Recursive: true, Prefix: "p/trees/"}) {
		require.NoError(t, client.RemoveObject(t.Context(), s3test.Bucket, o.Key, minio.RemoveObjectOptions{}))
	}
	code, _, errs = p.try("prune", "--s3-lock", "compliance:13s")
	require.Equal(t, 1, code, "a pack is missing: %s", errs)
	var last time.Time
	for key, end := range ends(t, client) {
		require.Greater(t, time.Until(end), 9*time.Second, "%s: a prune that fails extends locks all the same", key)
		require.False(t, strings.Contains(key, "/leases/") || strings.Contains(key, "/marks/"), key)
		if end.After(last) {
			last = end
		}
	}
	for _, o := range versions(t, client) {
		if strings.HasSuffix(o.Key, "/config") && o.IsLatest {
			require.Error(t, client.RemoveObject(t.Context(), s3test.Bucket, o.Key,
				minio.RemoveObjectOptions{VersionID: o.VersionID}))
		}
	}
	require.NoError(t, store.Sleep(t.Context(), time.Until(last.Add(time.Second))))
	_, _, errs = p.try("prune", "--dry-run")
	require.Contains(t, errs, "warning: locks that prune extended ended ")
	for _, o := range versions(t, client) {
		require.NoError(t, client.RemoveObject(t.Context(), s3test.Bucket, o.Key,
			minio.RemoveObjectOptions{VersionID: o.VersionID}))
	}
	require.Empty(t, versions(t, client))
}
