package peers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// The steps, in their order, as -step names them.
const (
	stepFirst     = "first"
	stepUnchanged = "unchanged"
	stepNext      = "next"
	stepRestore   = "restore"
	stepCheck     = "check"
	stepPrune     = "prune"
	stepStart     = "start-up" // the last, so that the newest snapshot is one of the data until then
)

func stepNames() []string {
	return []string{stepFirst, stepUnchanged, stepNext, stepRestore, stepCheck, stepPrune, stepStart}
}

// The measurements, as tables name them.
const (
	onFirst         = "first"
	onUnchangedCold = "unchanged, cold"
	onUnchangedWarm = "unchanged, warm"
	onNext          = "next version"
	onRestore       = "restore"
	onCheck         = "check"
	onPrune         = "forget and prune"
	onList          = "snapshots"
	onTen           = "ten files"
	onSizeFirst     = "repository, first" // bytes of it, not seconds
	onSizeNext      = "repository, next"
	onSizePruned    = "repository, pruned"
)

// measurement is one measurement of one program in one round.
type measurement struct {
	Data  string  `json:"data"`
	Peer  string  `json:"peer"`
	Round int     `json:"round"`
	What  string  `json:"what"`
	Bytes int64   `json:"bytes,omitempty"` // of a repository's files; then no other field is set
	Load  float64 `json:"load,omitempty"`  // average of the machine over the minute before
	usage
}

// bench is one call of this program.
type bench struct {
	*settings
	dir   string
	peers []peer
}

// round is one round of one data set.
type round struct {
	*bench
	*data
	number int
	ten    string // a tree of ten files
	places map[string]*place
	failed map[string]bool // peers that failed at something, which ends their round
	found  []measurement
}

