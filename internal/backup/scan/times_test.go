package scan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestSafe(t *testing.T) {
	seen := tree.Time{Sec: 100, Nsec: 10_000_000}
	for _, c := range []struct {
		changed tree.Time
		want    bool
	}{
		{tree.Time{Sec: 99, Nsec: 989_999_999}, true},
		{tree.Time{Sec: 99, Nsec: 990_000_000}, false}, // one granularity before
		{tree.Time{Sec: 100, Nsec: 5}, false},
		{tree.Time{Sec: 100, Nsec: 10_000_001}, false}, // after
		{tree.Time{Sec: 98}, true},                     // no fractions: two seconds
		{tree.Time{Sec: 99}, false},
		{tree.Time{Sec: -5, Nsec: 1}, true},
		{tree.Time{Sec: 1 << 40, Nsec: 1}, false},
	} {
		require.Equal(t, c.want, Safe(c.changed, seen), "%+v", c.changed)
	}
}
