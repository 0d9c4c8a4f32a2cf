package bucket

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// person uses the program on a repository in a bucket.
type person struct {
	*testing.T
	server *s3test.Server
	home   string
}

// try runs a command.
func (p *person) try(args ...string) (code int, out, errs string) {
	p.Helper()
	env := map[string]string{"HOME": p.home, "AWS_ACCESS_KEY_ID": s3test.ID, "AWS_SECRET_ACCESS_KEY": s3test.Secret,
		"TIDEMARK_PASSWORD": "x", "TIDEMARK_S3_CA": p.server.CAFile()}
	var stdout, stderr bytes.Buffer
	args = append(args, "--repo", "s3://"+p.server.Addr+"/"+s3test.Bucket+"/p", "--s3-ca", p.server.CAFile())
	code = cli.Run(p.Context(), cli.Process{Args: args, Out: &stdout, Err: &stderr, In: strings.NewReader(""),
		Stretch: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1},
		Env: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		}})
	return code, stdout.String(), stderr.String()
}

// run runs a command that succeeds.
func (p *person) run(args ...string) string {
	p.Helper()
	code, out, errs := p.try(args...)
	require.Zero(p, code, "%q: %s%s", args, out, errs)
	return out
}

// cached returns the content of the local cache.
func (p *person) cached() map[string]string {
	all := make(map[string]string)
	root := os.DirFS(filepath.Join(p.home, ".cache", "tidemark"))
	require.NoError(p, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		all[name] = string(data)
		return err
	}))
	require.NotEmpty(p, all)
	return all
}

// versions returns all versions of all objects.
func versions(t *testing.T, client *minio.Client) (all []minio.ObjectInfo) {
	for o := range client.ListObjectsIter(t.Context(), s3test.Bucket,
		minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		require.NoError(t, o.Err)
		all = append(all, o)
	}
	return all
}

// attack removes each object and overwrites it with junk, as keys of the repository allow, and tries to shorten the
// lock of each version and to remove it; versions that say that an object was removed only with markers. It returns how
// many versions the server has kept.
func attack(t *testing.T, client *minio.Client, mode minio.RetentionMode, markers bool) (kept int) {
	before := versions(t, client)
	done := make(map[string]bool)
	for _, o := range before {
		if done[o.Key] {
			continue
		}
		done[o.Key] = true
		if len(done)%2 == 0 {
			require.NoError(t, client.RemoveObject(t.Context(), s3test.Bucket, o.Key, minio.RemoveObjectOptions{}))
		}
		_, err := client.PutObject(t.Context(), s3test.Bucket, o.Key, bytes.NewReader([]byte("junk")), 4,
			minio.PutObjectOptions{SendContentMd5: true})
		require.NoError(t, err)
		if len(done)%3 == 0 {
			require.NoError(t, client.RemoveObject(t.Context(), s3test.Bucket, o.Key, minio.RemoveObjectOptions{}))
		}
	}
	for _, o := range before {
		if o.IsDeleteMarker && !markers {
			continue
		}
		remove := minio.RemoveObjectOptions{VersionID: o.VersionID}
		if o.IsDeleteMarker || strings.Contains(o.Key, "/leases/") || strings.Contains(o.Key, "/marks/") {
			require.NoError(t, client.RemoveObject(t.Context(), s3test.Bucket, o.Key, remove))
			continue
		}
		soon := time.Now().Add(2 * time.Second)
		err := client.PutObjectRetention(t.Context(), s3test.Bucket, o.Key,
			minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &soon, VersionID: o.VersionID})
		require.Equal(t, minio.AccessDenied, minio.ToErrorResponse(err).Code, "the lock is shortened")
		err = client.RemoveObject(t.Context(), s3test.Bucket, o.Key, remove)
		require.Equal(t, minio.AccessDenied, minio.ToErrorResponse(err).Code, o.Key)
		kept++
	}
	return kept
}

// TestARepositoryIsRestoredAsItWasBeforeAnAttack: the attacker has the keys of the bucket. No option but that of init
// names the lock.
func TestARepositoryIsRestoredAsItWasBeforeAnAttack(t *testing.T) {
	testkit.Slow(t)
	for mode, markers := range map[string]bool{"governance": false, "compliance": true} {
		t.Run(mode, func(t *testing.T) {
			p := &person{T: t, server: s3test.StartLocked(t), home: testkit.RamDir(t)}
			src := filepath.Join(p.home, "src")
			require.NoError(t, os.MkdirAll(src, 0o700))
			change := func(seed uint64) {
				for i := range 20 {
					data := storetest.Pattern(30_000+i, seed+uint64(i))
					require.NoError(t, os.WriteFile(filepath.Join(src, strconv.Itoa(i)), data, 0o600))
				}
			}
			p.run("init", "--s3-lock", mode+":1d")
			change(1)
			p.run("backup", src)
			change(1000)
			p.run("backup", src)
			p.run("forget", "--keep-last", "1", "--prune")
			next := time.Now().Truncate(time.Second).Add(time.Second) // versions have times in seconds
			require.NoError(t, store.Sleep(t.Context(), time.Until(next)))
			before := next.Format(time.RFC3339)
			require.Positive(t, attack(t, p.server.Client(), minio.RetentionMode(strings.ToUpper(mode)), markers))
			code, _, errs := p.try("snapshots")
			require.NotZero(t, code, errs)

			seen, cached := len(versions(t, p.server.Client())), p.cached()
			require.Contains(t, p.run("snapshots", "--as-of", before), src)
			code, _, errs = p.try("snapshots", "--as-of", "3 days ago")
			require.Equal(t, 10, code)
			require.Contains(t, errs, "at the time of --as-of")
			if code, out, errs := p.try("check", "--read-data", "--as-of", before); markers {
				require.Contains(t, out, "nothing is lost by this", "forgotten snapshots are back, whose index was replaced")
			} else {
				require.Zero(t, code, out+errs)
			}
			code, _, errs = p.try("check", "--read-data-rolling", "3", "--as-of", before)
			require.Equal(t, 2, code, "it would remember in the cache what was read: %s", errs)
			to := filepath.Join(p.home, "out")
			p.run("restore", "latest:"+src, "--target", to, "--as-of", before)
			kit.RequireSameFiles(t, src, to, mode)
			require.Len(t, versions(t, p.server.Client()), seen, "nothing was written")
			for name, content := range p.cached() {
				require.True(t, cached[name] == content, "%s has changed: the cache is of today", name)
			}
			code, _, errs = p.try("snapshots")
			require.NotZero(t, code, errs, "the cache shows nothing of the past")
		})
	}
}
