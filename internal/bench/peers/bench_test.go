package peers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/bench/corpus"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// TestMain makes this program start what is measured.
func TestMain(m *testing.M) {
	own := map[string]func(context.Context, []string) error{StartWord: Start, kit.Word: kit.Print}
	if len(os.Args) > 1 && own[os.Args[1]] != nil {
		if err := own[os.Args[1]](context.Background(), os.Args[2:]); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

func TestIncompleteRestoreDoesNotCount(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("abc"), 0o600))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "link")))
	require.NoError(t, complete(dir, dir))
	require.ErrorContains(t, complete(out, dir), "restored 0 files of 0 bytes, there are 1 of 3")
	require.Error(t, complete(filepath.Join(dir, "gone"), dir))
}

func TestWalkSeesEveryObjectOnce(t *testing.T) {
	set, err := corpus.Make(t.Context(), filepath.Join(t.TempDir(), "set"), corpus.Spec{Kind: corpus.Tiny, Scale: 0.001})
	require.NoError(t, err)
	require.NoError(t, os.Symlink("gone", filepath.Join(set.Root(), "link")))
	n, err := kit.Count(set.Root())
	require.NoError(t, err)
	require.Equal(t, set.Objects+1, n)
	_, err = kit.Count(filepath.Join(set.Root(), "gone"))
	require.Error(t, err)
}

func TestMeasureReportsResourcesOfAProgram(t *testing.T) {
	p := place{home: t.TempDir(), out: t.TempDir()}
	sh := peer{name: "sh", program: "sh", kind: &kind{env: func(place) []string { return []string{"WORD=kept"} }}}
	u, err := measure(t.Context(), sh, p,
		[]string{"-c", `test "$WORD" = kept && i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done`})
	require.NoError(t, err)
	require.Positive(t, u.cpu())
	require.Positive(t, u.Memory)
	require.GreaterOrEqual(t, u.Seconds*2+0.02, u.User)
	_, err = measure(t.Context(), sh, p, []string{"-c", "echo why >&2; exit 3"})
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "why")
	_, err = measure(t.Context(), peer{name: "x", program: "/no/such", kind: &kind{}}, p, []string{"y"})
	require.ErrorContains(t, err, "/no/such")
}

func TestPeersByName(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "mine")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	s := &settings{peers: []string{"tidemark@before=" + program, "restic=" + program, "walk"}}
	found, missing, err := s.find(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, "tidemark@before", found[0].name)
	require.Equal(t, "tidemark", found[0].kind.name)
	require.Equal(t, program, found[1].program)
	for _, wrong := range []string{"unheard", "restic=" + dir + "/gone"} {
		s.peers = []string{wrong}
		_, _, err = s.find(t.Context(), dir)
		require.Error(t, err)
	}
	t.Setenv("PATH", dir)
	s.peers = []string{"borg"}
	_, missing, err = s.find(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, []string{"borg"}, missing)
}

// TestWholeRound runs every step with the programs that every machine has.
func TestWholeRound(t *testing.T) {
	testkit.Slow(t)
	for _, program := range []string{"tar", "zstd", "rsync", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	s := &settings{peers: []string{"tar", "rsync", "walk"}, scale: 0.0005, seed: 3, rounds: 2, work: t.TempDir()}
	s.data = []string{corpus.Tiny}
	r, err := s.all(t.Context())
	require.NoError(t, err)
	count := map[string]int{}
	for _, m := range r.All {
		count[m.Peer+": "+m.What]++
	}
	require.Equal(t, map[string]int{
		"tar: first": 2, "tar: repository, first": 2, "tar: next version": 2, "tar: repository, next": 2, "tar: restore": 2,
		"tar: check":   2,
		"rsync: first": 2, "rsync: repository, first": 2, "rsync: unchanged, cold": 2, "rsync: unchanged, warm": 2,
		"rsync: next version": 2, "rsync: repository, next": 2, "rsync: restore": 2,
		"walk: unchanged, cold": 2, "walk: unchanged, warm": 2,
	}, count)
	require.NotZero(t, r.Data[0].Change.Changed)
	left, err := os.ReadDir(s.work)
	require.NoError(t, err)
	require.Empty(t, left)

	s.data, s.steps, s.rounds = []string{t.TempDir()}, []string{stepNext, stepRestore}, 1 // a tree has no next version
	require.NoError(t, os.WriteFile(filepath.Join(s.data[0], "a"), []byte("a"), 0o644))
	r, err = s.all(t.Context())
	require.NoError(t, err)
	require.Len(t, r.All, 2)
	s.data = []string{"nowhere"}
	_, err = s.all(t.Context())
	require.ErrorContains(t, err, "no folder, and no data set")
}
