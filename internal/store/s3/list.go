package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
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

	// spreadAfter keys of one folder the rest of it is asked for by several requests at once. Lists of up to 1,000, the
	// most that S3 puts into an answer, take one request and no more.
	spreadAfter = 2000
	// share is how many keys such a request should find: names are hashes, so that four standard deviations and the
	// error of the estimate fit into an answer of 1,000.
	share = 800
	// atOnce bounds these requests, and with 1,000 infos for each of them the memory of a list.
	atOnce = 40
	// mostShares bounds what folders with uneven names cost: they take more than one answer to a share.
	mostShares = 1024
)

// List yields the objects of a kind, 1,000 for each request. A list that has begun goes on after the last key when the
// server is back. From 2,000 objects on it sends up to 40 requests at the same time.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return store.Listing(ctx, kind, func(pass func(store.Info) error) error {
		if kind == store.Config {
			return store.ListConfig(ctx, s.Stat, pass)
		}
		var ended error
		l := &listing{Store: s, kinds: []store.Kind{kind}, yield: func(info store.Info) bool {
			ended = pass(info)
			return ended == nil
		}}
		return cmp.Or(l.run(ctx, s.folder(kind.Folder())), ended)
	})
}

// Together lists kinds with one request for each 1,000 objects of the folders from that of the first kind to that of
// the last. A server lists keys in their order.
func (s *Store) Together() store.Lister {
	return func(ctx context.Context, kinds ...store.Kind) iter.Seq2[store.Info, error] {
		return func(yield func(store.Info, error) bool) {
			err := store.ErrName
			if ok := !slices.ContainsFunc(kinds, func(k store.Kind) bool { return k.Folder() == "" }); ok && len(kinds) > 0 {
				l := &listing{Store: s, kinds: kinds, yield: func(info store.Info) bool { return yield(info, nil) }}
				err = l.run(ctx, span{prefix: s.target.key(""), after: s.target.key(kinds[0].Folder() + "/"),
					until: s.target.key(kinds[len(kinds)-1].Folder() + "0")})
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
	until  string // inclusive; "": to the last
	last   string // key of the repository
	folder string // of the last key
	keys   int    // of that folder so far
	share  bool   // it is one of several that are asked for at the same time
}

// spreads reports whether what is left of the folder should be asked for by several requests.
func (p *span) spreads() bool { return p.keys == spreadAfter && !p.share }

// take takes a key off the span.
func (p *span) take(key, folder string) {
	if folder != p.folder {
		p.folder, p.keys = folder, 0
	}
	p.after = key
	p.keys++
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
		return err
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
		if err == nil && more && left.spreads() {
			return l.spread(ctx, left)
		}
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
		if left.until != "" && o.Key > left.until {
			return true, nil
		}
		info, found, err := l.listed(ctx, o)
		if err != nil {
			return false, err
		}
		if left.take(o.Key, l.folderOf(o.Key)); found {
			if o.Key < left.last { // what is short of some files must not pass for a list
				return false, fmt.Errorf("the server lists %s after %s, in no order: use another server", o.Key, left.last)
			}
			left.last, l.begun = o.Key, true
		}
		if found && !l.yield(info) {
			return false, nil
		}
		if left.spreads() { // before the next request
			return true, nil
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return true, l.explain(ctx, nil)
}

// folderOf returns the folder of the repository that a key lies in.
func (s *Store) folderOf(key string) string {
	folder, _, _ := strings.Cut(strings.TrimPrefix(key, s.target.key("")), "/")
	return folder
}

// spread yields what is left of a span whose folder has many keys. As names are hashes, the keys so far show how many
// are left: each request gets an equal share of the names.
func (l *listing) spread(ctx context.Context, left span) (more bool, err error) {
	for some := range slices.Chunk(l.shares(left), atOnce) {
		found := make([][]store.Info, len(some))
		group, below := errgroup.WithContext(ctx)
		for i, part := range some {
			group.Go(func() error {
				each := &listing{Store: l.Store, kinds: l.kinds, begun: true} // the caller cannot repeat a share
				each.yield = func(info store.Info) bool {
					found[i] = append(found[i], info)
					return true
				}
				_, err := each.span(below, part)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return false, err
		}
		for _, info := range slices.Concat(found...) {
			if !l.yield(info) {
				return false, nil
			}
		}
	}
	rest := span{prefix: left.prefix, after: l.target.key(left.folder) + "0", until: left.until}
	if rest.prefix == l.target.key(left.folder)+"/" || rest.until != "" && rest.after >= rest.until {
		return true, nil
	}
	return l.span(ctx, rest)
}

// shares divides what is left of a folder by the first digits of the names, behind the last file of the repository:
// keys of other programs may have any name. A folder without such a file is one share.
func (l *listing) shares(left span) []span {
	folder := l.target.key(left.folder) + "/"
	digits := path.Base(left.last) + "00000000"
	at, err := strconv.ParseUint(digits[:8], 16, 32)
	rest := 1<<32 - at
	count := min(1+uint64(left.keys)*rest/max(at, 1)/share, mostShares)
	if err != nil || l.folderOf(left.last) != left.folder {
		count = 1
	}
	fan := strings.Count(strings.TrimPrefix(left.last, folder), "/")
	shares := make([]span, count)
	after := left.after
	for i := range shares {
		until := folder + "g" // after the last digit
		if n := uint64(i + 1); n < count {
			id := fmt.Sprintf("%08x", at+rest*n/count)
			until = folder + strings.Repeat(store.Fan(id)+"/", fan) + id
		}
		shares[i] = span{prefix: left.prefix, after: after, until: until, share: true}
		after = until
	}
	return shares
}

// listed describes an object of a list. Those of other kinds and programs are left out.
func (l *listing) listed(ctx context.Context, o minio.ObjectInfo) (info store.Info, found bool, err error) {
	below := strings.TrimPrefix(o.Key, l.target.key(""))
	folder := l.folderOf(o.Key)
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
