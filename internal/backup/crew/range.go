package crew

// Range is a number that may change during a run: at the start, and its limits. Where Most is zero it stays as it is.
type Range struct{ Start, Least, Most int }

// Bounded returns r in order: none of its numbers is below one, and the start is within the limits.
func (r Range) Bounded() Range {
	if r.Most <= 0 {
		r.Least, r.Most = r.Start, r.Start
	}
	r.Least = max(1, r.Least)
	r.Most = max(r.Least, r.Most)
	r.Start = min(max(r.Least, r.Start), r.Most)
	return r
}

// AtMost returns r with none of its numbers above n.
func (r Range) AtMost(n int) Range { return Range{min(r.Start, n), min(r.Least, n), min(r.Most, n)} }
