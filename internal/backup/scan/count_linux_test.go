package scan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// plant makes a tree of empty files.
func plant(t *testing.T, dirs, files int) string {
	root := t.TempDir()
	for d := range dirs {
		path := filepath.Join(root, fmt.Sprintf("%d/%d", d/20, d))
		require.NoError(t, os.MkdirAll(path, 0o755))
		for f := range files {
			require.NoError(t, os.WriteFile(filepath.Join(path, fmt.Sprintf("file %d", f)), nil, 0o644))
		}
	}
	return root
}

// counter is a visitor that only counts.
type counter struct{ objects atomic.Int64 }

func (c *counter) Directory(_ context.Context, d *Directory, _ *report.Clock) error {
	c.objects.Add(int64(len(d.Entries)))
	return d.Err
}
func (c *counter) Entry(*Directory, string, error) {}
func (c *counter) Excluded(*Directory, int)        {}

// A walk asks once for each object, and opens each directory once and reads it in two calls: names, end.
func TestWalkAsksOnceForEachObject(t *testing.T) {
	testkit.Slow(t)
	const dirs, files = 60, 20
	root := plant(t, dirs, files)
	gate := iopolicy.New(iopolicy.Config{Name: "test", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Important))
	pick, err := Sources([]string{root})
	require.NoError(t, err)
	for len(pick.Children) > 0 {
		pick = pick.Children[0]
	}
	c := &counter{}
	opt := Options{
		Workers: 4, Rules: rules.NewBuilder().Compile(), Ledger: report.New(time.Now),
		Gate: func(*localfs.Dir, string) *iopolicy.Pass { return pass },
	}
	require.NoError(t, Walk(t.Context(), pick, opt, c))
	all := dirs + dirs/20 + 1 // with those between, and the root
	objects := dirs*files + all - 1
	require.EqualValues(t, objects, c.objects.Load())
	const ofRoot = 3 // its status, that of its file system, and its mount
	require.EqualValues(t, objects+3*all+ofRoot, gate.Stats().Operations)
}

// Names are in the order of their bytes, however they begin.
func TestNamesAreInTheOrderOfTheirBytes(t *testing.T) {
	parts := []string{"a", "b", "\x01", "\xff", "\x7f", "abcdefgh", "abcdefg", "ab", "\x80"}
	s := &realNames{}
	var want []string
	for _, x := range parts {
		for _, y := range parts {
			for _, z := range append(parts, "") {
				want = append(want, fmt.Sprint(x, y, z))
			}
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	for i := range want {
		name := want[(i*7919)%len(want)]
		s.names = append(s.names, listed{off: uint32(len(s.arena)), len: uint32(len(name)), head: head([]byte(name))})
		s.arena = append(s.arena, name...)
	}
	text := s.sort()
	var got []string
	for _, pos := range s.order {
		got = append(got, strings.Clone(s.names[pos.index].of(text)))
	}
	require.Equal(t, want, got)
}
