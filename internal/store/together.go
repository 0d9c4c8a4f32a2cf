package store

import (
	"context"
	"iter"
)

// Lister yields every file of several kinds, one kind after the other.
type Lister = func(ctx context.Context, kinds ...Kind) iter.Seq2[Info, error]

// Together returns what lists several kinds with fewer requests than one List for each; nil: nothing does. The kinds
// are to be in the order of their folders. A store implements it by a method Together() Lister.
func Together(st Store) Lister {
	if t, ok := find[interface{ Together() Lister }](st); ok {
		return t.Together()
	}
	return nil
}
