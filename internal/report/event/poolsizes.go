package event

import "github.com/tidemark-backup/tidemark/internal/report"

// PoolSizes is the numbers of workers of a backup from one time on, and the reason.
type PoolSizes struct {
	Since       float64  `json:"since_seconds"` // from the start of the job
	Readers     int      `json:"readers"`       // in effect
	Compressors int      `json:"compressors"`
	Uploads     int      `json:"uploads"`
	Level       int      `json:"compression_level"`
	Bottleneck  string   `json:"bottleneck,omitempty"`       // reason: `source`, `processors` or `target`
	Speed       *float64 `json:"bytes_per_second,omitempty"` // throughput, plus 32 KiB per object
	Starved     *float64 `json:"starved,omitempty"`          // ratio: compressors without data
	Blocked     *float64 `json:"blocked,omitempty"`          // ratio: compressors blocked by the target
	Busy        *float64 `json:"busy,omitempty"`             // ratio: processor use
}

// NewPoolSizes converts what a ledger recorded.
func NewPoolSizes(all []report.PoolSizes) (out []PoolSizes) {
	for _, c := range all {
		e := PoolSizes{
			Since: c.Since.Seconds(), Readers: c.Readers, Compressors: c.Compressors, Uploads: c.Uploads, Level: c.Level,
			Bottleneck: c.Bottleneck,
		}
		if c.Bottleneck != "" {
			e.Speed, e.Starved, e.Blocked, e.Busy = &c.Speed, &c.Starved, &c.Blocked, &c.Busy
		}
		out = append(out, e)
	}
	return out
}
