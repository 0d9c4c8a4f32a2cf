package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Lock is how long the server refuses to remove a version of a file (object lock).
type Lock struct {
	Mode string // "governance" (those whom the bucket allows can remove it) or "compliance"; "": no lock
	Term time.Duration
}

// ErrLock: a lock is malformed.
var ErrLock = errors.New("write a lock as governance:30d or compliance:30d")

// ParseLock reads a lock, such as compliance:30d; "" is none.
func ParseLock(text string) (l Lock, err error) {
	if text == "" {
		return Lock{}, nil
	}
	var term string
	l.Mode, term, _ = strings.Cut(text, ":")
	if days, ok := strings.CutSuffix(term, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 15)
		l.Term = time.Duration(n) * 24 * time.Hour
	} else {
		l.Term, err = time.ParseDuration(term)
	}
	if err != nil || l.Term < time.Second || l.Mode != "governance" && l.Mode != "compliance" {
		return Lock{}, fmt.Errorf("%w: %q", ErrLock, text)
	}
	return l, nil
}

// String returns the lock as ParseLock reads it.
func (l Lock) String() string {
	if days := l.Term / (24 * time.Hour); days > 0 && l.Term%(24*time.Hour) == 0 {
		return fmt.Sprintf("%s:%dd", l.Mode, days)
	}
	return l.Mode + ":" + l.Term.String()
}

func (l Lock) mode() minio.RetentionMode { return minio.RetentionMode(strings.ToUpper(l.Mode)) }

const (
	// lockKey is the metadata of the config that has the lock of the repository, for all machines.
	lockKey = "Tidemark-Lock"
	// sumHeader carries the SHA-256 in base64. Servers want it for objects with a lock.
	sumHeader = "X-Amz-Checksum-Sha256"
)

// lock is the lock of new files.
type lock struct {
	current atomic.Pointer[Lock]
	fixed   bool // an option names it
}

func newLock(l Lock) *lock {
	k := &lock{fixed: l != Lock{}}
	k.current.Store(&l)
	return k
}

// learn takes the lock from the config, unless an option names it.
func (k *lock) learn(name store.Name, o minio.ObjectInfo) error {
	if name.Kind != store.Config || k.fixed {
		return nil
	}
	l, err := ParseLock(o.UserMetadata[lockKey])
	if err != nil {
		return fmt.Errorf("the lock of this repository: %w", err)
	}
	k.current.Store(&l)
	return nil
}

// set adds the lock to a put of data with the SHA-256 sum.
func (k *lock) set(opt *minio.PutObjectOptions, name store.Name, sum [sha256.Size]byte) {
	l := *k.current.Load()
	if l.Mode == "" || !name.Kind.Locked() {
		return
	}
	opt.Mode, opt.RetainUntilDate = l.mode(), time.Now().Add(l.Term)
	opt.UserMetadata[sumHeader] = base64.StdEncoding.EncodeToString(sum[:])
	if name.Kind == store.Config {
		opt.UserMetadata[lockKey] = l.String()
	}
}

// Lock returns the lock of new files; nil: they have none.
func (s *Store) Lock() *store.Lock {
	l := *s.lock.current.Load()
	if l.Mode == "" {
		return nil
	}
	return &store.Lock{Term: l.Term, Extend: func(ctx context.Context, name store.Name) error {
		err := admit(ctx, name)
		if err == nil {
			err = s.extend(ctx, name, l)
		}
		if err != nil {
			return fmt.Errorf("extend the lock of %s: %w", name, err)
		}
		return nil
	}}
}

// extend locks the current version of a file from now on. A server refuses to shorten a lock.
func (s *Store) extend(ctx context.Context, name store.Name, l Lock) error {
	watch, _, stop := watched(ctx)
	defer stop()
	mode, until := l.mode(), time.Now().Add(l.Term).UTC().Truncate(time.Second)
	err := s.explain(ctx, s.core.PutObjectRetention(watch, s.target.Bucket, s.path(name),
		minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &until}))
	if !errors.Is(err, store.ErrDenied) {
		return err
	}
	o, failed := s.head(ctx, name)
	there, bad := time.Parse(time.RFC3339, o.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	if failed == nil && bad == nil && !there.Before(until) {
		return nil
	}
	return err
}

// requireLock returns an error if the bucket cannot lock objects.
func (s *Store) requireLock(ctx context.Context) error {
	enabled, _, _, _, err := s.core.GetObjectLockConfig(ctx, s.target.Bucket)
	if err == nil && enabled != "Enabled" {
		return s.lockless()
	}
	return s.explain(ctx, err)
}

func (s *Store) lockless() *store.Problem {
	return &store.Problem{What: "the bucket " + s.target.Bucket + " has no object lock",
		Do: "make a bucket with it (aws s3api create-bucket --object-lock-enabled-for-bucket, mc mb --with-lock), or " +
			"leave out --s3-lock", Kinds: []error{store.ErrDenied}}
}
