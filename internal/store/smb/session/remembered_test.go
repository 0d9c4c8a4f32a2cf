package session

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNewestVersionStays: whatever order runs at the same time raise the record in, the newest version is remembered,
// for this server alone.
func TestNewestVersionStays(t *testing.T) {
	t.Parallel()
	for range 50 {
		l := Login{Host: "NAS", Port: 445, Known: filepath.Join(t.TempDir(), "servers")}
		var runs sync.WaitGroup
		for _, d := range dialects() {
			r := remember(l)
			runs.Go(func() { r.raise(d) })
		}
		runs.Wait()
		require.EqualValues(t, dialect311, remember(l).dialect)
		r := remember(l)
		r.raise(dialect210)
		require.EqualValues(t, dialect311, remember(l).dialect, "it only rises")

		l.Host = "nas"
		require.EqualValues(t, dialect311, remember(l).dialect, "names of hosts have no case")
		l.Port = 4455
		require.Zero(t, remember(l).dialect)
		l.Port, l.Host = 445, strings.Repeat("x", 300)
		r = remember(l)
		r.raise(dialect311) // a name too long for a file is not remembered
		require.Zero(t, remember(l).dialect)
		l.Host = "../nas"
		r = remember(l)
		r.raise(dialect311)
		require.NoFileExists(t, filepath.Join(filepath.Dir(l.Known), "nas:445-smb-3.1.1"))
	}
}

// TestOddRecordOfVersions: what is no file is no record, and no record is an error.
func TestOddRecordOfVersions(t *testing.T) {
	t.Parallel()
	l := Login{Host: "nas", Port: 445, Known: t.TempDir()}
	require.NoError(t, os.Mkdir(remember(l).path(dialect311), 0o700))
	require.Zero(t, remember(l).dialect)
	remember(l).raise(dialect311)
	require.Zero(t, remember(l).dialect)
	remember(l).raise(dialect302)
	require.EqualValues(t, dialect302, remember(l).dialect)
}
