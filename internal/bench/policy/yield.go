package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// bursts is how pollInterval a foreground starts and stops beside each candidate in a round.
const bursts = 8

// burst is one time that a foreground comes and goes.
type burst struct {
	from, to time.Time // its first request, and the end of its last one
}

// pace holds the limits that a job's requests are compared with.
type pace struct {
	period time.Duration // of its slot grants
	gap    time.Duration // without a request: the job has yielded
}

// paceOf is the pace of a policy: half a period without a request is a pause between slot grants.
func paceOf(p iopolicy.Policy, medium string) pace {
	one := period(p, medium)
	return pace{period: one, gap: one / 2}
}

// weight is the cost of requests to a disk: 16 KiB for each, plus its bytes.
func weight(all []rig.Submitted) (sum float64) {
	for _, r := range all {
		sum += float64(16<<10 + r.Bytes)
	}
	return sum
}

// between returns those of some requests from one moment to another.
func between(all []rig.Submitted, from, to time.Time) []rig.Submitted {
	return slices.DeleteFunc(slices.Clone(all),
		func(r rig.Submitted) bool { return r.At.Before(from) || !r.At.Before(to) })
}

// last returns the last request at or after from that comes before the first gap; from itself if the gap begins there.
// It is false if there is no gap before to.
func (p pace) last(all []rig.Submitted, from, to time.Time) (time.Time, bool) {
	at := from
	for _, r := range all {
		if r.At.Before(from) {
			continue
		}
		if r.At.Sub(at) >= p.gap || !r.At.Before(to) {
			break
		}
		at = r.At
	}
	return at, to.Sub(at) >= p.gap
}

// back returns the first request after a moment up to which the job had a rate, in weight per second over two periods,
// of at least least.
func (p pace) back(own []rig.Submitted, from time.Time, least float64) (time.Time, bool) {
	span := 2 * p.period
	own = between(own, from, from.Add(time.Hour))
	first := 0
	for i := range own {
		for own[i].At.Sub(own[first].At) > span {
			first++
		}
		if weight(own[first:i+1]) >= least*span.Seconds() {
			return own[i].At, true
		}
	}
	return time.Time{}, false
}

// fullSpeed is the rate from which on a job is back: between that before the foreground came and that of its slot
// grants, in the middle of a logarithmic scale. It is false if the one was less than three times the other.
func (p pace) fullSpeed(own []rig.Submitted, c burst) (float64, bool) {
	before := weight(between(own, c.from.Add(-time.Second), c.from))
	half := c.from.Add(c.to.Sub(c.from) / 2) // by then it has yielded
	grants := max(weight(between(own, half, c.to))/c.to.Sub(half).Seconds(), before/100)
	return math.Sqrt(before * grants), before > 3*grants
}

// yieldTimes measures to the request when a backup yields to a foreground that starts, and when it is back.
func (b *bench) yieldTimes(ctx context.Context) error {
	for round := range b.rounds {
		for _, c := range rotate(b.backups, round) {
			p, err := iopolicy.ParsePolicy(strings.Fields(c.Name)[0])
			if err != nil || p.Tier() == 0 {
				continue // it never yields
			}
			if err := b.yieldTimesOf(ctx, &c, p, round); ctx.Err() != nil {
				return context.Cause(ctx)
			} else if err != nil {
				b.problem("turns of %s in round %d: %v", c.Name, round, err)
			}
		}
	}
	return nil
}

func (b *bench) yieldTimesOf(ctx context.Context, c *rig.Candidate, p iopolicy.Policy, round int) (err error) {
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	t, err := rig.NewToucher(b.disk.At("foreground"))
	if err != nil {
		return err
	}
	trace, err := b.disk.Trace(ctx)
	if err != nil {
		return errors.Join(err, t.Close())
	}
	defer func() { err = errors.Join(err, trace.Close(), t.Close()) }()
	keeper, _, err := b.disk.Keep(ctx, c, b.disk.At("code"))
	if keeper == nil {
		return err
	}
	how := paceOf(p, b.medium)
	window := iopolicy.DefaultSettings().Window[p.Tier()]
	program := filepath.Base(c.Argv[0])
	var all []burst
	for range bursts {
		if err != nil {
			break
		}
		var one burst
		fast := false
		if fast, err = b.reading(ctx, trace, how, program); fast {
			one.from, one.to, err = t.Hammer(ctx, b.stretched(time.Second)+4*period(p, b.medium))
			all = append(all, one)
		} else {
			b.problem("turns of %s: in round %d the backup was not at full speed before a foreground started", c.Name, round)
		}
		if err == nil {
			err = rig.Pause(ctx, window+2*period(p, b.medium)+time.Second)
		}
	}
	err = errors.Join(err, keeper.Stop(), rig.Pause(ctx, 100*time.Millisecond))
	for i := range all {
		end := all[i].to.Add(window + 2*period(p, b.medium) + time.Second)
		if rig.Missing(keeper.Gaps, all[i].from.Add(-time.Second), end) > 0 {
			b.problem("turns of %s: what fell between two backups is left out; a larger -code makes them longer", c.Name)
			continue
		}
		values := how.metrics(trace.Between(all[i].from.Add(-time.Second), end), all[i], program)
		b.add(partTurns, "turns / "+c.Name, round, values)
	}
	return err
}

