package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
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
			l := &listing{Store: s, kinds: []store.Kind{kind}}
			l.yield = func(info store.Info) bool { return yield(info, nil) }
			if err := l.run(ctx, s.folder(kind.Folder())); err != nil {
				fail(err)
			}
		}
	}
}

// Together lists kinds with one request for each 1,000 objects of the folders from that of the first kind to that of
// the last. A server lists keys in their order.
func (s *Store) Together() store.Lister {
	return func(ctx context.Context, kinds ...store.Kind) iter.Seq2[store.Info, error] {
		return func(yield func(store.Info, error) bool) {
			err := store.ErrName
			if ok := !slices.ContainsFunc(kinds, func(k store.Kind) bool { return k.Folder() == "" }); ok && len(kinds) > 0 {
				l := &listing{Store: s, kinds: kinds, yield: func(info store.Info) bool { return yield(info, nil) }}
				err = l.run(ctx, span{s.target.key(""), s.target.key(kinds[0].Folder() + "/"),
					s.target.key(kinds[len(kinds)-1].Folder() + "0")})
			}
			if err != nil {
				yield(store.Info{}, fmt.Errorf("list %v: %w", kinds, err))
			}
		}
	}
}

// span is a range of keys.
type span struct {
	prefix string
	after  string // exclusive; "": from the first
	until  string // exclusive; "": to the last
}

func (s *Store) folder(name string) span { return span{prefix: s.target.key(name) + "/"} }

// listing is one run of a list.
type listing struct {
	*Store
	kinds []store.Kind
	yield func(store.Info) bool
	begun bool // something was yielded, so that the caller cannot repeat the list
}

// run yields all objects of a span. Those of the second folder of packs, which has few, are asked for at the same time.
func (l *listing) run(ctx context.Context, all span) error {
	ctx, stop := context.WithCancel(ctx)
	var second []store.Info
	var beside errgroup.Group
	defer func() { _ = beside.Wait() }()
	defer stop()
	if slices.Contains(l.kinds, store.Pack) {
		few := &listing{Store: l.Store, kinds: l.kinds, begun: true} // the caller cannot repeat a part of a list
		few.yield = func(info store.Info) bool {
			second = append(second, info)
			return true
		}
		beside.Go(func() error {
			_, err := few.span(ctx, l.folder(store.Trees))
			return err
		})
	}
	if more, err := l.span(ctx, all); err != nil || !more {
		return err
	}
	if err := beside.Wait(); err != nil {
		return err //nolint:wrapcheck // it is of span
	}
	for _, info := range second {
		if !l.yield(info) {
			break
		}
	}
	return nil
}

// span yields the objects of a span. It reports whether the caller wants more.
func (l *listing) span(ctx context.Context, left span) (more bool, err error) {
	for wait := firstWait; ; wait *= 2 {
		more, err = l.part(ctx, &left)
		if !l.begun || wait > lastWait || !errors.Is(err, store.ErrTemporary) {
			return more, err
		}
		if stopped := store.Sleep(ctx, wait); stopped != nil {
			return false, stopped
		}
	}
}

// part yields the objects of a span, and takes them off it.
func (l *listing) part(ctx context.Context, left *span) (more bool, err error) {
	below, stop := context.WithCancel(ctx)
	defer stop()
	for o := range l.core.ListObjectsIter(below, l.target.Bucket, minio.ListObjectsOptions{
		Prefix: left.prefix, Recursive: true, StartAfter: left.after,
	}) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if o.Err != nil {
			return false, l.explain(ctx, o.Err)
		}
		if left.until != "" && o.Key >= left.until {
			return true, nil
		}
		info, found, err := l.listed(ctx, o)
		if err != nil {
			return false, err
		}
		left.after = o.Key
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

// listed describes an object of a list. Those of other kinds and programs are left out.
func (l *listing) listed(ctx context.Context, o minio.ObjectInfo) (info store.Info, found bool, err error) {
	below := strings.TrimPrefix(o.Key, l.target.key(""))
	folder, _, _ := strings.Cut(below, "/")
	name := store.Name{ID: path.Base(o.Key)}
	for _, kind := range l.kinds {
		if kind.Folder() == folder || kind == store.Pack && folder == store.Trees {
			name.Kind = kind
		}
	}
	if strings.HasSuffix(o.Key, "/") || name.Check() != nil {
		return info, false, nil
	}
	if name.Path() != below {
		store.Misplaced(ctx, name, path.Dir(below), false)
		return info, false, nil
	}
	info, err = l.describe(ctx, name, o)
	if errors.Is(err, store.ErrNotExist) { // it was removed meanwhile
		return info, false, nil
	}
	return info, err == nil, err
}
