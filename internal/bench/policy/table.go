package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// number formats a value with so many decimals; a dash if there is none.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// percent formats a part of a hundred.
func percent(v float64, decimals int) string {
	if text := number(v, decimals); text != "–" {
		return text + " %"
	}
	return "–"
}

// rounded rounds a value that is recorded for a picture.
func rounded(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// median is the median over rounds.
func median(byRound map[int]float64) float64 {
	return kit.Median(slices.Collect(maps.Values(byRound)))
}

// digits formats a value with three significant digits or more.
func digits(v float64) string {
	switch {
	case v >= 100:
		return number(v, 0)
	case v >= 10:
		return number(v, 1)
	case v >= 1:
		return number(v, 2)
	default:
		return number(v, 3)
	}
}

// period is the I/O period of a policy on a medium.
func period(p iopolicy.Policy, medium string) time.Duration {
	s := iopolicy.DefaultSettings()
	if medium == "ssd" {
		return s.PeriodSSD[p.Tier()]
	}
	return s.PeriodHDD[p.Tier()]
}
