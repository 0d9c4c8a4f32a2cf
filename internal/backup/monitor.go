package backup

import (
	"context"
	"time"

	"github.com/tidemark-backup/tidemark/internal/tune"
)

// A window of the monitor ends when it has seen enough to be compared with others: some packs' worth of work, or some
// seconds of a slow run. Within less than half a second the units in which work is counted, a mebibyte each, are too
// coarse.
const (
	windowLeast = 500 * time.Millisecond
	windowMost  = 5 * time.Second
	windowWork  = 64 << 20
)

// monitor has a tuner look at the run, and does what it says, until ctx ends. Where nothing may change it does nothing.
func (p *pipeline) monitor(ctx context.Context) {
	t := p.tuner()
	if t == nil {
		return
	}
	ticker := time.NewTicker(windowLeast)
	defer ticker.Stop()
	last := p.look()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := p.look()
		if took := now.at.Sub(last.at); took < windowMost && now.work-last.work < windowWork {
			continue
		}
		p.apply(t.Next(now.since(&last, t.Setting().Compressors)))
		last = now
	}
}

// tuner returns nil if everything is fixed.
func (p *pipeline) tuner() *tune.Tuner {
	if p.Session == nil {
		return nil
	}
	uploads, level := p.par.Uploads, p.par.Level
	if uploads.Most == 0 {
		uploads = Range{Start: p.Session.Uploads()}
	}
	if level.Most == 0 {
		level = Range{Start: p.Session.Level()}
	}
	uploads = uploads.bounded()
	if level.Start > 0 { // 0: nothing is compressed
		level = level.bounded()
	}
	each := func(of func(Range) int) tune.Setting {
		return tune.Setting{
			Readers: of(p.par.Readers), Compressors: of(p.par.Workers), Uploads: of(uploads), Level: of(level),
		}
	}
	b := tune.Bounds{
		Least: each(func(r Range) int { return r.Least }),
		Most:  each(func(r Range) int { return r.Most }),
	}
	if b.Least == b.Most {
		return nil
	}
	t := tune.New(each(func(r Range) int { return r.Start }), b)
	p.apply(t.Setting())
	return t
}

func (p *pipeline) apply(s tune.Setting) {
	p.readers.Set(s.Readers)
	p.workers.Set(s.Compressors)
	p.Session.Adjust(s.Uploads, s.Level)
}

// sight is what the counters say at a moment.
type sight struct {
	at            time.Time
	work          int64
	idle, blocked time.Duration
}

func (p *pipeline) look() sight {
	return sight{at: time.Now(), work: p.work.Load(), idle: p.workers.Idle.Time(), blocked: p.Session.Blocked()}
}

// since returns what happened since an earlier look, with so many workers.
func (s *sight) since(before *sight, workers int) tune.Sample {
	took := s.at.Sub(before.at)
	all := took * time.Duration(workers)
	share := func(d time.Duration) float64 { return min(max(d.Seconds()/all.Seconds(), 0), 1) }
	return tune.Sample{
		Elapsed: took, Work: float64(s.work - before.work),
		Starved: share(s.idle - before.idle), Blocked: share(s.blocked - before.blocked),
	}
}
