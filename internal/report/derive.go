package report

import "time"

// Derived holds the figures of a session report that are computed from counters, by TSM's formulas. The ratios are
// parts of 1, not defined (0) where their denominator is zero, and negative if the overhead was larger than the gain.
type Derived struct {
	Moved          uint64        `json:"-"`                       // bytes over the wire: sent (backup) or received
	TransferTime   time.Duration `json:"-"`                       // summed over all sessions
	CompressedBy   float64       `json:"compressed_by"`           // 1 - transferred / processed
	DedupReduction float64       `json:"deduplication_reduction"` // 1 - after / before deduplication
	TotalReduction float64       `json:"total_data_reduction"`    // 1 - transferred / inspected
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
