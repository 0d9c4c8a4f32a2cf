package backup

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/processors"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/tune"
)

// driven is a pipeline as a tuner sees it.
type driven struct{ *pipeline }

func (d driven) Counters() tune.Counters {
	return tune.Counters{
		Work: d.work.Load(), Starved: d.workers.Idle.Time(), Blocked: d.Session.Blocked(),
		Busy: time.Duration(float64(processors.Used()) / d.par.Processors),
	}
}

func (d driven) Apply(s tune.Setting, seen tune.Sample) {
	d.readers.Set(s.Readers)
	d.workers.Set(s.Compressors)
	d.Session.Adjust(s.Uploads, s.Level)
	now := report.Crews{Readers: s.Readers, Compressors: s.Compressors, Uploads: s.Uploads, Level: s.Level}
	if took := seen.Elapsed.Seconds(); took > 0 {
		now.Bottleneck, now.Speed = seen.Bottleneck().String(), seen.Work/took
		now.Starved, now.Blocked, now.Busy = seen.Starved, seen.Blocked, seen.Busy
	}
	d.Ledger.Crewed(now)
}

// tuner returns the tuner of this run, by what is asked for and what the session has.
func (p *pipeline) tuner() *tune.Tuner {
	uploads, level := p.par.Uploads, p.par.Level
	if uploads.Most == 0 {
		uploads.Start = p.Session.Uploads()
	}
	if level.Most == 0 {
		level.Start = p.Session.Level()
	}
	uploads = uploads.Bounded()
	if level.Start > 0 { // 0: nothing is compressed
		level = level.Bounded()
	}
	each := func(of func(Range) int) tune.Setting {
		return tune.Setting{
			Readers: of(p.par.Readers), Compressors: of(p.par.Workers), Uploads: of(uploads), Level: of(level),
		}
	}
	return tune.New(each(func(r Range) int { return r.Start }), tune.Bounds{
		Least: each(func(r Range) int { return r.Least }),
		Most:  each(func(r Range) int { return r.Most }),
	})
}