// metrics returns the metrics of the requests around one start of a foreground, in milliseconds. Reads are those of the
// program. Writes include all processes except the foreground, which only reads, because the kernel also writes for the
// program.
func (p pace) metrics(all []rig.Submitted, c burst, program string) map[string]float64 {
	slices.SortStableFunc(all, func(x, y rig.Submitted) int { return cmp.Compare(x.At.UnixNano(), y.At.UnixNano()) })
	var reads, writes, own []rig.Submitted
	for _, r := range all {
		mine := ofProgram(&r, program)
		if mine {
			own = append(own, r)
		}
		if r.Write {
			writes = append(writes, r)
		} else if mine {
			reads = append(reads, r)
		}
	}
	values := map[string]float64{}
	if !slices.ContainsFunc(reads, func(r rig.Submitted) bool { return r.At.Before(c.from) && c.from.Sub(r.At) < p.gap }) {
		values["not reading"] = 1 // when the foreground started, so yielding cannot be measured
	} else if at, ok := p.last(reads, c.from, c.to); ok {
		values["yielded"] = milliseconds(at.Sub(c.from))
		later := 0
		var bytes int64
		for _, r := range reads {
			if r.At.After(at) && r.At.Before(c.to) {
				later, bytes = later+1, bytes+r.Bytes
			}
		}
		if rest := c.to.Sub(at).Seconds(); rest > 0 {
			values["reads per second afterwards"] = float64(later) / rest
			values["MiB per second afterwards"] = float64(bytes) / (1 << 20) / rest
		}
	}
	if at, ok := p.last(writes, c.from, c.to); ok {
		values["writes until"] = milliseconds(at.Sub(c.from))
	}
	if least, ok := p.fullSpeed(own, c); ok {
		if at, ok := p.back(own, c.to, least); ok {
			values["back"] = milliseconds(at.Sub(c.to))
		}
	}
	return values
}

// ofProgram reports whether a thread of a program submitted a request: the kernel cuts names off, and names the threads
// that serve io_uring itself.
func ofProgram(r *rig.Submitted, program string) bool {
	return r.Program != "" && strings.HasPrefix(program, r.Program) || strings.HasPrefix(r.Program, "iou-wrk-")
}

// reading waits until the backup reads without a pause, for some seconds at most. The trace comes a little late.
func (b *bench) reading(ctx context.Context, t *rig.Trace, how pace, program string) (bool, error) {
	const parts = 10
	for limit := time.Now().Add(15 * time.Second); time.Now().Before(limit); {
		now := time.Now()
		part := how.period / 2
		busy := 0
		for i := range parts {
			to := now.Add(-20*time.Millisecond - time.Duration(i)*part)
			reads := t.Between(to.Add(-part), to)
			if slices.ContainsFunc(reads, func(r rig.Submitted) bool { return !r.Write && ofProgram(&r, program) }) {
				busy++
			}
		}
		if busy >= parts*8/10 {
			return true, nil
		}
		if err := rig.Pause(ctx, 3*time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (b *bench) yieldTable() string {
	var rows [][]string
	for _, c := range b.backups {
		name := "turns / " + c.Name
		p, err := iopolicy.ParsePolicy(strings.Fields(c.Name)[0])
		records := b.Of(partTurns, name)
		if err != nil || len(records) == 0 {
			continue
		}
		row := []string{c.Name, fmt.Sprint(len(records))}
		for _, key := range []string{"yielded", "writes until", "back"} {
			var all []float64
			for _, r := range records {
				if v, ok := r.Values[key]; ok {
					all = append(all, v)
				}
			}
			worst := math.NaN()
			if len(all) > 0 {
				worst = slices.Max(all)
			}
			row = append(row, number(kit.Median(all), 1), number(worst, 1), fmt.Sprint(len(all)))
		}
		row = append(row, number(milliseconds(iopolicy.DefaultSettings().Window[p.Tier()]), 0),
			digits(b.Value(partTurns, name, "reads per second afterwards")),
			digits(b.Value(partTurns, name, "MiB per second afterwards")))
		rows = append(rows, row)
	}
	return kit.Table([]string{
		"candidate", "bursts", "last own read after, ms", "worst", "of", "last write of the tail after, ms", "worst", "of",
		"back after, ms", "worst", "of", "window, ms", "own reads per s in between", "MiB per s",
	}, rows...)
}
