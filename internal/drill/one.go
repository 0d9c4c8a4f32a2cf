package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
)

// The sample from which One takes its file. The bounds keep it quick for any snapshot.
const (
	oneSize    = 16 << 20 // bytes of a file at most
	oneVisited = 5000     // files that are considered
	oneSample  = 10       // files that are restored until one is unchanged on this machine
)

// errEnough ends a walk.
var errEnough = errors.New("enough files")

// One restores one file of the only snapshot of opt that is neither empty nor large, and compares it with the file on
// this machine. A file that has changed since the backup is passed over for another one: if all have, Live is 0. path
// is the file's in the snapshot, "" if there is none to restore.
func One(ctx context.Context, r *repo.Repository, opt Options, l *report.Ledger) (res *Result, path string, err error) {
	l.Phase(report.Planning)
	res = &Result{}
	sample, err := choose(ctx, r, &opt, true)
	if err != nil || len(sample) == 0 {
		return res, "", err
	}
	folder, err := os.MkdirTemp(opt.Folder, "tidemark-drill-")
	if err != nil {
		return res, "", fmt.Errorf("make a folder for restored files: %w", err)
	}
	defer func() { err = errors.Join(err, remove(folder)) }()
	failed := newFailures(l)
	for i := range sample {
		c := &sample[i]
		*res, path = Result{Files: 1, Bytes: c.node.Size}, c.path
		files := map[string]*chosen{c.path: c}
		err := one(ctx, r, &opt, 0, files, filepath.Join(folder, fmt.Sprint(i)), l, res)
		if res.Failed = failed.among(files); err != nil || res.Failed > 0 || res.Live > 0 {
			return res, path, err
		}
	}
	return res, path, nil
}
