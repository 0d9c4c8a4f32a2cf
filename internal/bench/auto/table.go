package auto

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// line is what one candidate took, as medians over the rounds.
type line struct {
	name                       string
	seconds, processor, stored float64
}

// lines returns the candidates of one place, in the order of candidates.
func lines(records []record, slow string) (out []line) {
	for _, name := range names() {
		var seconds, processor, stored []float64
		for i := range records {
			if r := &records[i]; r.Slow == slow && r.Candidate == name {
				seconds, processor, stored = append(seconds, r.Seconds), append(processor, r.Processor), append(stored,
					float64(r.Stored))
			}
		}
		if len(seconds) > 0 {
			out = append(out, line{name, kit.Median(seconds), kit.Median(processor), kit.Median(stored)})
		}
	}
	return out
}

// best returns the time of the fastest candidate that is not auto; NaN if there is none.
func best(all []line) float64 {
	least := math.NaN()
	for _, l := range all {
		if l.name != "auto" && !(l.seconds >= least) {
			least = l.seconds
		}
	}
	return least
}

// table formats the measurements of one place for a page of the documentation.
func (b *bench) table(slow string) string {
	all := lines(b.records, slow)
	least := best(all)
	var out strings.Builder
	out.WriteString("| | s | of the best fixed | processor, s | stored, MB |\n|---|---|---|---|---|\n")
	for _, l := range all {
		fmt.Fprintf(&out, "| %s | %.1f | %.2f | %.1f | %.0f |\n", l.name, l.seconds, l.seconds/least, l.processor,
			l.stored/1e6)
	}
	return out.String()
}
