package hashcache

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
)

var (
	// ErrBusy: another process uses the cache. OpenTemp makes a private one.
	ErrBusy = errors.New("the local cache is in use by another process")
	// ErrDamaged: the cache file does not hold what was written to it. Closing the cache removes the file, and the next
	// Open begins with an empty one.
	ErrDamaged = runs.ErrDamaged
	// ErrStopped: nothing was written, as the context of the Door had ended. The cause is wrapped beside it.
	ErrStopped = errors.New("called off")
	// ErrNoPack: no pack has that number.
	ErrNoPack = errors.New("no pack of that number in the local cache")
	// ErrTooMany: there are more blobs than have numbers.
	ErrTooMany = errors.New("this repository has too many blobs for this program")

	// errForeign: the file is a sound bbolt file, but not one for us.
	errForeign = errors.New("it belongs to another repository or another version of tidemark")
	errNoFile  = errors.New("it is not a regular file")
	errEnded   = errors.New("the batch of directories has ended")
)
