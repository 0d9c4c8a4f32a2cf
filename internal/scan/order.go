package scan

import (
	"cmp"
	"slices"
)

// position is a thing to be sorted, by a number that stands for it.
type position struct {
	key   uint64
	index uint32
}

// few is how many positions are sorted by insertion: most directories have no more entries, and up to there it is the
// quickest way.
const few = 24

// inOrder sorts positions by their keys. Positions of equal keys come in any order.
func inOrder(p []position) {
	if len(p) > few {
		if !slices.IsSortedFunc(p, byKey) {
			slices.SortFunc(p, byKey)
		}
		return
	}
	for i := 1; i < len(p); i++ {
		x := p[i]
		j := i
		for ; j > 0 && x.key < p[j-1].key; j-- {
			p[j] = p[j-1]
		}
		p[j] = x
	}
}

func byKey(a, b position) int { return cmp.Compare(a.key, b.key) }
