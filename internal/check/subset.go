package check

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Subset selects the packs whose data is read. The zero value selects all. At most one field is set.
type Subset struct {
	Part, Of uint64  // the Part-th (from 1) of Of parts, chosen by the packs' names: Of runs read everything once
	Percent  float64 // percentage of the packs, chosen at random
	Bytes    uint64  // packs chosen at random until their sizes reach this
	Rolling  uint64  // one of this many parts: the packs whose last proof is oldest; this many runs read everything
}

// All reports whether every pack is chosen.
func (s Subset) All() bool { return s == Subset{} }

// ParseSubset reads "5%" (a random share), "3/10" (a fixed part) or "500M" (a random amount; K, M, G and T are powers
// of 1024). The error wraps ErrSubset.
func ParseSubset(text string) (Subset, error) {
	s, ok := parseSubset(strings.TrimSpace(text))
	if !ok {
		return Subset{}, fmt.Errorf("subset %q: %w", text, ErrSubset)
	}
	return s, nil
}

func parseSubset(text string) (Subset, bool) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(share, 64)
		return Subset{Percent: p}, err == nil && p > 0 && p <= 100
	}
	if part, of, ok := strings.Cut(text, "/"); ok {
		p, err1 := strconv.ParseUint(part, 10, 32)
		o, err2 := strconv.ParseUint(of, 10, 32)
		return Subset{Part: p, Of: o}, err1 == nil && err2 == nil && p >= 1 && p <= o
	}
	shift := 0
	if i := strings.IndexAny(text, "KMGTkmgt"); i >= 0 && i == len(text)-1 {
		shift = 10 * (1 + strings.IndexByte("kmgt", text[i]|0x20))
		text = text[:i]
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return Subset{Bytes: n << shift}, err == nil && n > 0 && n<<shift>>shift == n
}

// choose marks the packs that are read. A random share or amount is at least one pack.
func (s Subset) choose(packs []packFile) {
	switch {
	case s.All():
		for i := range packs {
			packs[i].chosen = true
		}
	case s.Rolling > 0:
		s.roll(packs)
	case s.Of > 0:
		for i := range packs {
			id := &packs[i].id
			packs[i].chosen = (uint64(id[0])<<24|uint64(id[1])<<16|uint64(id[2])<<8|uint64(id[3]))%s.Of == s.Part-1
		}
	default:
		most, bytes := len(packs), uint64(0)
		if s.Percent > 0 {
			most = max(1, int(s.Percent*float64(len(packs))/100))
		}
		for n, i := range rand.Perm(len(packs)) {
			if n == most || s.Bytes > 0 && bytes >= s.Bytes {
				break
			}
			packs[i].chosen = true
			bytes += uint64(packs[i].size)
		}
	}
}

// roll selects the packs whose last proof, or first listing, is oldest, until they are the wanted part of all bytes.
// Packs of the first run are older than all later ones, so they are read in the promised number of runs. That does not
// depend on clocks.
func (s Subset) roll(packs []packFile) {
	order, total := make([]int, len(packs)), uint64(0)
	for i := range packs {
		order[i] = i
		total += uint64(packs[i].size)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &packs[a], &packs[b]
		if x.turn != y.turn {
			return cmp.Compare(x.turn, y.turn)
		}
		return cmp.Compare(min(x.proven, 1), min(y.proven, 1))
	})
	wanted, bytes := (total+s.Rolling-1)/s.Rolling, uint64(0)
	for _, i := range order {
		if bytes >= wanted {
			break
		}
		packs[i].chosen = true
		bytes += uint64(packs[i].size)
	}
}
