package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestUnknownCommandListsTheCommands(t *testing.T) {
	for _, args := range [][]string{nil, {"nosuch"}, {"-h"}} {
		require.ErrorContains(t, run(t.Context(), args), "peers ")
	}
}

// Each command that the usage lists has flags of its own.
func TestCommandsOfTheUsage(t *testing.T) {
	testkit.Slow(t)
	program := filepath.Join(t.TempDir(), "tidemark-bench")
	testkit.Build(t, "tidemark-bench", program)
	commands := regexp.MustCompile(`(?m)^  (\w+) `).FindAllStringSubmatch(usage, -1)
	require.Len(t, commands, 5)
	for _, c := range commands {
		out, err := exec.CommandContext(t.Context(), program, c[1], "-h").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "Usage of tidemark-bench "+c[1])
		require.Regexp(t, "-json|-events|-pictures", string(out), "measurements go to a file")
	}
}
