package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// removeTimeout bounds the removal of scratch objects.
const removeTimeout = time.Minute

// Scratch calls use with the name of a prefix below that of the Store, and removes its objects afterwards, also after
// ctx has ended. open returns an empty store at a prefix next to it. Objects of programs that were killed are removed
// after a day.
func (s *Store) Scratch(ctx context.Context,
	use func(name string, open func(name string) store.Store) error) (err error) {
	if err := s.findBucket(ctx); err != nil {
		return err
	}
	name := store.TempName(store.ScratchPrefix)
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if failed := s.clear(end, name, time.Now()); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove temporary objects %s: %w", name, failed))
		}
	}()
	return use(name, func(name string) store.Store {
		one := *s
		one.target.Prefix, one.reached, one.lost = s.target.key(name), &atomic.Bool{}, &sync.Map{}
		one.read, one.lock = &sync.Map{}, newLock(Lock{}) // what is locked could not be removed
		one.reached.Store(true)
		return &one
	})
}

// clear removes the objects of a scratch prefix, and stale ones of others.
func (s *Store) clear(ctx context.Context, name string, now time.Time) error {
	for o := range s.core.ListObjectsIter(ctx, s.target.Bucket, minio.ListObjectsOptions{
		Prefix: s.target.key(store.ScratchPrefix), Recursive: true,
	}) {
		if o.Err != nil {
			return s.explain(ctx, o.Err)
		}
		if strings.HasPrefix(o.Key, s.target.key(name)+"/") || o.LastModified.Before(now.Add(-store.StaleAfter)) {
			err := s.core.RemoveObject(ctx, s.target.Bucket, o.Key, minio.RemoveObjectOptions{})
			if err = s.explain(ctx, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Describe describes the connection to the server.
func (s *Store) Describe(ctx context.Context) (store.Link, error) {
	if err := s.findBucket(ctx); err != nil {
		return store.Link{}, err
	}
	l := store.Link{Protocol: "s3", Server: s.target.Host(), Source: s.target.Endpoint + "/" + s.target.Bucket,
		What:    "S3 with " + s.target.Host() + ", encrypted (TLS).",
		Durable: "The server compares the SHA-256 of each object before it acknowledges it.", Conditional: true}
	if s.core.EndpointURL().Scheme != "https" {
		l.What = "S3 with " + s.target.Host() + " without TLS."
		l.Remedy = "others on the network can read the names of the objects, and replay requests: switch on TLS on the server"
	}
	return l, nil
}
