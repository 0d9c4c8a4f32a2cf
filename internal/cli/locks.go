package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// locksFile remembers until when all files of a repository are locked at least. It is in the cache folder of the
// machine that extends the locks: what is in the bucket can be forged with the keys of any machine.
const locksFile = "locked-until"

// extendLocks extends the locks of what stays, if that is due.
func (a *app) extendLocks(ctx context.Context, r *repo.Repository, dry bool) (n uint64, err error) {
	name, held := "", time.Time{}
	if folder := a.cacheFolder(r); folder != "" {
		name = filepath.Join(folder, locksFile)
		if text, failed := os.ReadFile(name); failed == nil {
			held, _ = time.Parse(time.RFC3339, strings.TrimSpace(string(text))) // zero if it is torn: then it is due
			if late := time.Since(held); !held.IsZero() && late > 0 {
				a.warnAlways("warning: locks that prune extended ended " + human.Span(late) + " ago, so older files could " +
					"be removed since: prune at least twice in the term of a lock")
			}
		}
	}
	n, until, err := prune.Extend(ctx, r, held, dry)
	if err == nil && name != "" && !until.Equal(held) {
		err = os.WriteFile(name, []byte(until.UTC().Format(time.RFC3339)+"\n"), 0o600)
	}
	return n, err
}
