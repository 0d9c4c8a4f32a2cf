package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// firstWait doubles up to lastWait while a list waits for a server that restarts: half a minute in all.
	firstWait = 500 * time.Millisecond
	lastWait  = 16 * time.Second
)

// List yields the objects of a kind, 1,000 for each request. A list that has begun goes on after the last key when the
// server is back.
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
			l := &listing{Store: s, kind: kind, yield: func(info store.Info) bool { return yield(info, nil) }}
			if err := l.run(ctx); err != nil {
				fail(err)
			}
		}
	}
}

// listing is one run of a list.
type listing struct {
	*Store
	kind  store.Kind
	yield func(store.Info) bool
	begun bool // something was yielded, so that the caller cannot repeat the list
}

// run yields all objects. Those of the second folder of packs, which has few, are asked for at the same time.
func (l *listing) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var second []store.Info
	var beside errgroup.Group
	defer func() { _ = beside.Wait() }()
	defer stop()
	if l.kind == store.Pack {
		few := &listing{Store: l.Store, kind: l.kind, begun: true} // the caller cannot repeat a part of a list
		few.yield = func(info store.Info) bool {
			second = append(second, info)
			return true
		}
		beside.Go(func() error {
			_, err := few.folder(ctx, store.Trees)
			return err
		})
	}
	if more, err := l.folder(ctx, l.kind.Folder()); err != nil || !more {
		return err
	}
	if err := beside.Wait(); err != nil {
		return err //nolint:wrapcheck // it is of folder
	}
	for _, info := range second {
		if !l.yield(info) {
			break
		}
	}
	return nil
}

// folder yields the objects of a folder. It reports whether the caller wants more.
func (l *listing) folder(ctx context.Context, folder string) (more bool, err error) {
	after := ""
	for wait := firstWait; ; wait *= 2 {
		more, err = l.part(ctx, folder, &after)
		if !l.begun || wait > lastWait || !errors.Is(err, store.ErrTemporary) {
			return more, err
		}
		if stopped := store.Sleep(ctx, wait); stopped != nil {
			return false, stopped
		}
	}
}

// part yields the objects after a key, and moves it.
func (l *listing) part(ctx context.Context, folder string, after *string) (more bool, err error) {
	below, stop := context.WithCancel(ctx)
	defer stop()
	for o := range l.core.ListObjectsIter(below, l.target.Bucket, minio.ListObjectsOptions{
		Prefix: l.target.key(folder) + "/", Recursive: true, StartAfter: *after,
	}) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if o.Err != nil {
			return false, l.explain(ctx, o.Err)
		}
		info, found, err := l.listed(ctx, l.kind, o)
		if err != nil {
			return false, err
		}
		*after = o.Key
		l.begun = l.begun || found
		if found && !l.yield(info) {
			return false, nil
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return true, l.explain(ctx, nil)
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
		store.Misplaced(ctx, name, path.Dir(below), false)
		return info, false, nil
	}
	info, err = s.describe(ctx, name, o)
	if errors.Is(err, store.ErrNotExist) { // it was removed meanwhile
		return info, false, nil
	}
	return info, err == nil, err
}
