package cli

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
)

func TestWhatMacOSHidesIsOneAdvice(t *testing.T) {
	hidden := report.Issue{Path: "/Users/ann/Library/Mail", Err: fmt.Errorf("open: %w",
		&fs.PathError{Op: "openat", Path: "Mail", Err: syscall.EPERM})}
	for _, other := range []report.Issue{
		{Path: "/Users/ann/secret", Err: syscall.EACCES}, {Path: "/private/var/db/x", Err: syscall.EPERM},
	} {
		require.False(t, hiddenBy("darwin", other), other.Path)
	}
	require.True(t, hiddenBy("darwin", hidden))
	require.False(t, hiddenBy("linux", hidden))
	require.Contains(t, fullDiskAccess("/usr/local/bin/tidemark"), "Full Disk Access, and add /usr/local/bin/tidemark")
}
