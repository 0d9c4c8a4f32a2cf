package forget

import (
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ByStored returns the snapshots, each dated by the time of storage on the target instead of the time written in it. A
// client can write any time into a snapshot, but the target dates it when it is stored.
func ByStored(list []repo.Listed) []repo.Listed {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Snapshot == nil || out[i].Stored.IsZero() {
			continue
		}
		dated := *out[i].Snapshot
		dated.Time = tree.TimeOf(out[i].Stored)
		out[i].Snapshot = &dated
	}
	return out
}
