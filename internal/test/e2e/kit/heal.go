package kit

import (
	"github.com/tidemark-backup/tidemark/internal/prune"
)

// Foretold is the exact forecast of a dry run.
func Foretold(r *prune.Result) [5]any {
	return [5]any{r.Before, r.Deleted, r.Marked, r.Repacked, r.Revived}
}
