package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// What a message about a full target says to do works as it is typed, and is done to that target, whichever repository
// is the default.
func TestTheAdviceForAFullTargetWorks(t *testing.T) {
	testkit.Slow(t)
	s, other := newStage(t), newStage(t)
	for range 2 {
		for _, on := range []*stage{s, other} {
			on.do("backup", "--password-file", on.at("password"), "--force", on.source)
		}
	}
	snapshots := func(s *stage) int {
		names, err := os.ReadDir(filepath.Join(s.repo, store.Snapshot.Folder()))
		require.NoError(t, err)
		return len(names)
	}
	had, hadOther := snapshots(s), snapshots(other)
	_, rest, found := strings.Cut(store.FreeSpace(s.repo), "'tidemark ")
	command, _, quoted := strings.Cut(rest, "'")
	require.True(t, found && quoted)
	other.do(append(strings.Fields(command), "--password-file", s.at("password"))...)
	require.Less(t, snapshots(s), had)
	require.Equal(t, hadOther, snapshots(other))
}

// A place without space for a repository has no snapshots to forget.
func TestInitOnAFullDisk(t *testing.T) {
	s := newStage(t)
	full := s.at("full")
	testkit.MountMemory(t, full, "64k")
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), make([]byte, 60<<10), 0o600))
	cmd := exec.Command("tidemark", "init", "--repo", filepath.Join(full, "r"), "--password-file", s.at("password"))
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no space left for a repository at "+filepath.Join(full, "r"))
	require.NotContains(t, string(out), "forget")
}
