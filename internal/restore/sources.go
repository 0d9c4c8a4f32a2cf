package restore

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// findSources finds out where the sources lie inside the snapshot: there by their paths, or as much of the end of these as
// they were named by. A single one that is nowhere was named as "." and is the root; one of several came to nothing.
func (j *job) findSources(ctx context.Context) error {
	if !j.to.Delete || len(j.sel.Sources) == 0 {
		return nil
	}
	j.places = []string{}
	for _, source := range j.sel.Sources {
		place := path.Clean("/" + source)
		for place != "/" {
			there, err := j.holds(ctx, place)
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
			j.places = append(j.places, place)
		}
	}
	return nil
}

// holds reports whether the snapshot has a path. What cannot be read may have it.
func (j *job) holds(ctx context.Context, at string) (bool, error) {
	root := j.sel.Tree
	names := strings.Split(at[1:], "/")
	for i, name := range names {
		n, err := tree.Lookup(ctx, j.repo.LoadBlob, root, name)
		switch {
		case err != nil && context.Cause(ctx) == nil && damage.Partial(err):
			return true, nil
		case err != nil:
			return false, errors.Join(context.Cause(ctx), damage.Explain(err))
		case n == nil || n.Type != tree.Dir && i < len(names)-1:
			return false, nil
		}
		root = n.Subtree
	}
	return true, nil
}

// wholly reports whether d lies in a source: only then the snapshot knows all that was in it.
func (j *job) wholly(d *dir) bool {
	if j.places == nil {
		return true
	}
	for _, place := range j.places {
		if d.path == place || place == "/" || strings.HasPrefix(d.path, place+"/") {
			return true
		}
	}
	return false
}
