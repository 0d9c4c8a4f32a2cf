package restore

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// findSources locates the sources inside the snapshot: under their full paths, or under a suffix of these, as they were
// named. A single source without such a path was named "." and is the root; one of several was not stored.
func (j *job) findSources(ctx context.Context) error {
	if !j.to.Delete || len(j.sel.Sources) == 0 {
		return nil
	}
	j.sourcePaths = []string{}
	for _, source := range j.sel.Sources {
		place := path.Clean("/" + source)
		for place != "/" {
			there, err := j.hasPath(ctx, place)
			if err != nil {
				return err
			}
			if there {
				break
			}
			_, rest, _ := strings.Cut(place[1:], "/")
			place = "/" + rest
		}
		if place != "/" || len(j.sel.Sources) == 1 || source == "/" {
			j.sourcePaths = append(j.sourcePaths, place)
		}
	}
	return nil
}

// hasPath reports whether the snapshot has a path. Unreadable trees count as yes.
func (j *job) hasPath(ctx context.Context, at string) (bool, error) {
	root := j.sel.Tree
	names := strings.Split(at[1:], "/")
	for i, name := range names {
		n, err := tree.Lookup(ctx, j.repo.LoadBlob, root, name)
		switch {
		case err != nil && context.Cause(ctx) == nil && isPartialDamage(err):
			return true, nil
		case err != nil:
			return false, errors.Join(context.Cause(ctx), explainUnreachable(err))
		case n == nil || n.Type != tree.Dir && i < len(names)-1:
			return false, nil
		}
		root = n.Subtree
	}
	return true, nil
}

// inSource reports whether d lies in a source, so that the snapshot knows all its entries.
func (j *job) inSource(d *dir) bool {
	if j.sourcePaths == nil {
		return true
	}
	for _, place := range j.sourcePaths {
		if d.path == place || place == "/" || strings.HasPrefix(d.path, place+"/") {
			return true
		}
	}
	return false
}
