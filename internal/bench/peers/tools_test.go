package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/corpus"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestBorg2KeepsOneSeriesForEachTree: only after an archive of the same name is an unchanged backup fast, and a tag
// identifies each.
func TestBorg2KeepsOneSeriesForEachTree(t *testing.T) {
	p, k := place{last: "warm"}, borg2()
	split := func(label string) (tag, name string) {
		args := k.backup(p, label, "/tree")
		at := slices.Index(args, "--tags")
		require.Equal(t, "/tree", args[len(args)-1])
		return args[at+1], args[len(args)-2]
	}
	tag, data := split("cold")
	require.Equal(t, "cold", tag)
	tag, same := split("warm")
	require.Equal(t, data, same)
	require.Equal(t, []string{"extract", "tags:" + tag}, k.restore(p))
	_, first := split(tenLabel + "0-first")
	_, ten := split(tenLabel + "3")
	require.Equal(t, first, ten)
	require.NotEqual(t, data, ten)
}

// TestVykarIsConfiguredBeforeItsRepositoryIsMade runs the shell that writes the file.
func TestVykarIsConfiguredBeforeItsRepositoryIsMade(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	k := vykar()
	p := place{repo: filepath.Join(dir, `a "b" %d`), home: filepath.Join(dir, "the home"), out: dir}
	require.NoError(t, os.Mkdir(p.home, 0o700))
	calls := k.prepare(p)
	require.Equal(t, []string{"init"}, calls[1])
	_, err := measure(t.Context(), peer{name: k.name, program: "/no/such", kind: &k}, p, calls[0])
	require.NoError(t, err)
	require.Contains(t, k.env(p), "VYKAR_CONFIG="+p.home+"/vykar.yaml")
	text, err := os.ReadFile(p.home + "/vykar.yaml")
	require.NoError(t, err)
	require.Equal(t, `repositories: [{url: "`+dir+`/a \"b\" %d"}]`+"\n"+
		"compression: {algorithm: zstd}\nretention: {keep_last: 1}\n", string(text))
}

// TestStepsOfInstalledPrograms runs every step of each other repository program that is in PATH: a peer that fails is
// reported and left out of its round, which here is an error.
func TestStepsOfInstalledPrograms(t *testing.T) {
	testkit.Slow(t)
	for _, k := range repositories()[1:] {
		t.Run(k.name, func(t *testing.T) {
			if _, err := exec.LookPath(k.program); err != nil {
				t.Skipf("needs %s", k.program)
			}
			s := &settings{peers: []string{k.name}, scale: 0.0005, seed: 3, rounds: 1, work: t.TempDir()}
			s.data = []string{corpus.Tiny}
			r, err := s.all(t.Context())
			require.NoError(t, err)
			var done []string
			for _, m := range r.All {
				if m.Bytes == 0 && !slices.Contains(done, m.What) {
					done = append(done, m.What)
				}
			}
			wanted := slices.DeleteFunc(timed(), func(what string) bool {
				return what == onCheck && k.check == nil || what == onPrune && k.forget == nil
			})
			require.Equal(t, wanted, done)
			require.Less(t, r.find(k.name, onSizeNext)[0].Bytes, 2*r.find(k.name, onSizeFirst)[0].Bytes)
		})
	}
}
