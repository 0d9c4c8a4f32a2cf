package cli

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
)

// Logs of several processes stay below their bound, have whole lines only, and are private.
func TestALogIsBoundedWholeAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			l := &logFile{path: path, most: 4 << 10, failed: func(err error) { t.Error(err) }}
			for range 200 {
				_, _ = l.Write([]byte("one line\nand another\n"))
			}
		})
	}
	all.Wait()
	for _, name := range []string{path, path + ".old"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.LessOrEqual(t, info.Size(), int64(4<<10+4*100), name)
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			require.Regexp(t, `^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d (one line|and another)\n$`, line)
		}
	}
}

// A log that leads elsewhere is not written: not through a symbolic link, and not to a pipe, which would block.
func TestALogIsAnOrdinaryFile(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{link, pipe, dir, filepath.Join(dir, "missing", "log")} {
		failures := 0
		l := &logFile{path: path, most: 10, failed: func(error) { failures++ }}
		for range 3 {
			n, err := l.Write([]byte("text\n"))
			require.NoError(t, err)
			require.Equal(t, 5, n)
		}
		require.Equal(t, 1, failures, path)
	}
	content, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
}

// What is shown to a person, such as a recovery key, and passwords in addresses reach no log.
func TestNoSecretReachesALog(t *testing.T) {
	var out, log strings.Builder
	p := output.Logged(output.NewText(&out, &out, output.TextOptions{Output: options.Output{Quiet: true}}), &log, nil)
	p.Show("recovery key: geheim\n")
	p.Note("an aside")
	p.Note("warning: smb://me:geheim@nas/x is away")
	p.Fail(1, "smb://me:geheim@nas/y is away", false)
	require.Contains(t, out.String(), "recovery key: geheim")
	require.Contains(t, log.String(), "nas/x is away", "--quiet does not shorten a log")
	require.Contains(t, log.String(), "nas/y is away")
	require.NotContains(t, log.String(), "geheim")
	require.NotContains(t, log.String(), "aside")
}
