package backup

import (
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A machine that gets another host name has no snapshot under it, nor has one that gets the disk of another. The first
// backup of each set of sources takes over the whole snapshots of the host that backed up the same folders, recognised
// by their inode numbers and the times of their creation. Later backups have a parent under the new name.

// takeOver returns the listed snapshots, with the whole ones of the former host as if this one had made them, and that
// host; "" if there is none.
func (job *Job) takeOver(ctx context.Context, r *repo.Repository, listed []repo.Listed) ([]repo.Listed, string, error) {
	own := func(l repo.Listed) bool {
		return slices.ContainsFunc(job.Label.Sources, func(source string) bool { return job.covers(l, source) })
	}
	if job.Stdin != nil || job.Source.Comparing.Force || slices.ContainsFunc(listed, own) {
		return listed, "", nil
	}
	former, err := job.formerHost(ctx, r, listed)
	if err != nil || former == "" {
		return listed, "", err
	}
	all := slices.Clone(listed)
	for i, l := range all {
		if l.Snapshot != nil && l.Snapshot.Host == former && !l.Snapshot.Partial {
			taken := *l.Snapshot
			taken.Host = job.Label.Host
			all[i].Snapshot = &taken
		}
	}
	return all, former, nil
}

// formerHost returns the host whose newest whole snapshot of these sources has the folders that are there now.
func (job *Job) formerHost(ctx context.Context, r *repo.Repository, listed []repo.Listed) (string, error) {
	tried := map[string]bool{}
	for _, l := range slices.Backward(listed) {
		if l.Snapshot == nil || l.Snapshot.Partial || tried[l.Snapshot.Host] ||
			!sameSources(l.Snapshot.Sources, job.Label.Sources) {
			continue
		}
		if len(tried) == parentTries {
			break
		}
		tried[l.Snapshot.Host] = true
		has, err := job.hasFolders(ctx, r, &l)
		if err != nil || has {
			return l.Snapshot.Host, err
		}
	}
	return "", nil
}

// hasFolders reports whether the sources are the folders that a snapshot has at their paths. A tree that cannot be read
// has none.
func (job *Job) hasFolders(ctx context.Context, r *repo.Repository, l *repo.Listed) (bool, error) {
	for _, source := range job.Label.Sources {
		nodes, err := tree.Follow(ctx, r.LoadBlob, l.Snapshot.Tree, source)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil || nodes == nil || !job.isFolder(ctx, source, nodes[len(nodes)-1]) {
			return false, nil
		}
	}
	return len(job.Label.Sources) > 0, nil
}

// isFolder reports whether the folder at a path is the one that a node describes.
func (job *Job) isFolder(ctx context.Context, path string, n *tree.Node) bool {
	if n.Type != tree.Dir || n.Inode == 0 || n.Born == nil {
		return false
	}
	door := localfs.IOContext{Ctx: ctx, Pass: job.Source.Gate.Pass(nil, path)}
	dir, err := door.OpenSearchable(path)
	if err != nil {
		return false
	}
	defer dir.Release()
	st, err := dir.Fstat()
	return err == nil && st.Ino == n.Inode && st.Birth == *n.Born
}
