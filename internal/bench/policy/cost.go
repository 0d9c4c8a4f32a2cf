package policy

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// The steps of a backup.
const (
	first     = "first"     // into an empty repository
	unchanged = "unchanged" // the source equals that of the previous backup
	changed   = "changed"   // every tenth file has other content
)

func steps() []string { return []string{first, unchanged, changed} }

// sham is the case of a foreground without a backup that is measured as if there were one. Its difference from the case
// alone is the noise of the machine.
const sham = "sham"

// alone is the case of a foreground without a backup.
const alone = "alone"

// noForeground is the foreground of a backup alone.
const noForeground = "no foreground"

const (
	// patience is how long a backup without a foreground may take, which should take some seconds.
	patience = 3 * time.Minute
	// aloneFor is how long a foreground is measured without a backup; one with a rate longer, up to the bound. A sham
	// takes as long as the bound, since the worst of more seconds is worse.
	aloneFor = 5 * time.Second
	// aloneRequests is how many requests of a foreground with a rate are measured without a backup in each round.
	aloneRequests = 200
	// besideFor is how long the backups of one trial take together at least: short ones are repeated.
	besideFor = 4 * time.Second
	// repeats is how many backups one trial has at most.
	repeats = 8
	// enough is how many requests a 99th percentile needs.
	enough = 1000
)

// costSettings are the flags of this measurement.
type costSettings struct {
	bound       time.Duration // of a backup beside a foreground
	foregrounds []string
	steps       []string
	beside      []string // a policy and more flags
	poisson     bool
	code        int64 // bytes of the source
	codeFiles   int
	mix         time.Duration // of each part of the mixed foreground
}

// group is what a part measures beside each other.
type group struct {
	part        string
	backups     []rig.Candidate
	steps       []string
	foregrounds []*rig.Foreground
}

// trial is one measurement: a step of a candidate beside a foreground, or one of them alone.
type trial struct {
	part       string
	foreground *rig.Foreground // nil: none
	candidate  *rig.Candidate  // nil: none
	step       string
	sham       bool
}

// name is the name of the case.
func (t *trial) name() string {
	foreground := noForeground
	if t.foreground != nil {
		foreground = t.foreground.Name
	}
	switch {
	case t.candidate != nil:
		return caseName(foreground, t.step, t.candidate.Name)
	case t.sham:
		return foreground + " / " + sham
	}
	return foreground + " / " + alone
}

func caseName(foreground, step, candidate string) string {
	return strings.Join([]string{foreground, step, candidate}, " / ")
}

// cost measures the candidates of -beside.
func (b *bench) cost(ctx context.Context) error {
	return b.measureGroup(ctx, &group{partCost, b.backups, b.steps, b.chosen()})
}

// measureGroup measures each foreground alone and beside each step of each candidate, and each step alone. The trials
// of a round come in a random order, which is the same in every run of this program.
func (b *bench) measureGroup(ctx context.Context, g *group) error {
	for round := range b.rounds {
		trials := g.trials()
		order := rand.New(rand.NewPCG(uint64(round), 9))
		order.Shuffle(len(trials), func(i, k int) { trials[i], trials[k] = trials[k], trials[i] })
		for i := range trials {
			if err := b.measureTrial(ctx, &trials[i], round); ctx.Err() != nil {
				return context.Cause(ctx)
			} else if err != nil {
				b.problem("%s: in round %d: %v", trials[i].name(), round, err)
			}
		}
		if err := kit.Save(b.into, b.Records); err != nil {
			return err
		}
	}
	return nil
}

// makeCandidates makes candidates from the words of -beside, which may be other tools, for a first backup only. It
// leaves out those with flags that this tidemark lacks.
func (b *bench) makeCandidates(ctx context.Context) {
	b.backups = nil
	for _, words := range b.costSettings.beside {
		fields := strings.Fields(words)
		if peer := slices.IndexFunc(b.peers, func(c rig.Candidate) bool { return c.Tool == words }); peer >= 0 {
			b.backups = append(b.backups, b.peers[peer])
			continue
		}
		c := b.tidemark(fields[0], fields[1:]...)
		c.Name = words
		if _, err := rig.Command(ctx, c.Argv[0], append(c.Argv[1:len(c.Argv):len(c.Argv)], "--help")...); err != nil {
			b.problem("%q is left out, since this tidemark does not take its flags", words)
			continue
		}
		b.backups = append(b.backups, c)
	}
}

