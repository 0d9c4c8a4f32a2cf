package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Bucket says where a bucket is, and how objects are kept in it.
type Bucket struct {
	Region string // "": us-east-1
	Style  Style
	Class  string // storage class of packs of data; "": the default of the bucket
	Lock   Lock   // zero: that of the repository's config
}

// Options configures a Store.
type Options struct {
	Keys        Keys
	Bucket      Bucket
	Plain       bool   // HTTP instead of HTTPS
	CA          []byte // certificates of further authorities, in PEM form
	Connections int    // that stay open; 0: 8
	Pass        *iopolicy.Pass
	Requests    *Requests // counts; nil: a new one
}

// Style is where the name of the bucket stands in a request.
type Style uint8

// The styles.
const (
	Auto   Style = iota // in the host for Amazon and Google, otherwise in the path
	InPath              // https://server/bucket/key
	InHost              // https://bucket.server/key
)

// Store is a prefix in a bucket. Close it.
type Store struct {
	target  Target
	core    *minio.Core
	wire    *wire
	class   string // of packs of data
	lock    *lock
	reached *atomic.Bool // a server has answered, so that failures of the network are temporary
	lost    *sync.Map    // store.Name to tag: PutNews whose answer was lost
	read    *sync.Map    // store.Name to *[]byte: what Stat has read for the Get that follows
}

var _ store.Remote = (*Store)(nil)

