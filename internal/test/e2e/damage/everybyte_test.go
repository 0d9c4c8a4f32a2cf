package damage

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// flips is how many bytes of a repository TestEveryByte flips, chosen by a fixed seed.
var flips = flag.Int("flips", 400, "how many bytes of a small repository are flipped, one at a time; -1: every byte")

// flip is one byte of one file.
type flip struct {
	name store.Name
	at   int
}

// TestEveryByte flips single bytes of a small repository. A check that reads everything detects each flip. After one
// backup of the unchanged source, the newest snapshot restores byte for byte. This holds for every file but the config,
// which has no second copy.
func TestEveryByte(t *testing.T) {
	testkit.Slow(t)
	p := kit.NewPruned(t, mem.New())
	kit.Written(t, p.Src, map[string]string{
		"a/text": "a few words", "a/more": string(testkit.Noise(1, 3000)), "b/noise": string(testkit.Noise(2, 2500)),
	})
	var recovery string
	require.NoError(t, p.With(func(r *repo.Repository) (err error) {
		recovery, err = r.RenewRecoveryKey(context.Background(), "recovery")
		return err
	}))
	key, err := keyfile.ParseRecoveryKey(recovery)
	require.NoError(t, err)
	p.Open.Unlock = stored.UnlockWith(kit.Passphrase(), repo.Secret{Method: keyfile.Recovery, Value: key})
	p.Open.Cache.Dir, p.Open.Cache.Temporary = "", true
	kit.Settle()
	_, _, err = p.Backup(p.Job(p.Src))
	require.NoError(t, err)
	kit.Settle()

	var all []flip
	for _, name := range sorted(kit.EveryFile(t, p.Store)) {
		for at := range len(kit.Load(t, p.Store, name)) {
			all = append(all, flip{name, at})
		}
	}
	chosen := all
	most := *flips
	if most > 0 {
		most = min(most, testkit.Rounds(40, 150, most))
	}
	if most >= 0 && most < len(all) {
		rng := rand.New(rand.NewPCG(14, 15))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		chosen = all[:most]
	}
	tried, healed := map[store.Kind]int{}, map[store.Kind]int{}
	var mu sync.Mutex
	t.Run("flips", func(t *testing.T) {
		for part := range slices.Chunk(chosen, max(1, (len(chosen)+3)/4)) {
			t.Run("part", func(t *testing.T) {
				t.Parallel()
				for _, f := range part {
					mended := flipped(p, t, f)
					mu.Lock()
					if tried[f.name.Kind]++; mended {
						healed[f.name.Kind]++
					}
					mu.Unlock()
				}
			})
		}
	})
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(tried)) {
		t.Logf("%-10s %5d flips noticed, %5d healed by one backup", kind, tried[kind], healed[kind])
		if total += healed[kind]; kind != store.Config {
			require.Equal(t, tried[kind], healed[kind], kind)
		}
	}
	t.Logf("all of %d flips noticed (the repository has %d bytes), %d healed: %.2f %%", len(chosen), len(all), total,
		100*float64(total)/float64(len(chosen)))
}

// flipped flips a byte and requires that a check detects it. It reports whether a backup repairs it.
func flipped(p *kit.Pruned, t *testing.T, f flip) bool {
	t.Helper()
	what := fmt.Sprintf("%s, byte %d", f.name, f.at)
	d := &kit.Pruned{Engine: &kit.Engine{T: t, Store: kit.CopyOf(t, p.Store), Parallel: p.Parallel, Open: p.Open},
		Src: p.Src}
	require.NoError(t, d.Store.Put(context.Background(), f.name, faultstore.Flip(kit.Load(t, p.Store, f.name), f.at)))
	var found *check.Result
	err := d.With(func(r *repo.Repository) (err error) {
		found, err = check.Run(context.Background(), r, check.Options{ReadData: true, Scratch: p.Dir, Record: "test"},
			report.NewJob(report.Check, time.Now))
		return err
	})
	if err != nil {
		require.Equal(t, store.Config, f.name.Kind, "%s: %v", what, err)
		return false
	}
	require.False(t, found.OK(), what)
	out, _, err := d.Backup(d.Job(d.Src))
	require.NoError(t, err, what)
	require.Empty(t, d.Failures(), what)
	require.False(t, out.ID.IsZero())
	dst := filepath.Join(testkit.RamDir(t), "dst")
	defer func() { require.NoError(t, os.RemoveAll(dst)) }()
	_, err = d.Restore(d.Src, kit.Target(dst))
	require.NoError(t, err, what)
	require.Empty(t, d.Failures(), what)
	require.Empty(t, testkit.Compare(context.Background(), d.Src, dst, testkit.CompareOptions{}), what)
	return true
}
