package marks

import "errors"

// ErrDamaged: a deletion mark is damaged, so the packs it names are unknown.
var ErrDamaged = errors.New("a mark that a prune left is damaged, so it is not known what is about to be removed; " +
	"'tidemark prune' takes the mark away, and nothing else with it")