// Open opens the repository at t. It sends no request: that nothing is there, or that there is no such bucket, is
// reported by the first read.
func Open(ctx context.Context, t Target, o Options) (*Store, error) {
	if t.Endpoint == "" || t.Bucket == "" {
		return nil, fmt.Errorf("%w: endpoint or bucket is missing", ErrTarget)
	}
	if o.Connections <= 0 {
		o.Connections = 8
	}
	if o.Bucket.Region == "" {
		o.Bucket.Region = "us-east-1"
	}
	if o.Requests == nil {
		o.Requests = &Requests{}
	}
	keys, err := o.Keys.find(ctx)
	if err != nil {
		return nil, err
	}
	w, err := newWire(o)
	if err != nil {
		return nil, err
	}
	core, err := minio.NewCore(t.Endpoint, &minio.Options{
		Creds: keys, Secure: !o.Plain, Transport: w, Region: o.Bucket.Region, MaxRetries: 1,
		BucketLookup: [...]minio.BucketLookupType{minio.BucketLookupAuto, minio.BucketLookupPath,
			minio.BucketLookupDNS}[o.Bucket.Style],
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	return &Store{target: t, core: core, wire: w, class: o.Bucket.Class, lock: newLock(o.Bucket.Lock),
		reached: &atomic.Bool{}, lost: &sync.Map{}, read: &sync.Map{}}, nil
}

// Create opens the repository at t and checks that the bucket exists, and that it can lock objects if it is to.
func Create(ctx context.Context, t Target, o Options) (*Store, error) {
	s, err := Open(ctx, t, o)
	if err != nil {
		return nil, err
	}
	if err = s.findBucket(ctx); err == nil && o.Bucket.Lock != (Lock{}) {
		err = s.requireLock(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// findBucket returns an error if there is no bucket, or no access to it.
func (s *Store) findBucket(ctx context.Context) error {
	for found := range s.core.ListObjectsIter(ctx, s.target.Bucket, minio.ListObjectsOptions{
		Prefix: s.target.key("config"), MaxKeys: 1, Recursive: true,
	}) {
		return s.explain(ctx, found.Err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.explain(ctx, nil)
}

// Close closes the connections.
func (s *Store) Close() error {
	s.wire.base.CloseIdleConnections()
	return nil
}

// Location returns the address, without secrets.
func (s *Store) Location() string { return s.target.String() }

// VerifiesPut returns true: the server compares the SHA-256 of each file with what it got, before it stores the file.
func (s *Store) VerifiesPut() bool { return true }

// Coherent returns true: servers show in each answer what they have acknowledged.
func (s *Store) Coherent() bool { return true }

// Unfenced asks for the object of a lease. The time is that of the answer.
func (s *Store) Unfenced(ctx context.Context, name store.Name) (at time.Time, err error) {
	if err = store.Admit(ctx, name); err == nil {
		var o minio.ObjectInfo
		if o, err = s.head(context.WithValue(ctx, dateKey{}, &at), name); err == nil {
			var info store.Info
			if info, err = s.describe(ctx, name, o); err == nil {
				_, err = store.UnfencedBy(info, nil)
			}
		}
	}
	switch {
	case errors.Is(err, store.ErrNotExist) && at.IsZero():
		return at, fmt.Errorf("the server does not say what time it is: %w", errors.ErrUnsupported)
	case errors.Is(err, store.ErrNotExist):
		return at, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("look for %s: %w", name, err)
	}
	return at, nil
}

func (s *Store) path(name store.Name) string { return s.target.key(name.Path()) }

// Get reads a range in one request.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) (err error) {
	defer store.Wrap(&err, "get", name)
	switch err = store.Admit(ctx, name); {
	case err != nil:
		return err
	case off < 0:
		return fmt.Errorf("negative offset %d", off)
	case len(p) == 0:
		_, err = s.head(ctx, name)
		return err
	case off == 0 && s.wasRead(ctx, name, p):
		return nil
	case off > math.MaxInt64-int64(len(p)):
		return fmt.Errorf("%w: no file reaches to %d bytes from %d", store.ErrShort, len(p), off)
	}
	return s.get(ctx, name, "", off, p)
}

// get reads a range of a version; "": the current one.
func (s *Store) get(ctx context.Context, name store.Name, version string, off int64, p []byte) error {
	if !store.ConnectedSince(ctx).IsZero() {
		s.wire.base.CloseIdleConnections() // the request gets a new one
	}
	watch, alive, stop := watched(ctx)
	defer stop()
	opt := minio.GetObjectOptions{VersionID: version}
	if err := opt.SetRange(off, off+int64(len(p))-1); err != nil {
		return err
	}
	body, _, header, err := s.core.GetObject(watch, s.target.Bucket, s.path(name), opt)
	if err != nil {
		return s.explain(ctx, err)
	}
	defer func() { _ = body.Close() }()
	s.reached.Store(true)
	n, err := io.ReadFull(&paced{from: body, ctx: watch, way: store.Download, alive: alive}, p)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		if whole := total(header); whole >= 0 && off+int64(n) < min(whole, off+int64(len(p))) {
			return s.explain(ctx, errCut)
		}
		return fmt.Errorf("%w: it ends at byte %d, want %d from %d", store.ErrShort, off+int64(n), len(p), off)
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	if name.Kind == store.Lease && total(header) == int64(len(marker)) && string(p) == marker[off:off+int64(len(p))] {
		return fmt.Errorf("%w: the name is fenced", store.ErrShort)
	}
	return nil
}

// errCut: a connection ended in the middle of an answer.
var errCut = errors.New("the connection ended in the middle of an answer")

// total returns the size of an object from the answer to a request for a range; below 0: unknown.
func total(h http.Header) int64 {
	_, text, found := strings.Cut(h.Get("Content-Range"), "/")
	if !found {
		text = h.Get("Content-Length")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Stat asks for one object. A config or key is read at once, for the Get that follows.
func (s *Store) Stat(ctx context.Context, name store.Name) (info store.Info, err error) {
	defer store.Wrap(&err, "stat", name)
	if err := store.Admit(ctx, name); err != nil {
		return info, err
	}
	if (name.Kind == store.Config || name.Kind == store.Key) && store.ConnectedSince(ctx).IsZero() {
		return s.readSmall(ctx, name)
	}
	o, err := s.head(ctx, name)
	if err != nil {
		return info, err
	}
	if info, err = s.describe(ctx, name, o); err == nil {
		s.lock.learn(name, o)
	}
	return info, err
}

// head asks for the metadata of an object. The answer to a HEAD has no body that says why it failed, so a GET asks
// again.
func (s *Store) head(ctx context.Context, name store.Name) (minio.ObjectInfo, error) {
	watch, _, stop := watched(ctx)
	defer stop()
	o, err := s.core.StatObject(watch, s.target.Bucket, s.path(name), minio.StatObjectOptions{})
	if status := minio.ToErrorResponse(err).StatusCode; status == http.StatusNotFound && !s.reached.Load() {
		if missing := s.findBucket(ctx); missing != nil {
			return o, missing
		}
	} else if status >= http.StatusMultipleChoices && status < http.StatusInternalServerError &&
		status != http.StatusNotFound {
		if body, _, _, why := s.core.GetObject(watch, s.target.Bucket, s.path(name), minio.GetObjectOptions{}); why != nil {
			err = why
		} else {
			_ = body.Close()
		}
	}
	return o, s.explain(ctx, err)
}

// describe returns what lies under a name. Times are those of HEAD, which has whole seconds.
func (s *Store) describe(ctx context.Context, name store.Name, o minio.ObjectInfo) (store.Info, error) {
	info := store.Info{Name: name, Size: o.Size, Modified: o.LastModified.Truncate(time.Second)}
	if name.Kind != store.Lease || o.Size != int64(len(marker)) {
		return info, nil
	}
	body, _, _, err := s.core.GetObject(ctx, s.target.Bucket, s.path(name), minio.GetObjectOptions{})
	if err != nil {
		return info, s.explain(ctx, err)
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, int64(len(marker))))
	if err != nil {
		return info, s.explain(ctx, err)
	}
	if bytes.Equal(data, []byte(marker)) {
		info.Fence, info.Size = true, 0
	}
	return info, nil
}

// Delete removes the object. Servers do not say whether there was one, so it is looked at before.
func (s *Store) Delete(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "delete", name)
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	if !store.Anyway(ctx) { // a server does not say whether there was something
		if _, err := s.head(ctx, name); err != nil {
			return err
		}
	}
	watch, _, stop := watched(ctx)
	defer stop()
	return s.explain(ctx, s.core.RemoveObject(watch, s.target.Bucket, s.path(name), minio.RemoveObjectOptions{}))
}
