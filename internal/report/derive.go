package report

import "time"

// Derived holds the figures of a session report that are computed from counters, by TSM's formulas. The ratios are
// parts of 1 and not defined (0) where their denominator is zero.
type Derived struct {
	Moved          uint64        // bytes over the wire: sent (backup) or received, retries included
	TransferTime   time.Duration // summed over all sessions
	CompressedBy   float64       // 1 - transferred / processed; negative if the overhead was larger than the gain
	DedupReduction float64       // 1 - after / before deduplication
	TotalReduction float64       // 1 - transferred / inspected
}

// Derive computes the figures that follow from the counters.
func (t *Totals) Derive() Derived {
	d := Derived{Moved: t.Bytes.Transferred, TransferTime: t.Stages[Store]}
	if t.Job != Backup {
		d.Moved, d.TransferTime = t.Bytes.Fetched, t.Stages[Fetch]
	}
	d.CompressedBy = reduction(t.Bytes.Transferred, t.Bytes.Processed)
	d.DedupReduction = reduction(t.Bytes.AfterDedup, t.Bytes.BeforeDedup)
	d.TotalReduction = reduction(t.Bytes.Transferred, t.Bytes.Inspected)
	return d
}

// reduction is 1 - part/whole, 0 without a whole.
func reduction(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 1 - float64(part)/float64(whole)
}
