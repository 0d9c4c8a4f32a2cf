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
	config  atomic.Pointer[string] // what the config says
	fixed   atomic.Bool            // that does not count
}

func newLock(l Lock) *lock {
	k := &lock{}
	k.fixed.Store(l != Lock{})
	k.current.Store(&l)
	k.config.Store(new(string))
	return k
}

// learn takes the lock from the config, unless another one is kept. One that is malformed is none.
func (k *lock) learn(name store.Name, o minio.ObjectInfo) {
	if name.Kind != store.Config {
		return
	}
	text := o.UserMetadata[lockKey]
	k.config.Store(&text)
	if l, err := ParseLock(text); err == nil && !k.fixed.Load() {
		k.current.Store(&l)
	}
}

// keep replaces the lock, whatever the config says.
func (k *lock) keep(name string) error {
	l, err := ParseLock(name)
	if err == nil {
		k.fixed.Store(true)
		k.current.Store(&l)
	}
	return err
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

// Lock returns the lock of new files.
func (s *Store) Lock() *store.Lock {
	l := *s.lock.current.Load()
	name := ""
	if l.Mode != "" {
		name = l.String()
	}
	return &store.Lock{Name: name, Config: *s.lock.config.Load(), Term: l.Term, Keep: s.lock.keep, Extend: func(
		ctx context.Context, name store.Name) error {
		err := store.Admit(ctx, name)
		if err == nil {
			err = s.extend(ctx, name, l)
		}
		if err != nil {
			return fmt.Errorf("extend the lock of %s: %w", name, err)
		}
		return nil
	}}
}

// extend locks the current version of a file from now on. A server refuses to shorten a lock, and to change its mode:
// then a new version gets the lock.
func (s *Store) extend(ctx context.Context, name store.Name, l Lock) error {
	if name.Kind == store.Config && *s.lock.config.Load() != l.String() {
		text := l.String()
		err := s.renew(ctx, name)
		if err == nil {
			s.lock.config.Store(&text)
		}
		return err
	}
	watch, _, stop := watched(ctx)
	defer stop()
	mode, until := l.mode(), time.Now().Add(l.Term).UTC().Truncate(time.Second)
	err := s.explain(ctx, s.core.PutObjectRetention(watch, s.target.Bucket, s.path(name),
		minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &until}))
	if !errors.Is(err, store.ErrDenied) {
		return err
	}
	o, failed := s.head(ctx, name)
	if failed != nil {
		return failed
	}
	there, bad := time.Parse(time.RFC3339, o.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	switch found := minio.RetentionMode(o.Metadata.Get("X-Amz-Object-Lock-Mode")); {
	case bad == nil && !there.Before(until) && (found == mode || found == minio.Compliance):
		return nil
	case bad == nil && found.IsValid() && found != mode:
		return s.renew(ctx, name)
	}
	return err
}

// renew stores a file once more, as it is.
func (s *Store) renew(ctx context.Context, name store.Name) error {
	info, err := s.Stat(ctx, name)
	if err != nil {
		return err
	}
	data := make([]byte, max(0, info.Size))
	if err := s.Get(ctx, name, 0, data); err != nil {
		return err
	}
	return s.Put(ctx, name, data)
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
