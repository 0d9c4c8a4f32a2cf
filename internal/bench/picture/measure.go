package picture

import "errors"

// span is a time in seconds.
type span struct{ from, to float64 }

// piece is a rate, per second, during a time.
type piece struct {
	span
	rate float64
}

// run is what is drawn of the events.
type run struct {
	head    line
	end     float64 // of the last event
	backup  []piece // bytes read
	others  []piece // reads of the other program
	spells  []span  // when it runs; the last time without the backup
	yielded []span  // when the backup yielded for more than half of the time between two events
}

// measure turns events into rates.
func measure(all []line) (*run, error) {
	r := &run{head: all[0], end: all[len(all)-1].Seconds}
	status, reads := line{}, line{}
	for _, l := range all[1:] {
		switch l.Type {
		case aStatus:
			took := l.Seconds - status.Seconds
			if took <= 0 {
				continue
			}
			between := span{status.Seconds, l.Seconds}
			r.backup = append(r.backup, piece{between, float64(l.Bytes-status.Bytes) / took})
			if l.Yielding-status.Yielding > took/2 {
				r.yielded = joined(r.yielded, between)
			}
			status = l
		case aReads:
			if l.Spell > 0 {
				between := span{reads.Seconds, l.Seconds}
				r.others = append(r.others, piece{between, float64(l.Reads) / (l.Seconds - reads.Seconds)})
				if l.Spell > len(r.spells) {
					r.spells = append(r.spells, between)
				}
				r.spells[len(r.spells)-1].to = l.Seconds
			}
			reads = l
		case aSummary:
			r.backup = append(r.backup, piece{span: span{status.Seconds, l.Seconds}})
		}
	}
	if len(r.spells) < 2 || len(r.yielded) == 0 {
		return nil, errors.New("measure events: the backup has not yielded, or there is no time without it")
	}
	return r, nil
}

// joined adds a span, which begins a new one unless it continues the last.
func joined(all []span, s span) []span {
	if n := len(all); n > 0 && all[n-1].to == s.from {
		all[n-1].to = s.to
		return all
	}
	return append(all, s)
}

// mean is the mean rate of the pieces that lie in a time.
func mean(all []piece, within span) float64 {
	sum, took := 0.0, 0.0
	for _, p := range all {
		if p.from >= within.from && p.to <= within.to {
			sum += p.rate * (p.to - p.from)
			took += p.to - p.from
		}
	}
	if took == 0 {
		return 0
	}
	return sum / took
}

// highest is the highest rate.
func highest(all []piece) (most float64) {
	for _, p := range all {
		most = max(most, p.rate)
	}
	return most
}
