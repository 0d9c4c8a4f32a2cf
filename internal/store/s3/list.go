package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// List yields the objects of a kind, 1,000 for each request.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		fail := func(err error) { yield(store.Info{}, fmt.Errorf("list %s: %w", kind, err)) }
		switch {
		case !kind.Valid():
			fail(store.ErrName)
		case kind == store.Config:
			info, err := s.Stat(ctx, store.Name{Kind: kind})
			if !errors.Is(err, store.ErrNotExist) {
				yield(info, err)
			}
		default:
			folders := []string{kind.Folder()}
			if kind == store.Pack {
				folders = append(folders, store.Trees)
			}
			for _, folder := range folders {
				if more, err := s.listFolder(ctx, kind, folder, yield); err != nil {
					fail(err)
					return
				} else if !more {
					return
				}
			}
		}
	}
}

// listFolder reports whether the caller wants more.
func (s *Store) listFolder(ctx context.Context, kind store.Kind, folder string,
	yield func(store.Info, error) bool,
) (more bool, err error) {
	below, stop := context.WithCancel(ctx)
	defer stop()
	prefix := s.target.key(folder) + "/"
	for o := range s.core.ListObjectsIter(below, s.target.Bucket, minio.ListObjectsOptions{
		Prefix: prefix, Recursive: true,
	}) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if o.Err != nil {
			return false, s.explain(ctx, o.Err)
		}
		s.reached.Store(true)
		info, found, err := s.listed(ctx, kind, o)
		if err != nil {
			return false, err
		}
		if found && !yield(info, nil) {
			return false, nil
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return true, nil
}

// listed describes an object of a list. Those of others are left out.
func (s *Store) listed(ctx context.Context, kind store.Kind, o minio.ObjectInfo) (
	info store.Info, found bool, err error,
) {
	below := strings.TrimPrefix(o.Key, s.target.key(""))
	name := store.Name{Kind: kind, ID: path.Base(o.Key)}
	if strings.HasSuffix(o.Key, "/") || name.Check() != nil {
		return info, false, nil
	}
	if name.Path() != below {
		store.Misplaced(ctx, name, path.Dir(below))
		return info, false, nil
	}
	info, err = s.describe(ctx, name, o)
	if errors.Is(err, store.ErrNotExist) { // it was removed meanwhile
		return info, false, nil
	}
	return info, err == nil, err
}
