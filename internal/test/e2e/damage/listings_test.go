package damage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// errAway is the error of a store with a target that was lost during the command.
var errAway = fmt.Errorf("%w: %w", store.ErrGone, store.ErrTemporary)

// work is a command, and the part of its answer that must be the same on each success.
type work func(p *kit.Pruned) (answer string, err error)

func inRepository(do func(r *repo.Repository) (string, error)) work {
	return func(p *kit.Pruned) (answer string, err error) {
		err = p.With(func(r *repo.Repository) error {
			answer, err = do(r)
			return err
		})
		return answer, err
	}
}

func everyWork(t *testing.T) map[string]work {
	ctx := context.Background()
	return map[string]work{
		"backup": func(p *kit.Pruned) (string, error) {
			_, _, err := p.Backup(p.SmallJob())
			for info, err := range unfaulted(p).List(ctx, store.Snapshot) { // it may have got its name, and be whole
				require.NoError(t, err)
				if id, err := format.ParseID(info.Name.ID); err == nil && p.Contents[id] == "" {
					p.Keep(id)
				}
			}
			return "", err
		},
		"snapshots": inRepository(func(r *repo.Repository) (string, error) {
			var ids []string
			all, err := r.Snapshots(ctx)
			for _, l := range all {
				ids = append(ids, l.ID.String())
				require.NoError(t, l.Err)
			}
			return fmt.Sprint(ids), err
		}),
		"forget": func(p *kit.Pruned) (answer string, err error) {
			oldest := slices.SortedFunc(maps.Keys(p.Contents), format.ID.Compare)[0]
			err = p.With(func(r *repo.Repository) error {
				named, err := forget.Named(ctx, r, []string{oldest.String()[:12]})
				if err != nil {
					return err
				}
				dropped, _, err := forget.Drop(ctx, r, named)
				answer = fmt.Sprint(len(dropped))
				return err
			})
			if _, there := unfaulted(p).Stat(ctx, store.Name{Kind: store.Snapshot, ID: oldest.String()}); there != nil {
				delete(p.Contents, oldest)
			}
			return answer, err
		},
		"prune": func(p *kit.Pruned) (string, error) {
			res, err := p.Prune(kit.SmallPrune())
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d %v %v %v", res.Snapshots, res.Before, res.Deleted, res.Repacked), nil
		},
		"check": inRepository(func(r *repo.Repository) (string, error) {
			l := report.NewJob(report.Check, time.Now)
			found, err := check.Run(ctx, r, check.Options{ReadData: true, Scratch: t.TempDir()}, l)
			if err != nil {
				return "", err
			}
			if !found.OK() {
				return "", fmt.Errorf("it finds %v", found.Problems[0].Err)
			}
			verified := l.Snapshot().Objects.Verified // segments and trees among them
			return fmt.Sprintf("%d %d %d %d %d", found.Snapshots, found.Packs, found.PacksRead, found.BytesRead, verified), nil
		}),
		"restore": func(p *kit.Pruned) (string, error) {
			dst, err := os.MkdirTemp(p.Dir, "out")
			require.NoError(t, err)
			defer os.RemoveAll(dst)
			totals, err := p.Restore(p.Src, restore.Target{Path: dst})
			if err == nil && totals.Failures > 0 {
				err = fmt.Errorf("%d failures", totals.Failures)
			}
			if err == nil {
				kit.RequireSameFiles(t, p.Src, dst, "restored")
			}
			return "", err
		},
		"stats": inRepository(func(r *repo.Repository) (string, error) {
			s, err := browse.Stats(ctx, r, browse.WholeRepository, nil)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d %d %d %d %v", s.Snapshots, s.Blobs, s.Bytes, s.Damaged, s.Kinds), nil
		}),
		"index": inRepository(func(r *repo.Repository) (string, error) {
			err := r.Index().Rebuild(ctx)
			return "", err
		}),
	}
}

// unfaulted is the store beneath.
func unfaulted(p *kit.Pruned) store.Store {
	if under, ok := p.Store.(interface{ Under() store.Store }); ok {
		return under.Under()
	}
	return p.Store
}

// TestNoCommandBelievesAPartOfAList fails each list of each command: at once, in its middle, or at its end, once or
// permanently. It does the same with each stat, and with each read of a file other than a pack. The command fails, or
// its answer is unaffected. In both cases every snapshot restores.
func TestNoCommandBelievesAPartOfAList(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Forget(base.Snapshot(1), base.Snapshot(2))
	base.Snapshot(3)
	base.Snapshot(4)
	half := base.Copied(t) // a prune that was cut off when it began to remove packs
	half.Store = faultstore.Wrap(half.Store, faultstore.Plan{At: 1, Ops: faultstore.Delete, Kind: store.Pack,
		Sticky: true})
	_, err := half.Prune(kit.SmallPrune())
	require.ErrorIs(t, err, faultstore.ErrInjected)
	half.Store = unfaulted(half)
	half.EndLeases()
	require.NotZero(t, kit.Count(t, half.Store, store.Mark))

	for name, do := range everyWork(t) {
		for state, from := range map[string]*kit.Pruned{"": base, " after a prune that was cut off": half} {
			t.Run(name+state, func(t *testing.T) {
				whole := from.Copied(t)
				want, err := do(whole)
				require.NoError(t, err)
				struck := 0
				for _, plan := range partialAnswers() {
					step := 1
					if plan.Ops != faultstore.List {
						step = 4
					}
					for plan.At = 1; failWork(t, from, do, plan, want); plan.At += step {
						struck++
					}
				}
				require.Greater(t, struck, 5)
			})
		}
	}
}

