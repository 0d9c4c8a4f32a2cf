package cachefile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

func opened(t *testing.T, entries int) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("hold all"))
		for i := range entries {
			if err == nil {
				err = b.Put([]byte{byte(i)}, []byte{byte(i), 1})
			}
		}
		return err
	}))
	return db
}

func TestAsBboltDoes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 200} {
		require.NoError(t, opened(t, n).View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("hold all"))
			k, v := First(b.Cursor())
			wantK, wantV := b.Cursor().First()
			require.Equal(t, wantK, k)
			require.Equal(t, wantV, v)
			var ours, theirs [][]byte
			require.NoError(t, Each(b, func(k, v []byte) error { ours = append(ours, k, v); return nil }))
			require.NoError(t, b.ForEach(func(k, v []byte) error { theirs = append(theirs, k, v); return nil }))
			require.Equal(t, theirs, ours)
			return nil
		}))
	}
}

// The page that a small bucket lies in is filled with zeros after the bucket was found. If the place of a bucket in the
// page is no multiple of eight, as with a name of another length here, bbolt makes a copy.
func TestZerosEndWithAPanic(t *testing.T) {
	for name, look := range map[string]func(b *bolt.Bucket){
		"first": func(b *bolt.Bucket) { First(b.Cursor()) },
		"each":  func(b *bolt.Bucket) { _ = Each(b, func(_, _ []byte) error { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t, 3)
			data, err := os.ReadFile(db.Path())
			require.NoError(t, err)
			head := 2 * os.Getpagesize()
			require.NoError(t, db.View(func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte("hold all"))
				require.Zero(t, b.Root(), "it lies in the page above it")
				f, err := os.OpenFile(db.Path(), os.O_WRONLY, 0)
				require.NoError(t, err)
				defer f.Close()
				_, err = f.WriteAt(bytes.Repeat([]byte{0}, len(data)-head), int64(head))
				require.NoError(t, err)
				require.Panics(t, func() { look(b) })
				return nil
			}))
		})
	}
}
