package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/picture"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// mixedForegrounds returns the keys of the foregrounds of mixed if none are named.
func mixedForegrounds() []string { return []string{"random", "1000ps", "sequential"} }

// sampleInterval is the time between two questions to the gate.
const sampleInterval = 100 * time.Millisecond

// mixed runs one foreground after the other, with pauses between, beside backups of the first candidate that yields,
// and samples its gate.
func (b *bench) mixed(ctx context.Context) (err error) {
	at := slices.IndexFunc(b.backups, func(c rig.Candidate) bool {
		p, err := iopolicy.ParsePolicy(strings.Fields(c.Name)[0])
		return err == nil && p.Tier() > 0
	})
	if at < 0 || b.mix <= 0 {
		return nil
	}
	c := &b.backups[at]
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	keeper, _, err := b.disk.Keep(ctx, c, b.disk.At("code"))
	if keeper == nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Stop()) }()
	s := &sampler{bench: b, begin: time.Now()}
	inner, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() { s.run(inner) })
	var bands []picture.Moment
	for _, f := range b.chosen(mixedForegrounds()...) {
		err = errors.Join(err, rig.Pause(ctx, b.mix/3))
		if err == nil {
			var band picture.Moment
			band, err = s.during(ctx, f)
			bands = append(bands, band)
		}
	}
	err = errors.Join(err, rig.Pause(ctx, b.mix/3))
	cancel()
	sampling.Wait()
	head := picture.NewHead("A backup under --policy "+c.Name, b.disk.Describe())
	b.moments = slices.Concat([]picture.Moment{{Head: head}}, bands, s.all)
	b.say("%d samples beside %d foregrounds", len(s.all), len(bands))
	if b.pictures != "" && len(bands) > 0 {
		err = errors.Join(err, picture.Save(b.pictures, picture.Trace, b.moments))
	}
	return err
}

// sampler polls the gate of a backup.
type sampler struct {
	bench *bench
	begin time.Time
	all   []picture.Moment
}

// during runs a foreground, and returns when it had its first and its last request.
func (s *sampler) during(ctx context.Context, f *rig.Foreground) (band picture.Moment, err error) {
	load, err := s.bench.disk.Apply(ctx, f)
	if err != nil {
		return band, err
	}
	err = rig.Pause(ctx, s.bench.mix)
	requests, stopped := load.Stop()
	if err = errors.Join(err, stopped); err != nil {
		return band, err
	}
	if len(requests) == 0 {
		return band, fmt.Errorf("%s: no request", f.Name)
	}
	return picture.Moment{
		Seconds: rounded(requests[0].Ended.Add(-requests[0].Took).Sub(s.begin).Seconds()),
		Head:    picture.Head{Type: picture.AForeground}, Foreground: f.Name,
		Until: rounded(requests[len(requests)-1].Ended.Sub(s.begin).Seconds()),
	}, nil
}

func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g, err := s.bench.disk.Gate(ctx)
		if errors.Is(err, rig.ErrNoGates) || ctx.Err() != nil {
			continue
		}
		if err != nil {
			s.bench.say("sample: %v", err)
			continue
		}
		s.all = append(s.all, moment(&g, time.Since(s.begin)))
	}
}

// moment makes what is drawn of a gate.
func moment(g *event.Gate, at time.Duration) picture.Moment {
	m := picture.Moment{Seconds: rounded(at.Seconds()), Head: picture.Head{Type: picture.AGate}, State: g.State}
	p, err := iopolicy.ParsePolicy(g.Policy)
	if i := g.Impact; i != nil && err == nil && p.Tier() > 0 {
		m.Grant = rounded(i.Budget / period(p, g.Medium).Seconds())
		m.Calculated, m.Measured = rounded(i.Calculated), rounded(i.Measured)
	}
	return m
}

func (b *bench) mixedTable() string {
	var rows [][]string
	for _, s := range picture.Spells(b.moments) {
		rows = append(rows, []string{s.Foreground, percent(100*s.First, 1), percent(100*s.Last, 1),
			percent(100*s.Measured, 0), fmt.Sprint(s.Falls)})
	}
	return kit.Table([]string{
		"foreground", "slot grant in the first second", "in the last", "decided by measurement", "dropped",
	}, rows...)
}