// data runs all measurements on one data set.
func (b *bench) data(ctx context.Context, d *data) ([]measurement, error) {
	var all []measurement
	for i := range b.rounds {
		r := &round{bench: b, data: d, number: i + 1, places: map[string]*place{}, failed: map[string]bool{}}
		err := r.run(ctx)
		all = append(all, r.found...)
		for _, t := range b.peers {
			if removed := os.RemoveAll(filepath.Join(b.dir, t.name)); err == nil {
				err = removed
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *round) run(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func(context.Context, peer, *place) error
	}{
		{stepFirst, r.first}, {stepUnchanged, r.unchanged}, {stepNext, r.next}, {stepRestore, r.restore},
		{stepCheck, r.check}, {stepPrune, r.prune}, {stepStart, r.startUp},
	}
	for _, step := range steps {
		if !r.wanted(step.name) && step.name != stepFirst {
			continue
		}
		if step.name == stepNext {
			if r.set == nil {
				continue
			}
			if err := r.data.next(ctx); err != nil {
				return err
			}
		}
		for k := range r.peers {
			t := r.peers[(k+r.number)%len(r.peers)]
			if r.failed[t.name] {
				continue
			}
			if err := r.survive(ctx, t, step.do(ctx, t, r.places[t.name])); err != nil {
				return err
			}
		}
		if step.name == stepRestore {
			if err := r.tidy(); err != nil {
				return err
			}
		}
	}
	return r.prove(ctx)
}

func (r *round) wanted(step string) bool { return len(r.steps) == 0 || slices.Contains(r.steps, step) }

// survive continues a round without a peer that failed. tidemark must not fail.
func (r *round) survive(ctx context.Context, t peer, err error) error {
	if err == nil || t.kind.name == base || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "round %d: %v\n", r.number, err)
	r.failed[t.name] = true
	return nil
}

// prepare makes the repositories.
func (r *round) prepare(ctx context.Context) error {
	r.ten = filepath.Join(r.dir, "ten")
	if err := os.MkdirAll(r.ten, 0o755); err != nil {
		return err
	}
	for i := range 10 {
		at := filepath.Join(r.ten, fmt.Sprint(i))
		if _, err := os.Stat(at); err == nil {
			continue
		}
		if err := os.WriteFile(at, fmt.Appendf(nil, "file %d", i), 0o644); err != nil {
			return err
		}
	}
	for _, t := range r.peers {
		at := filepath.Join(r.dir, t.name)
		p := &place{repo: filepath.Join(at, "repo"), home: filepath.Join(at, "home"), out: filepath.Join(at, "out"),
			tree: r.root}
		r.places[t.name] = p
		for _, dir := range []string{p.repo, p.home, p.out} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		if t.prepare == nil {
			continue
		}
		for _, args := range t.prepare(*p) {
			if _, err := measure(ctx, t, *p, args); err != nil {
				if err := r.survive(ctx, t, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// timed runs a program, once for each list of arguments, and records its usage.
func (r *round) timed(ctx context.Context, t peer, p *place, what string, cold bool, calls ...[]string) error {
	if cold && r.cold {
		if err := kit.DropCaches(ctx); err != nil {
			return err
		}
	}
	m := measurement{Data: r.Name, Peer: t.name, Round: r.number, What: what, Load: load()}
	for _, args := range calls {
		u, err := measure(ctx, t, *p, args)
		if err != nil {
			return err
		}
		m.usage = m.usage.and(u)
	}
	r.found = append(r.found, m)
	fmt.Fprintf(os.Stderr, "%s, round %d: %-16s %-16s %9.3f s, %7.2f CPU, %5.0f MB\n",
		r.Name, r.number, t.name, what, m.Seconds, m.cpu(), float64(m.Memory)/1e6)
	return nil
}

// backup makes a backup of the data, under a label that no other has.
func (r *round) backup(ctx context.Context, t peer, p *place, what, label string, cold bool) error {
	if err := r.timed(ctx, t, p, what, cold, r.flagged(t, t.backup(*p, label, r.root))); err != nil {
		return err
	}
	p.last = label
	return nil
}

// flagged adds the caller's options to a call of tidemark.
func (r *round) flagged(t peer, args []string) []string {
	if t.kind.name != base {
		return args
	}
	return slices.Insert(args, 1, r.flags...)
}

func (r *round) first(ctx context.Context, t peer, p *place) error {
	if t.kind.name == "walk" {
		return nil
	}
	wanted := r.wanted(stepFirst)
	if err := r.backup(ctx, t, p, onFirst, "first", wanted); err != nil {
		return err
	}
	if !wanted {
		r.found = r.found[:len(r.found)-1] // the others need it, but it was not requested
		return nil
	}
	return r.size(t, p, onSizeFirst)
}

// unchanged runs twice in a row: the second run has warm caches from the first.
func (r *round) unchanged(ctx context.Context, t peer, p *place) error {
	if t.kind.name == "tar" { // it has no notion of an unchanged file
		return nil
	}
	if err := r.backup(ctx, t, p, onUnchangedCold, "cold", true); err != nil {
		return err
	}
	return r.backup(ctx, t, p, onUnchangedWarm, "warm", false)
}

const (
	tenLabel   = "ten"
	startTimes = 5 // how often the short steps are done
)

// startUp measures the start of the program: it lists the snapshots, and backs up ten unchanged files into the
// repository that holds the data.
func (r *round) startUp(ctx context.Context, t peer, p *place) error {
	if t.list == nil {
		return nil
	}
	for i := range startTimes {
		if err := r.timed(ctx, t, p, onList, false, t.list(*p)); err != nil {
			return err
		}
		label := fmt.Sprint(tenLabel, i)
		if i == 0 {
			if _, err := measure(ctx, t, *p, r.flagged(t, t.backup(*p, label+"-first", r.ten))); err != nil {
				return err
			}
		}
		if err := r.timed(ctx, t, p, onTen, false, r.flagged(t, t.backup(*p, label, r.ten))); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) next(ctx context.Context, t peer, p *place) error {
	if t.kind.name == "walk" {
		return nil
	}
	if err := r.backup(ctx, t, p, onNext, "next", true); err != nil {
		return err
	}
	return r.size(t, p, onSizeNext)
}

func (r *round) restore(ctx context.Context, t peer, p *place) error {
	if t.kind.restore == nil {
		return nil
	}
	if err := r.timed(ctx, t, p, onRestore, true, r.flagged(t, t.kind.restore(*p))); err != nil {
		return err
	}
	if err := complete(p.out, r.root); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// tidy removes the restored files, after all programs have restored. An ext4 without a journal skips the inodes of
// recently deleted files one by one, so that the next program that creates files takes up to three times as long.
func (r *round) tidy() error {
	for _, p := range r.places {
		if err := os.RemoveAll(p.out); err != nil {
			return err
		}
		if err := os.Mkdir(p.out, 0o700); err != nil { // in which programs are started
			return err
		}
	}
	return nil
}

func (r *round) check(ctx context.Context, t peer, p *place) error {
	if t.kind.check == nil {
		return nil
	}
	return r.timed(ctx, t, p, onCheck, true, r.flagged(t, t.kind.check(*p)))
}

// prune drops all snapshots but the newest, and what only they need.
func (r *round) prune(ctx context.Context, t peer, p *place) error {
	if t.kind.forget == nil {
		return nil
	}
	calls := t.kind.forget(*p)
	for i := range calls {
		calls[i] = r.flagged(t, calls[i])
	}
	if err := r.timed(ctx, t, p, onPrune, true, calls...); err != nil {
		return err
	}
	return r.size(t, p, onSizePruned)
}

// prove checks the repositories of tidemark, unless that was a step of its own.
func (r *round) prove(ctx context.Context) error {
	for _, t := range r.peers {
		if t.kind.name != base || r.wanted(stepCheck) {
			continue
		}
		p := r.places[t.name]
		if _, err := measure(ctx, t, *p, r.flagged(t, t.kind.check(*p))); err != nil {
			return fmt.Errorf("this round counts for nothing: %w", err)
		}
	}
	return nil
}

// size keeps the size of a repository.
func (r *round) size(t peer, p *place, what string) error {
	e, err := extentOf(p.repo)
	r.found = append(r.found, measurement{Data: r.Name, Peer: t.name, Round: r.number, What: what, Bytes: e.bytes})
	return err
}

// extent is how much there is below a folder.
type extent struct{ files, bytes int64 }

// extentOf counts the regular files below a folder.
func extentOf(root string) (e extent, err error) {
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e.files++
		e.bytes += info.Size()
		return nil
	})
	return e, err
}

// complete compares the restored objects with the source.
func complete(out, tree string) error {
	want, wrong := extentOf(tree)
	got, err := extentOf(out)
	if err = errors.Join(wrong, err); err == nil && got != want {
		err = fmt.Errorf("restored %d files of %d bytes, there are %d of %d (did the tree change?)",
			got.files, got.bytes, want.files, want.bytes)
	}
	return err
}
