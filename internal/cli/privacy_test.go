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
		p := &privacy{system: "darwin"}
		p.see(other)
		require.Empty(t, p.advice("/usr/local/bin/tidemark"), other.Path)
		p.see(hidden)
		p.see(hidden)
		require.Contains(t, p.advice("/usr/local/bin/tidemark"), "Full Disk Access, and add /usr/local/bin/tidemark")
	}
	p := &privacy{system: "linux"}
	p.see(hidden)
	require.Empty(t, p.advice("tidemark"))
}
