package extsort

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "runs"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// bufferOf returns the entries of a map, and before each one another value, which it replaces. Keys have 12 bytes. The
// first 8 are equal for several keys.
func bufferOf(m map[uint32]string) *Buffer {
	b := &Buffer{KeySize: 12}
	for k := range m {
		b.Add(key(k), []byte("replaced"))
	}
	for k, v := range m {
		b.Add(key(k), []byte(v))
	}
	return b
}

func key(k uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(k/7)), k%7)
}

// TestMergeIsAMap compares with a map: keys ascend, each occurs once, and the value of the last run counts.
func TestMergeIsAMap(t *testing.T) {
	for _, runs := range []int{0, 1, 2, 9, 100} {
		rng := rand.New(rand.NewPCG(uint64(runs), 1))
		f := tempFile(t)
		r := New(f, f, 12)
		want := make(map[uint32]string)
		for i := range runs {
			run := make(map[uint32]string)
			for range rng.IntN(200) {
				k := rng.Uint32N(300)
				run[k] = fmt.Sprint("value of run ", i, " ", k)[:rng.IntN(15)]
			}
			maps.Copy(want, run)
			require.NoError(t, r.Write(bufferOf(run)))
			off, err := r.Append([]byte("between"))
			require.NoError(t, err)
			require.Less(t, off, r.End())
		}
		require.Equal(t, runs, r.Len())
		last := map[uint32]string{17: "in memory", 400: "alone there"}
		maps.Copy(want, last)
		m, err := Merge(r.Sources(bufferOf(last))...)
		require.NoError(t, err)
		keys := slices.Sorted(maps.Keys(want))
		for _, k := range keys {
			got, value, ok, err := m.Next()
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, key(k), got)
			require.Equal(t, want[k], string(value))
		}
		for range 2 {
			_, _, ok, err := m.Next()
			require.NoError(t, err)
			require.False(t, ok)
		}
	}
}

// failing is a file that cannot be written or read.
type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error)  { return 0, f.err }
func (f failing) WriteAt([]byte, int64) (int, error) { return 0, f.err }

// TestErrorsOfTheFile: a file that cannot be written or is cut short is an error, not an end.
func TestErrorsOfTheFile(t *testing.T) {
	broken := errors.New("broken")
	r := New(failing{broken}, failing{broken}, 12)
	require.ErrorIs(t, r.Write(bufferOf(map[uint32]string{1: "x"})), broken)
	_, err := r.Append([]byte("x"))
	require.ErrorIs(t, err, broken)

	f := tempFile(t)
	r = New(f, f, 12)
	require.NoError(t, r.Write(bufferOf(map[uint32]string{1: "a value", 2: "another"})))
	for _, left := range []int64{r.End() - 3, 12 + 1 + 7} { // within an entry and between two
		require.NoError(t, f.Truncate(left))
		m, err := Merge(r.Sources(&Buffer{})...)
		require.NoError(t, err)
		_, _, ok, err := m.Next()
		require.NoError(t, err)
		require.True(t, ok)
		_, _, _, err = m.Next()
		require.Error(t, err, left)
	}
}
