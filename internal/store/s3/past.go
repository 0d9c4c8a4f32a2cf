package s3

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Past is a Store as it was at a time: what was put or removed since does not count. It changes nothing. It needs a
// bucket that keeps versions. There are no leases in it, since no writer of that time is at work.
type Past struct {
	*Store
	before time.Time
	mu     sync.Mutex
	kinds  map[store.Kind]map[store.Name]version // listed so far
}

// version is the version of an object that was current.
type version struct {
	id   string
	info store.Info
}

var _ store.Remote = (*Past)(nil)

// OpenBefore opens the repository at t as it was before a time. Servers date versions by whole seconds, so what was
// stored in the second of that time does not count.
func OpenBefore(ctx context.Context, t Target, o Options, before time.Time) (*Past, error) {
	s, err := Open(ctx, t, o)
	if err != nil {
		return nil, err
	}
	kept, err := s.core.GetBucketVersioning(ctx, t.Bucket)
	if code := minio.ToErrorResponse(err).Code; err == nil && !kept.Enabled() || code == "VersioningNotConfigured" {
		return nil, &store.Problem{What: "the bucket " + t.Bucket + " keeps no older versions, so it has no past",
			Do: "leave out --as-of", Kinds: []error{store.ErrDenied}}
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &Past{Store: s, before: before.Truncate(time.Second), kinds: make(map[store.Kind]map[store.Name]version)}, nil
}

// versions returns the versions of a kind, which it lists once: 1,000 for each request, older ones and removals
// included.
func (p *Past) versions(ctx context.Context, kind store.Kind) (map[store.Name]version, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.kinds[kind]; all != nil || kind == store.Lease {
		return all, nil
	}
	prefixes := []string{p.target.key(kind.Folder()) + "/"}
	switch kind {
	case store.Config:
		prefixes[0] = p.path(store.Name{Kind: kind})
	case store.Pack:
		prefixes = append(prefixes, p.target.key(store.Trees)+"/")
	}
	all := make(map[store.Name]version)
	for _, prefix := range prefixes {
		for o := range p.core.ListObjectsIter(ctx, p.target.Bucket, minio.ListObjectsOptions{
			Prefix: prefix, Recursive: true, WithVersions: true,
		}) {
			if o.Err != nil {
				return nil, p.explain(ctx, o.Err)
			}
			p.take(all, kind, o)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	for name, v := range all {
		if v.id == "" { // it was removed
			delete(all, name)
		}
	}
	p.kinds[kind] = all
	return all, nil
}

// take adds a version if it is the latest one so far. A removal has no ID.
func (p *Past) take(all map[store.Name]version, kind store.Kind, o minio.ObjectInfo) {
	name := store.Name{Kind: kind, ID: path.Base(o.Key)}
	if kind == store.Config {
		name.ID = ""
	}
	at := stored(o)
	if name.Check() != nil || name.Path() != strings.TrimPrefix(o.Key, p.target.key("")) || !at.Before(p.before) {
		return
	}
	if v, ok := all[name]; ok && !v.info.Modified.Before(at) { // the newest of a time is listed first
		return
	}
	v := version{o.VersionID, store.Info{Name: name, Size: o.Size, Modified: at}}
	if o.IsDeleteMarker {
		v.id = ""
	}
	all[name] = v
}

// stored returns when a version was stored. versitygw dates one by the time of its replacement, or a removal by that of
// what was removed, so there the ID counts, which the server makes: a ULID, whose first ten digits are milliseconds
// since 1970, five bits each.
func stored(o minio.ObjectInfo) time.Time {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	if len(o.VersionID) != 26 || strings.Trim(o.VersionID, digits) != "" {
		return o.LastModified
	}
	var ms int64
	for _, r := range o.VersionID[:10] {
		ms = ms<<5 | int64(strings.IndexRune(digits, r))
	}
	if at := time.UnixMilli(ms).UTC(); at.Year() >= 2000 && at.Before(time.Now().AddDate(0, 0, 1)) {
		return at
	}
	return o.LastModified
}

// find returns the version that counts.
func (p *Past) find(ctx context.Context, name store.Name) (version, error) {
	if err := store.Admit(ctx, name); err != nil {
		return version{}, err
	}
	all, err := p.versions(ctx, name.Kind)
	if err != nil {
		return version{}, err
	}
	v, ok := all[name]
	if !ok {
		return v, store.ErrNotExist
	}
	return v, nil
}

// Get reads a range of the version in one request.
func (p *Past) Get(ctx context.Context, name store.Name, off int64, data []byte) (err error) {
	defer store.Wrap(&err, "get", name)
	v, err := p.find(ctx, name)
	switch {
	case err != nil || len(data) == 0:
		return err
	case off < 0 || off > v.info.Size-int64(len(data)):
		return fmt.Errorf("%w: it has %d bytes, want %d from %d", store.ErrShort, v.info.Size, len(data), off)
	}
	return p.get(ctx, name, v.id, off, data)
}

// Stat describes the version.
func (p *Past) Stat(ctx context.Context, name store.Name) (_ store.Info, err error) {
	defer store.Wrap(&err, "stat", name)
	v, err := p.find(ctx, name)
	return v.info, err
}

// List yields the versions of a kind.
func (p *Past) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return store.Listing(ctx, kind, func(pass func(store.Info) error) error {
		all, err := p.versions(ctx, kind)
		for _, v := range all {
			if err == nil {
				err = pass(v.info)
			}
		}
		return err
	})
}

// Together returns nil: each kind is listed once.
func (p *Past) Together() store.Lister { return nil }

// refuse is the error of each change.
func (p *Past) refuse() error {
	return &store.Problem{What: "a repository with --as-of cannot be changed", Do: "leave out --as-of",
		Kinds: []error{store.ErrDenied}}
}

// Put fails.
func (p *Past) Put(context.Context, store.Name, []byte) error { return p.refuse() }

// PutNew fails.
func (p *Past) PutNew(context.Context, store.Name, []byte) (store.Info, error) {
	return store.Info{}, p.refuse()
}

// Fence fails.
func (p *Past) Fence(context.Context, store.Name) error { return p.refuse() }

// Delete fails.
func (p *Past) Delete(context.Context, store.Name) error { return p.refuse() }
