package hashcache

import "errors"

var (
	// ErrBusy: another process uses the cache. OpenTemp makes a private one.
	ErrBusy = errors.New("the local cache is in use by another process")
	// ErrDamaged: the cache file does not hold what was written to it. Closing the cache removes the file, and the next
	// Open begins with an empty one.
	ErrDamaged = errors.New("the local cache is damaged; run the command again, the cache is then rebuilt")
	// ErrNoPack: no pack has that number.
	ErrNoPack = errors.New("no pack of that number in the local cache")
)