func (g *group) trials() (list []trial) {
	add := func(f *rig.Foreground) {
		for i := range g.backups {
			for _, step := range g.steps {
				if step == first || g.backups[i].Tool == "tidemark" {
					list = append(list, trial{part: g.part, foreground: f, candidate: &g.backups[i], step: step})
				}
			}
		}
	}
	add(nil)
	for _, f := range g.foregrounds {
		list = append(list, trial{part: g.part, foreground: f}, trial{part: g.part, foreground: f, sham: true})
		add(f)
	}
	return list
}

// chosen returns the foregrounds of -foregrounds, in that order; without that flag those with the keys in usual, or
// all.
func (b *bench) chosen(usual ...string) (list []*rig.Foreground) {
	keys := b.foregrounds
	if len(keys) == 0 {
		keys = usual
	}
	for _, f := range append(rig.Foregrounds(b.poisson), rig.Works()...) {
		if len(keys) == 0 || slices.Contains(keys, f.Key) {
			list = append(list, &f)
		}
	}
	slices.SortStableFunc(list, func(a, b *rig.Foreground) int {
		return slices.Index(keys, a.Key) - slices.Index(keys, b.Key)
	})
	return list
}

// prepareSource makes the source.
func (b *bench) prepareSource(ctx context.Context) error {
	b.say("making the source")
	filler := rig.Filler(77)
	if err := filler.Code(ctx, b.disk.At("code"), b.codeFiles, b.code); err != nil {
		return err
	}
	if b.wants(partCost) && (slices.Contains(b.steps, unchanged) || slices.Contains(b.steps, changed)) {
		if err := b.prepareSteps(ctx, filler); err != nil {
			return err
		}
	}
	if b.wants(partCost) || len(b.foregrounds) > 0 { // else fio is the only foreground
		for _, f := range b.chosen() {
			if err := b.disk.Ready(ctx, f); err != nil {
				return err
			}
		}
	}
	return errors.Join(b.disk.Clear(), b.disk.Settle(ctx, true))
}

// prepareSteps makes the repositories that the steps begin with. The source has changed once, after the
// first of two backups. So the same tree is new, partly changed or unchanged, depending on the repository.
func (b *bench) prepareSteps(ctx context.Context, filler *rig.Source) error {
	tree := b.disk.At("code")
	off := b.tidemark("off")
	p, err := b.disk.Fresh(&off, "before")
	if err != nil {
		return err
	}
	for _, step := range []string{changed, unchanged} {
		if _, err := b.disk.Backup(ctx, &off, p, tree, patience); err != nil {
			return err
		}
		if err := b.disk.Keepsake(p, step); err != nil {
			return err
		}
		if step == unchanged {
			break
		}
		if p, err = b.disk.Copy(ctx, step, "before"); err != nil {
			return err
		}
		if err := filler.Change(tree); err != nil {
			return err
		}
	}
	return nil
}

// measureTrial measures one trial.
func (b *bench) measureTrial(ctx context.Context, t *trial, round int) error {
	defer func() { _ = os.RemoveAll(b.disk.At("work")) }() // a remainder only takes disk space
	if t.candidate == nil {
		return b.foregroundAlone(ctx, t, round)
	}
	var load rig.Running
	var spans []rig.Span
	var took, parts, asleep []float64
	var sum time.Duration
	for i := 0; i < repeats && (i == 0 || sum < b.stretched(besideFor)); i++ {
		p, err := b.repositoryFor(ctx, t)
		if err == nil && t.foreground != nil && load == nil {
			load, err = b.disk.Apply(ctx, t.foreground)
		}
		if err != nil {
			return b.giveUp(load, err)
		}
		span, j, part, err := b.backupFor(ctx, t, p)
		if err != nil {
			return b.giveUp(load, err)
		}
		if gate, total, err := j.Events.End(); err == nil { // not of other tools, nor of one that was stopped
			asleep = append(asleep, 100*rig.Asleep(&gate)/total.Seconds())
		}
		spans, sum = append(spans, span), sum+span.To.Sub(span.From)
		if part == 1 {
			took = append(took, span.To.Sub(span.From).Seconds())
		} else {
			parts = append(parts, 100*part)
		}
		// a work would run beside the preparation of the next backup
		if t.foreground == nil || t.foreground.Unit == "s" {
			break
		}
	}
	values := map[string]float64{"backups": float64(len(took) + len(parts))}
	if len(took) > 0 {
		values["took"] = kit.Median(took)
	}
	if len(asleep) > 0 {
		values["asleep"] = kit.Median(asleep)
	}
	if len(parts) > 0 {
		values["percent done"] = kit.Median(parts)
	}
	if load == nil {
		b.add(t.part, t.name(), round, values)
		return nil
	}
	requests, err := load.Stop()
	if err != nil {
		return err
	}
	b.addForeground(t, round, requests, spans, values)
	return nil
}

