package s3

import (
	"context"
	"io"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// smallSize is at least what a config or a key has.
	smallSize = 64 << 10
	// smallKept is how long what Stat has read is kept for a Get.
	smallKept = 10 * time.Second
)

// readSmall is Stat by a GET, and keeps what it reads for one Get.
func (s *Store) readSmall(ctx context.Context, name store.Name) (store.Info, error) {
	watch, alive, stop := watched(ctx)
	defer stop()
	body, o, _, err := s.core.GetObject(watch, s.target.Bucket, s.path(name), minio.GetObjectOptions{})
	if err != nil {
		return store.Info{}, s.explain(ctx, err)
	}
	defer func() { _ = body.Close() }()
	s.reached.Store(true)
	s.lock.learn(name, o)
	info := store.Info{Name: name, Size: o.Size, Modified: o.LastModified.Truncate(time.Second)}
	if o.Size > smallSize {
		return info, nil // it is none of them
	}
	data, err := io.ReadAll(&paced{from: io.LimitReader(body, smallSize+1), ctx: watch, way: store.Download, alive: alive})
	if err == nil && int64(len(data)) != o.Size {
		err = errCut
	}
	if err != nil {
		return store.Info{}, s.explain(ctx, err)
	}
	s.read.Store(name, &data)
	time.AfterFunc(smallKept, func() { s.read.CompareAndDelete(name, &data) })
	return info, nil
}

// wasRead fills p with what Stat has read, once.
func (s *Store) wasRead(ctx context.Context, name store.Name, p []byte) bool {
	kept, ok := s.read.LoadAndDelete(name)
	if !ok || !store.ConnectedSince(ctx).IsZero() {
		return false
	}
	data, ok := kept.(*[]byte)
	return ok && len(p) == len(*data) && copy(p, *data) == len(p)
}
