package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestSetupKilledAnywhere kills setup after a while, in each round a bit later, and runs it again: then the repository
// has one proven snapshot, the option file is whole, and the key in the file opens the repository on another machine.
func TestSetupKilledAnywhere(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if _, err := exec.LookPath("tidemark"); err != nil {
		t.Skip("needs tidemark in PATH, which TestMain puts there")
	}
	rounds, whole := testkit.Rounds(1, 3, 30), 2*time.Second
	for round := range rounds {
		dir := t.TempDir()
		run := func(ctx context.Context, args ...string) (string, error) {
			cmd := exec.CommandContext(ctx, "tidemark", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir+"/home", "XDG_RUNTIME_DIR="+dir, "TIDEMARK_REPOSITORY=")
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "src"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "src/file"), []byte("content"), 0o600))
		setup := []string{"setup", "--yes", "--repo", "disk/repo", "--source", "src", "--policy", "important",
			"--recovery-key-file", "key.txt"}
		require.NoError(t, os.Mkdir(filepath.Join(dir, "disk"), 0o700))

		ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(round+1)/time.Duration(rounds))
		_, err := run(ctx, setup...)
		cancel()
		if err == nil && round < rounds/2 { // this machine is faster
			whole /= 2
		}
		out, err := run(t.Context(), setup...)
		require.NoError(t, err, "round %d: %s", round, out)
		require.Contains(t, out, "Setup is complete", "round %d", round)
		out, err = run(t.Context(), "snapshots")
		require.NoError(t, err, "round %d: %s", round, out)
		require.Contains(t, out, "\n1 snapshot\n", "round %d", round)
		key, err := os.ReadFile(filepath.Join(dir, "key.txt"))
		require.NoError(t, err)
		require.Len(t, strings.TrimSpace(string(key)), 44, "round %d", round)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "home/.config/tidemark/keys")))
		out, err = run(t.Context(), "snapshots", "--password-file", "key.txt")
		require.NoError(t, err, "round %d: %s", round, out)
	}
}