// giveUp stops a foreground after an error.
func (b *bench) giveUp(load rig.Running, err error) error {
	if load != nil {
		_, stopped := load.Stop()
		err = errors.Join(err, stopped)
	}
	return err
}

// repositoryFor makes the repository that a step begins with, and drops the caches.
func (b *bench) repositoryFor(ctx context.Context, t *trial) (p rig.Place, err error) {
	if t.step == first {
		p, err = b.disk.Fresh(t.candidate, "trial")
	} else {
		p, err = b.disk.Copy(ctx, t.step, "trial")
	}
	return p, errors.Join(err, b.disk.Settle(ctx, true))
}

// backupFor runs one backup, and returns which part of the source it had read when it ended or was stopped.
func (b *bench) backupFor(ctx context.Context, t *trial, p rig.Place) (rig.Span, *rig.Job, float64, error) {
	limit := patience
	if t.foreground != nil {
		limit = b.bound
	}
	span := rig.Span{From: time.Now()}
	j, err := b.disk.Backup(ctx, t.candidate, p, b.disk.At("code"), limit)
	span.To = time.Now()
	if errors.Is(err, rig.ErrTooLong) {
		if t.foreground == nil {
			b.problem("%s: not over after %v: something else used the disk", t.name(), limit)
		}
		return span, j, min(0.99, float64(j.Events.Files())/float64(b.codeFiles)), nil
	}
	return span, j, 1, err
}

// foregroundAlone measures a foreground without a backup.
func (b *bench) foregroundAlone(ctx context.Context, t *trial, round int) error {
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	load, err := b.disk.Apply(ctx, t.foreground)
	if err != nil {
		return err
	}
	length := b.stretched(aloneFor)
	if t.foreground.Rate > 0 {
		length = max(length, b.stretched(time.Duration(aloneRequests/t.foreground.Rate*float64(time.Second))))
	}
	switch {
	case t.foreground.Unit == "s":
		length = 0 // a work is done once
	case t.sham:
		length = b.bound
	}
	span := rig.Span{From: time.Now()}
	if err := rig.Pause(ctx, min(length, b.bound)); err != nil {
		return b.giveUp(load, err)
	}
	span.To = time.Now()
	requests, err := load.Stop()
	if err != nil {
		return err
	}
	b.addForeground(t, round, requests, []rig.Span{span}, map[string]float64{})
	return nil
}

// addForeground adds the results of a foreground in some spans to the values of a trial, and its latencies to those of
// other rounds.
func (b *bench) addForeground(
	t *trial, round int, requests []rig.Request, spans []rig.Span, values map[string]float64,
) {
	if t.foreground.Unit == "s" {
		took := rig.MostlyDuring(requests, spans[0])
		for _, w := range took {
			values["s"] += w.Seconds() / float64(len(took))
		}
		values["requests"] = float64(len(took))
		b.add(t.part, t.name(), round, values)
		return
	}
	took := rig.During(requests, spans)
	var length time.Duration
	for _, s := range spans {
		length += s.To.Sub(s.From)
	}
	slices.Sort(took)
	values["requests"] = float64(len(took))
	values["seconds"] = length.Seconds()
	values["IOPS"] = float64(len(took)) / length.Seconds()
	values["MiB/s"] = values["IOPS"] * float64(t.foreground.Bytes) / (1 << 20)
	if len(took) > 0 {
		values["p50"], values["p99"] = milliseconds(rig.Quantile(took, 0.5)), milliseconds(rig.Quantile(took, 0.99))
		values["worst"] = milliseconds(took[len(took)-1])
	}
	if counts := rig.Seconds(requests, spans); len(counts) > 0 {
		slices.Sort(counts)
		values["worst second"], values["median second"] = float64(counts[0]), float64(counts[len(counts)/2])
	}
	if t.part == partCost {
		b.pools[t.name()] = append(b.pools[t.name()], took...)
	}
	b.add(t.part, t.name(), round, values)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
