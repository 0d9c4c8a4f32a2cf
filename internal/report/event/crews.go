package event

import "github.com/tidemark-backup/tidemark/internal/report"

// Crews is how many workers a backup had from some moment on, and why.
type Crews struct {
	Since       float64  `json:"since_seconds"`
	Readers     int      `json:"readers"`
	Compressors int      `json:"compressors"`
	Uploads     int      `json:"uploads"`
	Level       int      `json:"compression_level"`
	Bottleneck  string   `json:"bottleneck,omitempty"`
	Speed       *float64 `json:"bytes_per_second,omitempty"`
	Starved     *float64 `json:"starved,omitempty"`
	Blocked     *float64 `json:"blocked,omitempty"`
	Busy        *float64 `json:"busy,omitempty"`
}

// newCrews makes the form of what a ledger has.
func newCrews(all []report.Crews) (out []Crews) {
	for _, c := range all {
		e := Crews{
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
