package prune

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// Limit is how many bytes in packs may stay unused before packs are repacked.
type Limit struct {
	Percent float64 // of the repository after the prune
	Bytes   uint64  // if Percent is 0
	None    bool    // no limit: packs are removed, never repacked
}

// ParseLimit reads 5%, 200M or unlimited. A number without a unit counts megabytes, as in other options.
func ParseLimit(text string) (Limit, error) {
	if text == "unlimited" {
		return Limit{None: true}, nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(p) || p < 0 || p >= 100 {
			return Limit{}, fmt.Errorf("%q: write a share from 0%% to below 100%%", text)
		}
		return Limit{Percent: p}, nil
	}
	n, err := options.ParseSize(text, 1<<20)
	if err != nil {
		return Limit{}, fmt.Errorf("%q: write a share such as 5%%, an amount such as 200M, or unlimited", text)
	}
	return Limit{Bytes: uint64(n)}, nil
}

// Allowed returns how many bytes may stay unused beside used ones.
func (l Limit) Allowed(used uint64) uint64 {
	switch {
	case l.None:
		return math.MaxUint64
	case l.Percent > 0:
		return uint64(l.Percent / (100 - l.Percent) * float64(used))
	}
	return l.Bytes
}
