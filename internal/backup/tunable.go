package backup

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/tune"
)

// tunable is the part of a pipeline that the tuner measures and sets.
type tunable struct {
	flow *pipeline
	used time.Duration // of processors, when Counters was called last
	busy time.Duration // by then: the same, divided by how many the run might use
}

func (t *tunable) Counters() tune.Counters {
	// A run that gets a part of a disk uses only a part of the processors, and may keep these busy.
	used, usable := sysinfo.CPUTime(), min(t.flow.par.Processors, float64(sysinfo.UsableCPUs()))
	t.busy += time.Duration(float64(used-t.used) / usable)
	t.used = used
	held := time.Duration(0)
	for _, gate := range t.flow.deps.ledger.Snapshot().Gates {
		held = max(held, gate.Held)
	}
	return tune.Counters{
		Work: t.flow.work.Load(), Starved: t.flow.workers.idle.Time(), Blocked: t.flow.deps.session.Blocked(),
		Busy: t.busy, Held: held,
	}
}

func (t *tunable) Apply(s tune.Setting, seen tune.Sample) {
	t.flow.readers.Resize(s.Readers)
	t.flow.workers.Resize(s.Compressors)
	t.flow.deps.session.Adjust(s.Uploads, s.Level)
	now := report.PoolSizes{Readers: s.Readers, Compressors: s.Compressors, Uploads: s.Uploads, Level: s.Level}
	if took := seen.Elapsed.Seconds(); took > 0 {
		speed := seen.Work / took
		now.Bottleneck, now.Speed = seen.Bottleneck().String(), &speed
		now.Starved, now.Blocked, now.Busy = &seen.Starved, &seen.Blocked, &seen.Busy
	}
	t.flow.deps.ledger.Resized(now)
}

// tuner returns the tuner of this run. Ranges that are not set start at what the session has.
func (p *pipeline) tuner() *tune.Tuner {
	uploads, level := p.par.Uploads, p.par.Level
	if uploads.Most == 0 {
		uploads.Start = p.deps.session.MaxUploads()
	}
	if level.Most == 0 {
		level.Start = p.deps.session.Level()
	}
	uploads = uploads.bounded()
	if level.Start > 0 { // 0: nothing is compressed
		level = level.bounded()
	}
	each := func(of func(Range) int) tune.Setting {
		return tune.Setting{
			Readers: of(p.par.Readers), Compressors: of(p.par.Compressors), Uploads: of(uploads), Level: of(level),
		}
	}
	return tune.New(each(func(r Range) int { return r.Start }), tune.Bounds{
		Least: each(func(r Range) int { return r.Least }),
		Most:  each(func(r Range) int { return r.Most }),
	})
}
