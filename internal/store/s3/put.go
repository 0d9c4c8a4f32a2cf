package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// marker is the content of a fence.
const marker = "tidemark: no lease can have this name\n"

// tagKey is the metadata that distinguishes the objects of two puts: "x-amz-meta-tidemark-put".
const tagKey = "Tidemark-Put"

// tag names one put: what is sent, and a random number.
type tag struct {
	sum    [sha256.Size]byte
	random string
}

func newTag(data []byte) tag { return tag{sha256.Sum256(data), rand.Text()} }

// errTaken: a condition of a put does not hold.
var errTaken = errors.New("the condition of the request does not hold")

// replacements is how often the replacement of a lease is tried that others replace too.
const replacements = 10

// Put stores an object and replaces that of the name. A lease is replaced only if it is the one that was looked at.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) (err error) {
	defer store.Wrap(&err, "put", name)
	switch err := store.Admit(ctx, name); {
	case err != nil:
		return err
	case name.Kind == store.Lease:
		return s.putLease(ctx, name, data)
	}
	_, err = s.send(ctx, name, data, newTag(data), "")
	return err
}

func (s *Store) putLease(ctx context.Context, name store.Name, data []byte) error {
	for range replacements {
		_, err := s.putNew(ctx, name, data)
		if !errors.Is(err, store.ErrExists) {
			return err
		}
		there, err := s.head(ctx, name)
		if errors.Is(err, store.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = s.send(ctx, name, data, newTag(data), there.ETag)
		if !errors.Is(err, errTaken) && !errors.Is(err, store.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("%w: others replace it again and again", store.ErrTemporary)
}

// PutNew stores an object with If-None-Match: *. That exactly one of several callers succeeds rests on the server.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	err := store.Admit(ctx, name)
	info := store.Info{Name: name, Size: int64(len(data))}
	if err == nil {
		info.Modified, err = s.putNew(ctx, name, data)
	}
	if err != nil {
		return store.Info{}, fmt.Errorf("put new %s: %w", name, err)
	}
	return info, nil
}

// putNew returns the server's time of the answer.
func (s *Store) putNew(ctx context.Context, name store.Name, data []byte) (time.Time, error) {
	t := newTag(data)
	earlier := false
	if before, ok := s.lost.LoadAndDelete(name); ok {
		if was, ok := before.(tag); ok && was.sum == t.sum {
			t, earlier = was, true
		}
	}
	at, err := s.send(ctx, name, data, t, free)
	if errors.Is(err, store.ErrTemporary) {
		s.lost.Store(name, t)
	}
	if !errors.Is(err, errTaken) {
		return at, err
	}
	if !earlier && name.Kind != store.Lease {
		return at, store.ErrExists
	}
	there, err := s.head(ctx, name)
	if errors.Is(err, store.ErrNotExist) {
		return at, fmt.Errorf("%w: the name was taken and is free now", store.ErrTemporary)
	}
	if err != nil {
		return at, err
	}
	if earlier && there.UserMetadata[tagKey] == t.random {
		return there.LastModified, nil
	}
	switch info, err := s.describe(ctx, name, there); {
	case err != nil:
		return at, err
	case info.Fence:
		return at, store.ErrFenced
	}
	return at, store.ErrExists
}

// Fence stores an object with the bytes of marker.
func (s *Store) Fence(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "fence", name)
	if err = cmp.Or(name.CheckFence(), store.Admit(ctx, name)); err != nil {
		return err
	}
	if _, err = s.putNew(ctx, name, []byte(marker)); errors.Is(err, store.ErrFenced) {
		return nil
	}
	return err
}

// free is the condition that nothing has a name.
const free = "*"

// send does one put, and returns the server's time of the answer. only is its condition: free, the ETag that the
// object must have, or "". If the answer is lost, it looks whether the object is there. A server may also refuse a name
// that is taken by ending the connection while the bytes are sent.
func (s *Store) send(ctx context.Context, name store.Name, data []byte, t tag, only string) (at time.Time, err error) {
	watch, alive, stop := watched(context.WithValue(ctx, dateKey{}, &at))
	defer stop()
	opt := minio.PutObjectOptions{DisableContentSha256: true, UserMetadata: map[string]string{tagKey: t.random}}
	if name.InFan() {
		opt.StorageClass = s.class
	}
	s.lock.set(&opt, name, t.sum)
	switch only {
	case "":
	case free:
		opt.SetMatchETagExcept(free)
	default:
		opt.SetMatchETag(only)
	}
	body := &paced{from: bytes.NewReader(data), ctx: watch, way: store.Upload, alive: alive}
	_, err = s.core.PutObject(watch, s.target.Bucket, s.path(name), body, int64(len(data)), "",
		hex.EncodeToString(t.sum[:]), opt)
	unclear := err != nil && minio.ToErrorResponse(err).StatusCode == 0
	if err = s.explain(ctx, err); !unclear || !errors.Is(err, store.ErrTemporary) || ctx.Err() != nil {
		return at, err
	}
	switch there, failed := s.head(ctx, name); {
	case failed != nil:
		return at, err
	case there.UserMetadata[tagKey] == t.random:
		return there.LastModified, nil
	case only == free:
		return at, errTaken
	}
	return at, err
}
