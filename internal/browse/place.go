package browse

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A source that was given by a relative path lies in the tree under that path, and a snapshot records it as an absolute
// one: "docs", backed up in /home/ann, is /docs in the tree and /home/ann/docs in the list of sources. Its base is
// /home/ann.

// Bases returns the base of each source, "/" if its place in the tree is its absolute path. A source that is not in the
// tree has the base "/" as well.
func Bases(ctx context.Context, r Reader, root format.ID, sources []string) ([]string, error) {
	if len(sources) == 1 {
		// "." puts the contents of a directory into the root; any other path is alone there.
		if alone, err := single(ctx, r, root); err != nil || !alone {
			return []string{path.Clean(sources[0])}, err
		}
	}
	bases := make([]string, len(sources))
	for i, source := range sources {
		base := "/"
		for rest := path.Clean(source); rest != ""; {
			_, err := Resolve(ctx, r, root, rest)
			if err == nil {
				bases[i] = base
				break
			}
			if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotDir) {
				return nil, err
			}
			first, below, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
			base = path.Join(base, first)
			if rest = ""; below != "" {
				rest = "/" + below
			}
		}
		if bases[i] == "" {
			if bases[i] = "/"; len(sources) == 1 {
				bases[i] = path.Clean(source)
			}
		}
	}
	return bases, nil
}

// single reports whether a directory has exactly one entry.
func single(ctx context.Context, r Reader, dir format.ID) (bool, error) {
	entries := 0
	enough := errors.New("more than one")
	err := tree.Walk(ctx, r.LoadBlob, dir, func(*tree.Node) error {
		if entries++; entries > 1 {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return entries == 1, err
}

// Base returns the base of a tree if all its sources have the same one, else "/".
func Base(ctx context.Context, r Reader, root format.ID, sources []string) (string, error) {
	bases, err := Bases(ctx, r, root, sources)
	if err != nil || len(bases) == 0 {
		return "/", err
	}
	for _, base := range bases[1:] {
		if base != bases[0] {
			return "/", nil
		}
	}
	return bases[0], nil
}

// Locate returns the path in the tree of an object that a user names by that path, or by its path on the machine. A
// path that leads nowhere is returned unchanged.
func Locate(ctx context.Context, r Reader, root format.ID, sources []string, sub string) (string, error) {
	_, err := Resolve(ctx, r, root, sub)
	if err == nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotDir) {
		return sub, err
	}
	bases, err := Bases(ctx, r, root, sources)
	if err != nil {
		return sub, err
	}
	named := clean(sub)
	for _, base := range bases {
		inTree, below := strings.CutPrefix(named+"/", strings.TrimSuffix(base, "/")+"/")
		if base == "/" || !below {
			continue
		}
		inTree = clean(inTree)
		if _, err := Resolve(ctx, r, root, inTree); err == nil {
			return inTree, nil
		} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotDir) {
			return sub, err
		}
	}
	return sub, nil
}