func partialAnswers() (plans []faultstore.Plan) {
	both := []bool{false, true}[:testkit.Rounds(1, 1, 2)]
	for _, sticky := range both {
		for _, effect := range []faultstore.Effect{faultstore.Refuse, faultstore.Partial, faultstore.Unsure} {
			plans = append(plans, faultstore.Plan{Ops: faultstore.List, Effect: effect, Sticky: sticky, Err: errAway})
		}
		plans = append(plans, faultstore.Plan{Ops: faultstore.Stat, Sticky: sticky, Err: errAway})
		for _, kind := range []store.Kind{store.Index, store.Snapshot, store.Mark, store.Lease, store.Key} {
			plans = append(plans, faultstore.Plan{Ops: faultstore.Get, Kind: kind, Sticky: sticky, Err: errAway})
		}
	}
	return plans
}

// failWork returns false when the plan's operation did not come.
func failWork(t *testing.T, from *kit.Pruned, do work, plan faultstore.Plan, want string) bool {
	t.Helper()
	p := from.Copied(t)
	inner := p.Store
	faulty := faultstore.Wrap(inner, plan)
	p.Store = faulty
	got, err := do(p)
	p.Store = inner
	what := fmt.Sprintf("%+v: %v", plan, err)
	if err == nil {
		require.Equal(t, want, got, what)
	}
	if !faulty.Fired() {
		require.NoError(t, err)
		return false
	}
	p.EndLeases()
	if !slices.Equal(sorted(kit.EveryFile(t, from.Store)), sorted(kit.EveryFile(t, inner))) { // files are never changed
		p.RequireRestorable(what, true)
	}
	return true
}

func sorted(names []store.Name) []store.Name {
	slices.SortFunc(names, func(a, b store.Name) int { return strings.Compare(a.Path(), b.Path()) })
	return names
}

// losing loses a file for good after a number of reads, and then fails to read a segment of the index, once.
type losing struct {
	store.Store
	name          store.Name
	read, segment int64
	reads, index  atomic.Int64
}

func (l *losing) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name == l.name && l.reads.Add(1) == l.read {
		if err := l.Delete(ctx, name); err != nil {
			return err
		}
	}
	if name.Kind == store.Index && l.reads.Load() >= l.read && l.index.Add(1) == l.segment {
		return fmt.Errorf("get %s: %w", name, store.ErrTemporary)
	}
	return l.Store.Get(ctx, name, off, p)
}

// TestLostPackIsNotTakenForAPrunedOne loses a pack in the middle of a check. Only the index shows whether a prune has
// moved it, and the index is unreadable: the check must not report success.
func TestLostPackIsNotTakenForAPrunedOne(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Snapshot(1)
	lost := 0
	for _, name := range kit.EveryFile(t, base.Store) {
		if name.Kind != store.Pack {
			continue
		}
		for read := int64(2); read < 4; read++ {
			for segment := int64(1); segment < 9; segment++ {
				p := base.Copied(t)
				l := &losing{Store: p.Store, name: name, read: read, segment: segment}
				p.Store = l
				_, err := everyWork(t)["check"](p)
				if l.reads.Load() >= read && l.index.Load() >= segment {
					lost++
					require.Error(t, err, "%s, read %d, segment %d", name.ID, read, segment)
				}
			}
		}
	}
	require.Greater(t, lost, 10)
}

// TestKeysThatCannotBeReadAreNotPassedOver: while a key is unreadable, no command may report that the passphrase is
// wrong, or that the old recovery key opens nothing any more.
func TestKeysThatCannotBeReadAreNotPassedOver(t *testing.T) {
	ctx := context.Background()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	var old string
	require.NoError(t, e.With(func(r *repo.Repository) (err error) {
		old, err = r.RenewRecoveryKey(ctx, "old")
		return err
	}))
	recovery, err := keyfile.ParseRecoveryKey(old)
	require.NoError(t, err)
	e.Open.Unlock = stored.UnlockWith(kit.Passphrase())
	for at := 1; ; at++ {
		p := &kit.Engine{T: t, Store: kit.CopyOf(t, inner), Open: e.Open}
		faulty := faultstore.Wrap(p.Store, faultstore.Plan{At: at, Ops: faultstore.Get, Kind: store.Key, Err: errAway})
		under := p.Store
		p.Store = faulty
		err := p.With(func(r *repo.Repository) error {
			_, err := r.RenewRecoveryKey(ctx, "new")
			return err
		})
		p.Store = under
		if err != nil {
			require.NotErrorIs(t, err, repo.ErrWrongKey)
		} else {
			p.Open.Unlock = stored.UnlockWith(repo.Secret{Method: keyfile.Recovery, Value: recovery})
			require.ErrorIs(t, p.With(func(*repo.Repository) error { return nil }), repo.ErrWrongKey,
				"get %d: the old key still opens it", at)
		}
		if !faulty.Fired() {
			require.Greater(t, at, 3)
			return
		}
	}
}
