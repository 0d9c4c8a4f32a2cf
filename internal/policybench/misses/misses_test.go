package misses

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

func TestMatch(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	done := []rig.Span{{From: at(10), To: at(11)}, {From: at(500), To: at(501)}, {From: at(900), To: at(901)}}
	began := []time.Time{at(5), at(12), at(700), at(902)}
	for name, c := range map[string]struct {
		seen []time.Time
		want int
	}{
		"nothing":                          {nil, 0},
		"before is not it":                 {[]time.Time{at(9)}, 0},
		"while it goes on":                 {[]time.Time{at(10)}, 1},
		"soon after our next operation":    {[]time.Time{at(112)}, 1},
		"too late":                         {[]time.Time{at(113)}, 0},
		"our next operation may come late": {[]time.Time{at(800)}, 1},
		"all":                              {[]time.Time{at(12), at(701), at(950)}, 3},
	} {
		require.Equal(t, c.want, match(done, began, c.seen), name)
	}
}

func TestTheOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foreground")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(rig.ForegroundSize)) // sparse
	require.NoError(t, f.Close())
	var out bytes.Buffer
	err = Touch(path, strings.NewReader("read\nwrite\nread\n"), &out)
	if err != nil && strings.Contains(err.Error(), "invalid argument") {
		t.Skip("the temporary directory does not know direct I/O")
	}
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	require.ErrorContains(t, Touch(path, strings.NewReader("dance\n"), &out), "neither read nor write")
}
